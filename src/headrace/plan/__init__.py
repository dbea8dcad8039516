"""The logical plan: frozen nodes with structures, specs, cardinalities and marks.

Everything imports it. It describes and never runs: it knows no block, no stream and no thread.
"""
