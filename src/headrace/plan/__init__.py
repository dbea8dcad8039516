"""What a pipeline is: frozen nodes, with structures, specs and cardinalities."""
