"""Decode images whose headers were read, by the kernel or library for their format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column, column_of
from headrace.columns.arrow_text import Bytes, Offsets, parts
from headrace.core.types import Array, DType
from headrace.errors import ParseError
from headrace.image.bmp import check_bmp
from headrace.image.channels import with_channels, with_depth
from headrace.image.clean_png import MAX_INFLATED_PER_BYTE, clean_png
from headrace.image.codecs import BMP, GIF, JPEG, KINDS, PNG, image_library, read_headers
from headrace.image.images import column_of_images, new_images
from headrace.image.jpeg import JpegDecoder, smallest_scale

if TYPE_CHECKING:
    import pyarrow as pa


def decode_images(values: Bytes, offsets: Offsets, headers: NDArray[np.int64], channels: int, dtype: DType) -> Column:
    """Decode all images of a column, whose headers were read."""
    kinds = headers[:, 0].tolist()
    if dtype == np.uint8 and channels in (0, 1, 3) and set(kinds) == {JPEG}:
        return JpegDecoder().decode_rows(values, offsets, headers, channels)
    if dtype == np.uint8 and set(kinds) == {PNG}:
        return _decode_pngs(values, offsets, headers, channels)
    cuts = offsets.tolist()
    made = [
        decode_any(values[cuts[i] : cuts[i + 1]], kinds[i], headers[i], channels, dtype, i) for i in range(len(headers))
    ]
    return column_of(made) if made else np.empty((0, 0, 0, channels or 1), dtype)


def _decode_pngs(values: Bytes, offsets: Offsets, headers: NDArray[np.int64], channels: int) -> Column:
    """Decode all by a kernel; those that are rarer or damaged by a library, which knows what can be made of them."""
    shapes = headers[:, 1:4].copy()
    if channels:
        shapes[:, 2] = channels
    # memory is taken for pixels that can be there
    shapes[headers[:, 1:3].prod(1, dtype=np.float64) > np.diff(offsets) * MAX_INFLATED_PER_BYTE] = (0, 0, 1)
    data, starts = new_images(shapes, np.uint8)
    made = np.zeros(len(shapes), np.bool_)
    _native.decode_pngs(values, offsets, shapes, starts, data, made)
    if made.all():
        return column_of_images(data, shapes)
    images: list[Array] = []
    for i, (whole, start, shape) in enumerate(zip(made.tolist(), starts.tolist(), shapes.tolist(), strict=True)):
        if whole:
            images.append(data[start : start + math.prod(shape)].reshape(shape))
        else:
            pixels = decode_with_opencv(values[offsets[i] : offsets[i + 1]], PNG, headers[i], i)
            images.append(with_depth(with_channels(pixels, channels), np.dtype(np.uint8)))
    return column_of(images)


def decode_any(content: Bytes, kind: int, header: NDArray[np.int64], channels: int, dtype: DType, row: int) -> Array:
    """Return one image of any kind."""
    if kind == JPEG:
        stored = 1 if header[3] == 1 else 3
        pixels: Array = np.empty(
            (int(header[1]), int(header[2]), 1 if channels in (1, 2) else (channels and 3) or stored), np.uint8
        )
        JpegDecoder().decode(content, pixels, header, row)
    elif kind == PNG and dtype == np.uint8:
        return _decode_pngs(content, np.array([0, len(content)]), header[None], channels)[0]  # type: ignore[no-any-return]
    else:
        pixels = decode_with_opencv(content, kind, header, row)
    return with_depth(with_channels(pixels, channels), dtype)


def decode_with_opencv(content: Bytes, kind: int, header: NDArray[np.int64], row: int) -> Array:
    """Return the pixels as they are stored, colours in the order of RGB."""
    cv2 = image_library("cv2")
    if kind == PNG:
        content = clean_png(content, row)
    if kind == BMP:
        check_bmp(content, row)
    try:
        made = cv2.imdecode(content, cv2.IMREAD_COLOR_RGB if kind == GIF else cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise ParseError(f"a {KINDS[kind]} that is damaged: {error}", row) from None
    if made is None:
        raise ParseError(f"a {KINDS[kind]} that is damaged or breaks off", row)
    if made.ndim == 2:
        return made[:, :, None]  # type: ignore[no-any-return]
    if kind == PNG and header[3] == 2:
        return np.ascontiguousarray(made[:, :, [0, 3]])
    if kind == GIF:
        return made  # type: ignore[no-any-return]
    return cv2.cvtColor(made, cv2.COLOR_BGRA2RGBA if made.shape[2] == 4 else cv2.COLOR_BGR2RGB)  # type: ignore[no-any-return]


def decode_for_size(
    rows: pa.LargeBinaryArray, size: tuple[int, int] | None, channels: int, max_pixels: int | None
) -> Iterator[NDArray[np.uint8]]:
    """Yield each image in turn, to be used before the next is requested; a JPEG at a scale that covers the `size`."""
    values, offsets = parts(rows)
    headers = read_headers(values, offsets, max_pixels)
    jpeg = JpegDecoder() if (headers[:, 0] == JPEG).any() else None
    memory = np.empty(0, np.uint8)
    for i, header in enumerate(headers):
        content = values[offsets[i] : offsets[i + 1]]
        if jpeg is None or header[0] != JPEG or header[3] == 4 or channels == 4:
            yield decode_any(content, int(header[0]), header, channels, np.dtype(np.uint8), i)
            continue
        height, width = header[1:3].tolist()
        if size is not None:
            height, width = smallest_scale(height, width, *size)
        needed = height * width * channels
        memory = memory if len(memory) >= needed else np.empty(needed, np.uint8)
        pixels = memory[:needed].reshape(height, width, channels)
        jpeg.decode(content, pixels, header, i)
        yield pixels
