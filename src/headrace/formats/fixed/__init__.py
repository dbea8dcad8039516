"""Records of a fixed length.

It knows `formats.shared`; no other format.
"""
