"""Whether a BMP has the bytes that its header promises, told before a library takes memory for them."""

from __future__ import annotations

import struct

from headrace.columns.arrow_text import Bytes
from headrace.errors import ParseError

HEADER = struct.Struct("<IIiiHHI")
"""Where pixels begin, size of the header, width, height, planes, bits of a pixel and compression."""
HEADER_AT = 10
RUN_LENGTHS = (1, 2)
MAX_PIXELS_PER_RUN_BYTE = 128
"""A run of up to 255 pixels takes two bytes."""


def check_bmp(content: Bytes, row: int) -> None:
    """Refuse a BMP that is too short to hold its pixels.

    Raises:
        ParseError: It breaks off.
    """
    try:
        begin, _, width, height, _, bits, compression = HEADER.unpack_from(content.data, HEADER_AT)
    except struct.error:
        raise ParseError("a BMP that ends within its header", row) from None
    left = len(content) - begin
    if compression in RUN_LENGTHS:
        enough = abs(width * height) <= left * MAX_PIXELS_PER_RUN_BYTE
    else:
        enough = (abs(width) * bits + 31) // 32 * 4 * abs(height) <= left + 4  # some writers leave out the last padding
    if not enough:
        raise ParseError(
            f"a BMP that breaks off: {left} bytes are too few for {abs(height)} × {abs(width)} pixels", row
        )
