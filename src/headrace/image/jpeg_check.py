"""Whether our decoder of JPEGs has the pixels of simplejpeg on this machine."""

from __future__ import annotations

import platform
from functools import cache

import numpy as np

from headrace import _native
from headrace.image.codecs import image_library


@cache
def has_same_pixels(*, fast_dct: bool) -> bool:
    """Return whether windows have the bits that simplejpeg gives to whole images.

    Our kernels compute what libjpeg-turbo's vector code for x86 does, on all machines. On others libjpeg-turbo's own
    fast transform may round differently. Then simplejpeg decodes whole images, so that one machine has one result.
    """
    return platform.machine().lower() in ("x86_64", "amd64") or _agrees(fast_dct)


def _agrees(fast_dct: bool) -> bool:
    """Decode windows of small images in the ways that there are, and compare them with simplejpeg's."""
    simplejpeg = image_library("simplejpeg")
    y, x, c = np.mgrid[:70, :83, :3]
    pixels = (x * 7 * (c + 1) + y * (5 - c) + (x * y) % (11 + c) * 9).astype(np.uint8)
    top, left, height, width = 33, 35, 20, 30
    window, start = np.array([[top, left, height, width, 0]]), np.zeros(1, np.int64)
    for sampling in ("444", "422", "420"):
        encoded = simplejpeg.encode_jpeg(pixels, 85, colorsubsampling=sampling)
        values = np.frombuffer(encoded, np.uint8)
        for fast_upsampling in (False, True):
            out, made = np.zeros(height * width * 3, np.uint8), np.zeros(1, np.bool_)
            offsets, shape = np.array([0, len(values)]), np.array([pixels.shape], np.int64)
            _native.decode_jpegs(values, offsets, shape, window, fast_dct, fast_upsampling, start, out, made)
            whole = simplejpeg.decode_jpeg(encoded, fastdct=fast_dct, fastupsample=fast_upsampling)
            cut = whole[top : top + height, left : left + width]
            if not made[0] or not np.array_equal(cut, out.reshape(height, width, 3)):
                return False
    return True
