"""JPEGs by our kernel, window by window, or by simplejpeg; into memory that is there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column
from headrace.columns.arrow_text import Bytes, Offsets
from headrace.core.types import Array
from headrace.errors import ParseError
from headrace.image.clean_jpeg import clean_jpeg
from headrace.image.codecs import image_library
from headrace.image.images import column_of_images, new_images
from headrace.image.jpeg_check import has_same_pixels
from headrace.image.resizing import Resizing


class JpegDecoder:
    """How JPEGs are decoded, into memory that is there."""

    def __init__(self, *, fast_dct: bool = True, fast_upsampling: bool = False, recover: bool = False) -> None:
        self._library = image_library("simplejpeg")
        self._fast_dct = fast_dct
        self._fast_upsampling = fast_upsampling
        self._recover = recover

    def decode_rows(
        self, values: Bytes, offsets: Offsets, headers: NDArray[np.int64], channels: int = 0, ratio: int = 1
    ) -> Column:
        """Decode all of a column, whose headers were read, into one array."""
        shapes = np.empty((len(headers), 3), np.int64)
        shapes[:, :2] = -(-headers[:, 1:3] // ratio)
        shapes[:, 2] = channels or np.where(headers[:, 3] == 1, 1, 3)
        data, starts = new_images(shapes, np.uint8)
        if ratio == 1:
            windows = np.zeros((len(headers), 5), np.int64)
            windows[:, 2:4] = headers[:, 1:3]
            self.decode_windows(values, offsets, headers, windows, shapes, data, starts)
        else:
            for i, content in enumerate(_each(values, offsets)):
                start, shape = int(starts[i]), shapes[i].tolist()
                self.decode(content, data[start : start + math.prod(shape)].reshape(shape), headers[i], i)
        return column_of_images(data, shapes)

    def decode_windows(
        self,
        values: Bytes,
        offsets: Offsets,
        headers: NDArray[np.int64],
        windows: NDArray[np.int64],
        shapes: NDArray[np.int64],
        out: NDArray[np.uint8],
        starts: NDArray[np.int64],
    ) -> None:
        """Fill `out` with a window of each image, of these shapes, from these starts on."""
        whole = np.hstack([headers[:, 1:3], shapes[:, 2:]])
        made = np.zeros(len(headers), np.bool_)
        if self._in_windows(windows):
            _native.decode_jpegs(
                values, offsets, whole, windows, self._fast_dct, self._fast_upsampling, starts, out, made
            )
        memory = np.empty(0, np.uint8)
        for i in np.flatnonzero(~made).tolist():
            top, left, height, width, mirrored = windows[i].tolist()
            into = out[starts[i] : int(starts[i]) + math.prod(shapes[i].tolist())].reshape(shapes[i])
            content = values[offsets[i] : offsets[i + 1]]
            if (height, width) == tuple(headers[i, 1:3].tolist()) and not mirrored:
                self.decode(content, into, headers[i], i)
                continue
            pixels, memory = self._decode_whole(content, whole[i], headers[i], i, memory)
            window = pixels[top : top + height, left : left + width]
            into[...] = window[:, ::-1] if mirrored else window

    def resize_windows(
        self,
        values: Bytes,
        offsets: Offsets,
        headers: NDArray[np.int64],
        windows: NDArray[np.int64],
        how: Resizing,
        out: Array,
    ) -> None:
        """Fill `out` with a window of each image, resized."""
        count, channels = out.shape[0], out.shape[3]
        whole = np.hstack([headers[:, 1:3], np.full((count, 1), channels)])
        made = np.zeros(count, np.bool_)
        if self._in_windows(windows):
            _native.decode_and_resize_jpegs(
                values,
                offsets,
                whole,
                windows,
                self._fast_dct,
                self._fast_upsampling,
                *how.arguments(slice(None)),
                out.reshape(-1),
                made,
            )
        memory, first = np.empty(0, np.uint8), np.zeros(1, np.int64)
        for i in np.flatnonzero(~made).tolist():
            content = values[offsets[i] : offsets[i + 1]]
            pixels, memory = self._decode_whole(content, whole[i], headers[i], i, memory)
            one = slice(i, i + 1)
            _native.resize_windows(
                pixels.reshape(-1), first, whole[one], windows[one], *how.arguments(one), out[i].reshape(-1)
            )

    def _in_windows(self, windows: NDArray[np.int64]) -> bool:
        """Return whether the kernel that decodes windows may be used."""
        return (
            not self._recover
            and len(windows) > 0
            and bool((windows[:, 2:4] > 0).all())
            and has_same_pixels(fast_dct=self._fast_dct)
        )

    def _decode_whole(
        self, content: Bytes, shape: NDArray[np.int64], header: NDArray[np.int64], row: int, memory: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return one image, and the memory that it is in, for the next one."""
        size = math.prod(shape.tolist())
        memory = memory if len(memory) >= size else np.empty(size, np.uint8)
        pixels = memory[:size].reshape(shape)
        self.decode(content, pixels, header, row)
        return pixels, memory

    def decode(self, content: Bytes, into: NDArray[np.uint8], header: NDArray[np.int64], row: int) -> None:
        """Fill `into` at its size: that of the image, or one that a scaled transform gives."""
        height, width, channels = into.shape
        _, whole_height, whole_width, stored, _ = header.tolist()
        scaled = (height, width) != (whole_height, whole_width)
        if stored == 4:
            colors = np.empty((whole_height, whole_width, 4), np.uint8)
            self._decode_cmyk(self._decode(content, {"colorspace": "CMYK", "fastdct": False}, colors, row), into)
            return
        how = {
            "colorspace": "GRAY" if channels == 1 else "RGB",
            "fastdct": self._fast_dct,
            "fastupsample": self._fast_upsampling,
        }
        if scaled:
            how |= {"min_height": height, "min_width": width}
        made = self._decode(content, how, into, row)
        if made.shape[:2] != (height, width):
            raise ParseError(
                f"a JPEG that says {height} × {width} and has {made.shape[0]} × {made.shape[1]} pixels", row
            )

    def _decode(self, content: Bytes, how: dict[str, Any], into: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        try:
            return self._call_library(content, how, into)
        except ValueError:
            content = clean_jpeg(content)
        try:
            return self._call_library(content, how, into)
        except ValueError as error:
            return self._decode_with_flaws(content, how, into, error, row)

    def _decode_with_flaws(
        self, content: Bytes, how: dict[str, Any], into: NDArray[np.uint8], error: ValueError, row: int
    ) -> NDArray[np.uint8]:
        """Return what the library calls an error and a reader may skip: anything but pixels that are missing.

        The library returns too if it gave up. It writes the rows in order, so that the last one then keeps its mark.
        """
        if not self._recover and ("remature end" in str(error) or not _ends(content)):
            raise ParseError(f"a JPEG that is damaged or breaks off: {error}", row) from None
        for mark in (0, 255):
            into[-1] = mark
            try:
                made = self._call_library(content, how | {"strict": False}, into)
            except ValueError as worse:
                raise ParseError(f"a JPEG that is damaged: {worse}", row) from None
            if (into[-1] != mark).any():
                return made
        raise ParseError(f"a JPEG that is damaged: {error}", row) from None

    def _call_library(self, content: Bytes, how: dict[str, Any], into: NDArray[np.uint8]) -> NDArray[np.uint8]:
        made: NDArray[np.uint8] = self._library.decode_jpeg(content, **how, buffer=into)
        return made

    def _decode_cmyk(self, stored: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
        """Convert the pixels of a JPEG of four colours, which stores them inverted, to those that OpenCV gives."""
        height, width, channels = into.shape
        key = stored[:, :, 3:].astype(np.int32)
        made: Array = key - ((255 - stored[:, :, :3].astype(np.int32)) * key >> 8)
        if channels == 1:
            made = (made @ GREY_WEIGHTS + (1 << GREY_BITS - 1)) >> GREY_BITS
        made = made.astype(np.uint8)
        if made.shape[:2] != (height, width):
            cv2 = image_library("cv2")
            made = cv2.resize(made, (width, height), interpolation=cv2.INTER_AREA)
        into[...] = made.reshape(into.shape)


GREY_BITS = 14
GREY_WEIGHTS = np.array([4899, 9617, 1868], np.int32)
"""Those of red, green and blue in grey, as OpenCV has them."""


def _each(values: Bytes, offsets: Offsets) -> Iterator[Bytes]:
    cuts = offsets.tolist()
    return (values[cuts[i] : cuts[i + 1]] for i in range(len(cuts) - 1))


def _ends(content: Bytes) -> bool:
    """Return whether the marker of the end is among the last bytes."""
    return b"\xff\xd9" in content[-64:].tobytes()


def smallest_scale(height: int, width: int, least_height: int, least_width: int) -> tuple[int, int]:
    """Return the size at the smallest of the scales 1/8, 1/4 and 1/2 that covers this size, or the full size.

    Of others the transform takes longer than at the whole size.
    """
    for eighths in (1, 2, 4):
        scaled = -(-height * eighths // 8), -(-width * eighths // 8)
        if scaled[0] >= least_height and scaled[1] >= least_width:
            return scaled
    return height, width
