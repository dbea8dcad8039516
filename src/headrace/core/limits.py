"""Bounds that hold for records of any format."""

MAX_RECORD_BYTES = 256 << 20
"""A record that must be copied or decompressed has no more bytes, unless `hr.Options(max_record_bytes=…)` says more."""
