"""JPEGs whose headers are flawed, written anew: decoders warn of the flaws, and simplejpeg refuses them."""

from __future__ import annotations

import numpy as np

from headrace.columns.arrow_text import Bytes

_APP0, _SOS, _EOI = 0xE0, 0xDA, 0xD9
_ALONE = (0x01, *range(0xD0, 0xD9))
"""Markers without a length."""


def clean_jpeg(content: Bytes) -> Bytes:
    """Return a JPEG with the same pixels, without the flaws before them that decoders skip with a warning.

    These are bytes between segments, and a revision of JFIF other than 1.
    """
    data = content.tobytes()
    kept, at = [data[:2]], 2
    while 0 <= at < len(data):
        at = data.find(b"\xff", at)
        marker, length = data[at + 1 : at + 2], int.from_bytes(data[at + 2 : at + 4], "big")
        if at < 0 or not marker:
            break
        if marker[0] in (0x00, 0xFF):  # no marker, or a byte that fills
            at += 2 - marker[0] // 0xFF
            continue
        size = 2 if marker[0] in _ALONE else 2 + length
        segment = data[at : at + size]
        if marker[0] == _APP0 and segment[4:9] == b"JFIF\0":
            segment = segment[:9] + b"\x01" + segment[10:]
        kept.append(segment)
        at += size
        if marker[0] in (_SOS, _EOI):
            kept.append(data[at:])
            break
    return np.frombuffer(b"".join(kept), np.uint8)
