"""Pixels with other channels, or of another depth."""

from __future__ import annotations

import numpy as np

from headrace.core.types import Array, DType
from headrace.image.convert import convert_values

GREY = (9798, 19234, 3736)
"""The weights of red, green and blue in gray, in units of 1/32768: JPEG's luminance."""


def with_depth(pixels: Array, dtype: DType) -> Array:
    """Return the upper bits of more, the bits of less repeated; in float32, numbers from 0 to 1."""
    if pixels.dtype == dtype:
        return pixels
    if dtype == np.uint8:
        made: Array = (pixels >> 8).astype(np.uint8)
        return made
    if dtype == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(257)
    return convert_values(pixels, dtype)


def with_channels(pixels: Array, channels: int) -> Array:
    """Grey is repeated, colours become grey, an alpha is dropped or is full."""
    stored = pixels.shape[2]
    if channels in (0, stored):
        return pixels
    colours, alpha = (pixels[:, :, :-1], pixels[:, :, -1:]) if stored in (2, 4) else (pixels, None)
    if channels < 3 and colours.shape[2] == 3:
        colours = _grey(colours)
    elif channels > 2 and colours.shape[2] == 1:
        colours = np.repeat(colours, 3, 2)
    if channels in (1, 3):
        return np.ascontiguousarray(colours)
    full = 1 if pixels.dtype.kind == "f" else np.iinfo(pixels.dtype).max
    alpha = np.full((*pixels.shape[:2], 1), full, pixels.dtype) if alpha is None else alpha
    return np.concatenate([colours, alpha], 2)


def _grey(colours: Array) -> Array:
    weighted = (colours.astype(np.int64) * np.array(GREY)).sum(2, keepdims=True)
    made: Array = (weighted >> 15).astype(colours.dtype)
    return made
