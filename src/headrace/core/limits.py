"""Bounds that hold for records of any format."""

MAX_RECORD_BYTES = 256 << 20
"""The most bytes of a record that must be copied or decompressed, unless `hr.Options(max_record_bytes=…)` is set."""
