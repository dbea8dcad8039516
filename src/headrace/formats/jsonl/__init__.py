"""JSON lines: one object a line, with inferred or given types.

It knows `formats.shared`, lines from `formats.text`, and the choice of columns from `formats.tables`.
"""
