"""The libjpeg-turbo that decodes windows of JPEGs: the one that Pillow brings, or the system's."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from headrace import _native
from headrace.image.codecs import image_library

SYSTEM_NAMES = ("libjpeg.so.62", "libjpeg.62.dylib")


@cache
def decodes_windows() -> bool:
    """Return whether a libjpeg-turbo was found whose pixels are those of simplejpeg, to the bit.

    Without one, images are decoded whole by simplejpeg: the same pixels, in more time.
    """
    for path in _candidates():
        if _native.use_jpeg_library(path):
            return _agrees()
    return False


def _candidates() -> Iterator[str]:
    pillow = importlib.util.find_spec("PIL")
    for folder in pillow.submodule_search_locations or () if pillow is not None else ():
        package = Path(folder)
        for place, pattern in (
            (package.parent / "pillow.libs", "libjpeg-*.so.62*"),
            (package / ".dylibs", "libjpeg*.dylib"),
        ):
            yield from (str(path) for path in sorted(place.glob(pattern)))
    yield from SYSTEM_NAMES


def _agrees() -> bool:
    """Decode windows of small images in the ways that there are, and compare them with simplejpeg's."""
    simplejpeg = image_library("simplejpeg")
    y, x, c = np.mgrid[:70, :83, :3]
    pixels = (x * 7 * (c + 1) + y * (5 - c) + (x * y) % (11 + c) * 9).astype(np.uint8)
    top, left, height, width = 33, 35, 20, 30
    window, start = np.array([[top, left, height, width, 0]]), np.zeros(1, np.int64)
    for sampling in ("444", "422", "420"):
        encoded = simplejpeg.encode_jpeg(pixels, 85, colorsubsampling=sampling)
        values = np.frombuffer(encoded, np.uint8)
        for fast_dct, fast_upsampling in ((True, False), (False, True)):
            out, made = np.zeros(height * width * 3, np.uint8), np.zeros(1, np.bool_)
            offsets, shape = np.array([0, len(values)]), np.array([pixels.shape], np.int64)
            _native.decode_jpegs(values, offsets, shape, window, fast_dct, fast_upsampling, start, out, made)
            whole = simplejpeg.decode_jpeg(encoded, fastdct=fast_dct, fastupsample=fast_upsampling)
            cut = whole[top : top + height, left : left + width]
            if not made[0] or not np.array_equal(cut, out.reshape(height, width, 3)):
                return False
    return True
