"""JSON lines: one object a line, with inferred or given types.

It knows `formats.shared`; no other format.
"""
