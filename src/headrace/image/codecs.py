"""The libraries that know the formats of images, and what a file says of itself before any of it is decoded."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.arrow_text import Bytes, Offsets
from headrace.errors import ParseError

KINDS = ("no image that is known", "JPEG", "PNG", "GIF", "WebP", "BMP")
JPEG, PNG, GIF, WEBP, BMP = range(1, 6)

MAX_PIXELS = 1 << 27
"""By default images of more pixels are refused: 134 million, 400 MB of colours."""


@cache
def image_library(module: str) -> Any:
    """`simplejpeg`, `cv2` or `PIL.Image`, imported when the first image is met."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"hr.image needs {module}, which is not installed: pip install 'headrace[image]'", name=error.name
        ) from None
    if module == "cv2":
        found.setNumThreads(0)  # threads are the pipeline's business
    return found


def read_headers(values: Bytes, offsets: Offsets, max_pixels: int | None, only: int | None = None) -> NDArray[np.int64]:
    """Kind, height, width, channels and depth of each image; refuses what is none, or larger than `max_pixels`."""
    found = np.zeros((len(offsets) - 1, 5), np.int64)
    _native.image_headers(values, offsets, found)
    wrong = found[:, 0] == 0 if only is None else found[:, 0] != only
    if wrong.any():
        row = int(wrong.argmax())
        size = int(offsets[row + 1] - offsets[row])
        head = values[offsets[row] : offsets[row] + min(size, 8)].tobytes()
        wanted = "an image in a known format" if only is None else KINDS[only]
        what = (
            f"it is {KINDS[found[row, 0]]}" if found[row, 0] else f"it begins with {head!r}" if size else "it is empty"
        )
        raise ParseError(f"{wanted} is needed, and {what}", row)
    empty = (found[:, 1:3] < 1).any(1)
    if empty.any():
        row = int(empty.argmax())
        raise ParseError(f"a {KINDS[found[row, 0]]} that ends before it says how large it is", row)
    if max_pixels is not None:
        large = found[:, 1].astype(np.float64) * found[:, 2] > max_pixels
        if large.any():
            row = int(large.argmax())
            height, width = found[row, 1:3].tolist()
            raise ParseError(
                f"an image of {height} × {width} pixels, more than max_pixels={max_pixels}: give a larger one if it is "
                "to be trusted",
                row,
            )
    return found
