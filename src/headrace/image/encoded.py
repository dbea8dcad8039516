"""JPEGs that are decoded where they are cropped and resized: only the window, without an image in between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column
from headrace.columns.arrow_text import Bytes, Offsets
from headrace.columns.dense import pooled
from headrace.core.types import Array, DType
from headrace.image.images import column_of_images, new_images
from headrace.image.jpeg import JpegDecoder
from headrace.image.resizing import FLOATS, NEAREST, TRUNCATED, UNSCALED, Resizing
from headrace.trace.values import Affine, Deferred


class EncodedJpegs(Deferred):
    """A column of JPEGs that are still encoded, and of each a window: top, left, height, width, mirrored or not."""

    dtype: np.dtype[np.uint8] = np.dtype(np.uint8)

    def __init__(
        self,
        decoder: JpegDecoder,
        values: Bytes,
        offsets: Offsets,
        headers: NDArray[np.int64],
        channels: int,
        windows: NDArray[np.int64] | None = None,
    ) -> None:
        self._source = (decoder, values, offsets, headers, channels)
        if windows is None:
            windows = np.zeros((len(headers), 5), np.int64)
            windows[:, 2:4] = headers[:, 1:3]
        self._windows = windows

    def __len__(self) -> int:
        return len(self._source[3])

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Height, width and channels of each window."""
        _, _, _, headers, channels = self._source
        found = np.empty((len(self), 3), np.int64)
        found[:, :2] = self._windows[:, 2:4]
        found[:, 2] = channels or np.where(headers[:, 3] == 1, 1, 3)
        return found

    @property
    def resizable(self) -> bool:
        """Whether the windows can be one array at one size."""
        shapes = self.shapes
        return len(self) > 0 and bool((shapes[:, 2] == shapes[0, 2]).all()) and bool((shapes[:, :2] >= 1).all())

    def cut(self, cuts: NDArray[np.int64]) -> EncodedJpegs:
        """Return the windows of these windows, in their pixels."""
        before, windows = self._windows, cuts.copy()
        mirrored = before[:, 4] != 0
        lefts = np.where(mirrored, before[:, 3] - cuts[:, 1] - cuts[:, 3], cuts[:, 1])
        windows[:, 0] += before[:, 0]
        windows[:, 1] = lefts + before[:, 1]
        windows[:, 4] = (cuts[:, 4] != 0) ^ mirrored
        return EncodedJpegs(*self._source, windows)

    def column(self) -> Column:
        """Return the windows, decoded."""
        decoder, values, offsets, headers, _ = self._source
        shapes = self.shapes
        data, starts = new_images(shapes, np.uint8)
        decoder.decode_windows(values, offsets, headers, self._windows, shapes, data, starts)
        return column_of_images(data, shapes)

    def resize(self, how: Resizing) -> Array | None:
        """Return the windows at one size, bilinear; None if they differ in their channels."""
        if not self.resizable:
            return None
        decoder, values, offsets, headers, _ = self._source
        shapes = self.shapes
        out = pooled((len(self), *how.size, int(shapes[0, 2])), np.float32 if how.rounding == FLOATS else np.uint8)
        decoder.resize_windows(values, offsets, headers, self._windows, how, out)
        return out


class ResizedJpegs(Deferred):
    """A column of JPEGs that are still encoded and will be resized, bilinear, to one size."""

    def __init__(
        self,
        source: EncodedJpegs,
        size: tuple[int, int],
        dtype: DType,
        mirrored: NDArray[np.int64] | None = None,
        *,
        rint: bool = False,
    ) -> None:
        self._source = source
        self._size = size
        self._dtype = dtype
        self._mirrored = np.zeros(len(source), np.int64) if mirrored is None else mirrored
        self._rint = rint

    def __len__(self) -> int:
        return len(self._source)

    def flip(self, flags: NDArray[np.int64]) -> ResizedJpegs:
        """Return the images mirrored where a flag is set."""
        return ResizedJpegs(self._source, self._size, self._dtype, self._mirrored ^ (flags != 0), rint=self._rint)

    def column(self) -> Array:
        """Return the images in float32, or rounded in uint8."""
        if self._dtype == np.uint8:
            return self._make(NEAREST)
        made = self._make(FLOATS)
        return np.rint(made, out=made) if self._rint else made

    def rounded(self) -> ResizedJpegs | None:
        """Return the images in float32, rounded to integers, half to even."""
        if self._dtype != np.float32:
            return None
        return ResizedJpegs(self._source, self._size, self._dtype, self._mirrored, rint=True)

    def cast(self, dtype: DType) -> Array | None:
        """Return the images in uint8: pixels between those of an image are within its range."""
        if dtype != np.uint8 or self._dtype != np.float32:
            return None
        return self._make(NEAREST if self._rint else TRUNCATED)

    def scaled(self, how: Affine) -> Array | None:
        """Return the images in float32 after operations with numbers."""
        return None if self._rint or self._dtype != np.float32 else self._make(FLOATS, how)

    def _make(self, rounding: int, scaling: Affine = UNSCALED) -> Array:
        made = self._source.resize(Resizing(self._size, rounding, self._mirrored, scaling))
        assert made is not None, "checked when it was deferred"
        return made
