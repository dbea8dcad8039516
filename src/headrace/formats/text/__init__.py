"""Lines of text.

It knows `formats.shared`; no other format.
"""
