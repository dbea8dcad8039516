"""What is checked by type checkers alone is not imported."""

collect_ignore = ["user_program.py"]
