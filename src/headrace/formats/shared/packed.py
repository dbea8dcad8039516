"""Detect compressed files that were not declared as compressed."""

from __future__ import annotations

import zlib

MAGIC = {b"\x1f\x8b\x08": "GZIP", b"\x28\xb5\x2f\xfd": "ZSTD"}
MAGIC_BYTES = 4
"""How many bytes are needed to recognize a compression."""
PROBE_BYTES = 1024
"""How many bytes of a file are inspected if it seems to be something else."""


def packing(head: bytes) -> str:
    """Return the compression of a file that begins like this, as far as that is sure; "" if it has none."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


def likely_packing(head: bytes) -> str:
    """Return the compression of bytes that are not valid records. ZLIB has no magic number, but can be tried."""
    return packing(head) or ("ZLIB" if _unpacks(head) else "")


def remedy(compression: str) -> str:
    """Return the advice for an error about such a file."""
    return f"this is {compression} data: say compression_type={compression!r}"


def _unpacks(head: bytes) -> bool:
    if len(head) < 2 or head[0] & 15 != 8 or int.from_bytes(head[:2], "big") % 31:
        return False
    try:
        return bool(zlib.decompressobj().decompress(head, 1))
    except zlib.error:
        return False
