"""PNGs checked and written anew before a library sees them.

libpng takes memory for the length that a chunk states, and prints what it finds wrong on standard error. It is given
PNGs only that have nothing wrong: chunks that fit, checksums that are right, pixels that are all there.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np

from headrace.columns.arrow_text import Bytes
from headrace.errors import ParseError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_INFLATED_PER_BYTE = 1032
"""No compressed byte can stand for more bytes: the limit of Deflate."""
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PALETTE = 3
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Interlacing: first column and row of each pass, and the steps between columns and rows."""
MAX_FILTER = 4


class _Head(NamedTuple):
    """What IHDR states."""

    width: int
    height: int
    depth: int
    colour: int
    compression: int
    filter: int
    interlace: int

    @property
    def passes(self) -> list[tuple[int, int]]:
        """Rows, and bytes of a row with its filter, of each pass."""
        bits = self.depth * _SAMPLES[self.colour]
        sizes = [(self.width, self.height)]
        if self.interlace:
            sizes = [(-(-(self.width - x) // dx), -(-(self.height - y) // dy)) for x, y, dx, dy in _PASSES]
        return [(rows, 1 + (columns * bits + 7) // 8) for columns, rows in sizes if columns > 0 and rows > 0]


def clean_png(content: Bytes, row: int) -> Bytes:
    """Return a PNG with the same pixels that holds nothing but them and is right to the last byte.

    Args:
        content: The PNG as it was read.
        row: The number of the element, for errors.

    Raises:
        ParseError: It is damaged, or breaks off.
    """
    try:
        return np.frombuffer(_clean(content.data), np.uint8)
    except (ValueError, zlib.error, struct.error) as error:
        raise ParseError(f"a PNG that is damaged: {error}", row) from None


def _clean(data: memoryview) -> bytes:
    head: _Head | None = None
    palette, transparent = b"", b""
    packed: list[memoryview] = []
    at, ended = len(SIGNATURE), False
    while not ended:
        kind, body, at = _chunk(data, at)
        if head is None:
            if kind != b"IHDR":
                raise ValueError("it does not begin with its size")
            head = _head(body)
        elif kind == b"PLTE" and not packed:
            palette = bytes(body)
        elif kind == b"tRNS" and not packed:
            transparent = bytes(body)
        elif kind == b"IDAT":
            packed.append(body)
        ended = kind == b"IEND"
    if head is None:
        raise ValueError("it has no pixels")
    pixels = _pixels(head, packed)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", *head))]
    parts += _colours(head, palette, transparent)
    parts += [(b"IDAT", zlib.compress(pixels, 0)), (b"IEND", b"")]
    return SIGNATURE + b"".join(_framed(kind, body) for kind, body in parts)


def _chunk(data: memoryview, at: int) -> tuple[bytes, memoryview, int]:
    """Return the kind and content of a chunk, and where the next one begins; checks length and checksum."""
    if len(data) - at < 12:
        raise ValueError(f"it breaks off at byte {len(data)}")
    (length,) = struct.unpack(">I", data[at : at + 4])
    if length > len(data) - at - 12:
        raise ValueError(f"the chunk at byte {at} states {length} bytes, and {len(data) - at - 12} are left")
    kind, stop = bytes(data[at + 4 : at + 8]), at + 8 + length
    critical = not kind[0] & 32
    if critical and zlib.crc32(data[at + 4 : stop]) != struct.unpack(">I", data[stop : stop + 4])[0]:
        raise ValueError(f"checksum mismatch in the chunk at byte {at}")
    if critical and kind not in (b"IHDR", b"PLTE", b"IDAT", b"IEND"):
        raise ValueError(f"the chunk {kind!r} at byte {at} is not known")
    return kind, data[at + 8 : stop], stop + 4


def _head(body: memoryview) -> _Head:
    head = _Head._make(struct.unpack(">IIBBBBB", body))
    known = head.compression == head.filter == 0 and head.interlace in (0, 1)
    if not known or head.depth not in _DEPTHS.get(head.colour, ()) or not head.width * head.height > 0:
        raise ValueError(f"{head.depth} bits of kind {head.colour} are not known")
    return head


def _pixels(head: _Head, packed: list[memoryview]) -> bytes:
    """Return the filtered rows of all passes, unpacked."""
    needed = sum(rows * wide for rows, wide in head.passes)
    if needed > sum(map(len, packed)) * MAX_INFLATED_PER_BYTE:
        raise ValueError("it breaks off: it is too short to hold its pixels")
    unpacker = zlib.decompressobj()
    pixels = unpacker.decompress(b"".join(packed), needed)
    if len(pixels) < needed:
        raise ValueError(f"it breaks off: {len(pixels)} of {needed} bytes of pixels are there")
    if not unpacker.eof:
        unpacker.decompress(unpacker.unconsumed_tail, 1)  # raises if the checksum is wrong
    start = 0
    for rows, wide in head.passes:
        filters = np.frombuffer(pixels, np.uint8, rows * wide, start)[::wide]
        if filters.max() > MAX_FILTER:
            raise ValueError(f"a row has filter {filters.max()}, and there are {MAX_FILTER + 1}")
        start += rows * wide
    return pixels


def _colours(head: _Head, palette: bytes, transparent: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks PLTE and tRNS, if the pixels need them."""
    if head.colour == _PALETTE:
        most = 1 << head.depth
        if not palette or len(palette) % 3 or len(palette) > 768:
            raise ValueError("its palette is missing or damaged")
        whole = palette[: 3 * most].ljust(3 * most, b"\0")
        return [(b"PLTE", whole), *([(b"tRNS", transparent[:most])] if transparent else [])]
    samples = {0: 1, 2: 3}.get(head.colour, 0)
    if not samples or len(transparent) != 2 * samples:
        return []
    if max(struct.unpack(f">{samples}H", transparent)) >= 1 << head.depth:
        return []
    return [(b"tRNS", transparent)]


def _framed(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))
