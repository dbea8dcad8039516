"""Tables: Parquet and Arrow files, read by groups of rows, and Arrow types as columns.

It knows `formats.shared`; no other format.
"""
