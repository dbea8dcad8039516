"""TFRecord files: framed records with checksums.

It knows `formats.shared`; no other format.
"""
