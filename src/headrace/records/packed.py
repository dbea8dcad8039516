"""Compressed files that nobody said are compressed."""

from __future__ import annotations

import zlib

MAGIC = {b"\x1f\x8b\x08": "GZIP", b"\x28\xb5\x2f\xfd": "ZSTD"}
LEAST = 4
"""So many bytes tell."""
PROBED = 1024
"""So many bytes of a file are looked at where it seems to be something else."""


def packing(head: bytes) -> str:
    """The compression of a file that begins like this, as far as that is sure; "" if it has none."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


def likely_packing(head: bytes) -> str:
    """The same of bytes that are no records as they stand: ZLIB has no mark of its own, but can be tried."""
    return packing(head) or ("ZLIB" if _unpacks(head) else "")


def remedy(compression: str) -> str:
    """What to do about such a file."""
    return f"this is {compression} data: say compression_type={compression!r}"


def _unpacks(head: bytes) -> bool:
    if len(head) < 2 or head[0] & 15 != 8 or int.from_bytes(head[:2], "big") % 31:
        return False
    try:
        return bool(zlib.decompressobj().decompress(head, 1))
    except zlib.error:
        return False
