"""How much work a JPEG is, told by its markers before a library decodes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import Bytes, Offsets
from headrace.errors import ParseError

MAX_USUAL_SCANS = 16
"""Progressive JPEGs of any encoder have no more; those that have are bounded by scans × pixels."""
MAX_SCAN_PIXELS = 1 << 27
MAX_PIXELS_PER_BYTE = 512
"""A block of 64 pixels takes a bit or more, in any JPEG that is coded after Huffman."""
MIN_SCAN_BYTES = 10
_ARITHMETIC = range(0xC9, 0xD0)


def check_scans(
    values: Bytes, offsets: Offsets, headers: NDArray[np.int64], jpegs: NDArray[np.bool_], *, may_break_off: bool
) -> None:
    """Refuse a JPEG that would take far more work than its size tells.

    A progressive JPEG may pass over all pixels in each of its scans, and a scan may be a few bytes long.

    Args:
        values: The images, one behind the other.
        offsets: Where each begins and ends.
        headers: What `read_headers` found.
        jpegs: Which of them are JPEGs.
        may_break_off: Whether pixels may be missing.

    Raises:
        ParseError: One has too many scans, or too few bytes for its pixels.
    """
    sizes, pixels = np.diff(offsets), headers[:, 1] * headers[:, 2]
    small = jpegs & (sizes * MAX_PIXELS_PER_BYTE < pixels)
    scans = sizes // MIN_SCAN_BYTES
    many = jpegs & (scans > MAX_USUAL_SCANS) & (scans * pixels > MAX_SCAN_PIXELS)
    if many.any():
        _native.count_jpeg_scans(values, offsets, scans)
        many &= scans > MAX_USUAL_SCANS
    for row in np.flatnonzero(small | many).tolist():
        content = values[offsets[row] : offsets[row + 1]].tobytes()
        if small[row] and not may_break_off and not _is_arithmetic(content):
            height, width = headers[row, 1:3].tolist()
            raise ParseError(
                f"a JPEG that breaks off: {len(content)} bytes are too few for {height} × {width} pixels", row
            )
        if many[row] and (found := _count_scans(content)) > MAX_USUAL_SCANS and found * pixels[row] > MAX_SCAN_PIXELS:
            height, width = headers[row, 1:3].tolist()
            raise ParseError(
                f"a JPEG of {found} scans over {height} × {width} pixels: more work than {MAX_SCAN_PIXELS} pixels are; "
                "encode it again",
                row,
            )


def _is_arithmetic(data: bytes) -> bool:
    return any(data.find(bytes((0xFF, marker))) >= 0 for marker in _ARITHMETIC)


def _count_scans(data: bytes) -> int:
    """Return the number of scans up to the end of the image, without those of thumbnails."""
    scans, at = 0, 2
    while 0 <= at < len(data) - 3:
        if data[at] != 0xFF:
            at = data.find(b"\xff", at)
            continue
        marker = data[at + 1]
        if marker == 0xD9:
            break
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:  # pixels, fill bytes, markers without a length
            at += 1 if marker == 0xFF else 2
            continue
        scans += marker == 0xDA
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4]))
    return scans
