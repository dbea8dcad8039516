"""The image libraries, and reading of file headers before decoding."""

from __future__ import annotations

import importlib
import math
import os
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import Bytes, Offsets
from headrace.core.types import Library
from headrace.errors import ParseError
from headrace.image.jpeg_scans import check_scans

KINDS = ("no image that is known", "JPEG", "PNG", "GIF", "WebP", "BMP")
JPEG, PNG, GIF, WEBP, BMP = range(1, 6)

MAX_PIXELS = 1 << 27
"""By default images of more pixels are refused: 134 million, 400 MB of colours."""


@cache
def image_library(module: str) -> Library:
    """`simplejpeg`, `cv2` or `PIL.Image`, imported when the first image is met."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"hr.image needs {module}, which is not installed: pip install 'headrace[image]'", name=error.name
        ) from None
    if module == "cv2":
        found.setNumThreads(0)  # threads are the pipeline's business
        if "OPENCV_LOG_LEVEL" not in os.environ:
            logs = found.utils.logging
            logs.setLogLevel(logs.LOG_LEVEL_SILENT)  # else it prints what our errors say
    return found


def read_headers(
    values: Bytes,
    offsets: Offsets,
    max_pixels: int | None,
    only: int | None = None,
    *,
    may_break_off: bool = False,
) -> NDArray[np.int64]:
    """Return kind, height, width, channels and depth of each image.

    Args:
        values: The images, one behind the other.
        offsets: Where each begins and ends.
        max_pixels: The most pixels an image may have.
        only: The kind that all must have; any by default.
        may_break_off: Whether pixels of a JPEG may be missing.

    Raises:
        ParseError: One is no image, is larger than `max_pixels`, or a JPEG that would take too much work.
    """
    found = np.empty((len(offsets) - 1, 5), np.int64)
    row = _native.image_headers(values, offsets, only or 0, math.inf if max_pixels is None else max_pixels, found)
    if row >= 0:
        kind, height, width = found[row, :3].tolist()
        content = values[offsets[row] : offsets[row + 1]]
        raise ParseError(_why_refused(content, kind, (height, width), max_pixels, only), row)
    check_scans(values, offsets, found, found[:, 0] == JPEG, may_break_off=may_break_off)
    return found


def _why_refused(content: Bytes, kind: int, size: tuple[int, int], max_pixels: int | None, only: int | None) -> str:
    if not kind or (only is not None and kind != only):
        wanted = "an image in a known format" if only is None else KINDS[only]
        begins = f"it begins with {content[:8].tobytes()!r}" if len(content) else "it is empty"
        return f"{wanted} is needed, and {f'it is {KINDS[kind]}' if kind else begins}"
    if min(size) < 1:
        return f"a {KINDS[kind]} that ends before it says how large it is"
    return (
        f"an image of {size[0]} × {size[1]} pixels, more than max_pixels={max_pixels}: give a larger one if it is "
        "to be trusted"
    )
