"""Pictures and their bytes, as TensorFlow decodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, column_of, values
from headrace.columns.arrow_text import parts
from headrace.core.types import Array, DType
from headrace.errors import ParseError
from headrace.image.codecs import GIF, KINDS, MAX_PIXELS, read_headers
from headrace.image.decode_rows import decode_images
from headrace.image.encode import encode_jpeg, encode_png, encode_pngs
from headrace.image.frames import decode_frames

if TYPE_CHECKING:
    import pyarrow as pa

Shape = tuple[int | None, ...]


def decode_pictures(
    rows: pa.LargeBinaryArray, shape: Shape, dtype: DType, max_pixels: int | None = MAX_PIXELS
) -> Column:
    """Decode the pictures of a column, each of which must have the shape, as far as that is known.

    A known size bounds what is decoded; otherwise `max_pixels` does.
    """
    if dtype == np.float32:  # its bytes are what TFDS writes as four channels
        return _as_floats(decode_pictures(rows, (*shape[:-1], 4), np.dtype(np.uint8), max_pixels))
    if not len(rows):
        return np.empty((0, *(n or 0 for n in shape)), dtype)
    data, offsets = parts(rows)
    most = max_pixels if None in shape[:-1] else None
    headers = read_headers(data, offsets, most)
    if len(shape) == 4:
        return column_of([_frames(each, shape, most, row) for row, each in enumerate(rows)])
    _check_sizes(headers, shape)
    made = decode_images(data, offsets, headers, shape[-1] or 0, dtype)
    _check_channels(made, shape)
    return made


def _check_sizes(headers: NDArray[np.int64], shape: Shape) -> None:
    """Before anything is decoded."""
    wrong = headers[:, 0] == GIF
    for axis, size in enumerate(shape[:2]):
        if size is not None:
            wrong |= headers[:, 1 + axis] != size
    if wrong.any():
        row = int(wrong.argmax())
        kind, height, width = headers[row, :3].tolist()
        raise ParseError(
            f"a {KINDS[kind]} of {height} × {width} pixels where a picture of shape {shape} was promised", row
        )


def _check_channels(made: Column, shape: Shape) -> None:
    if shape[-1] is None:
        return
    for row, picture in enumerate([made] if isinstance(made, np.ndarray) else values(made)):
        if picture.shape[-1] != shape[-1]:
            raise ParseError(f"a picture of shape {picture.shape} where {shape} was promised", row)


def _as_floats(column: Column) -> Column:
    if isinstance(column, np.ndarray):
        return np.ascontiguousarray(column).view(np.float32)
    return column_of([np.ascontiguousarray(picture).view(np.float32) for picture in values(column)])


def _frames(rows: Column, shape: Shape, max_pixels: int | None, row: int) -> Array:
    made = decode_frames(rows.as_py(), max_pixels, row)
    if any(n not in (None, m) for n, m in zip(shape, made.shape, strict=True)):
        raise ParseError(f"pictures of shape {made.shape} where {shape} was promised", row)
    return made


def encode_pictures(pictures: Sequence[Array]) -> list[bytes]:
    """Return pictures of one shape of uint8 as PNGs."""
    rows = max(1, MAX_ENCODED_BYTES // max(1, pictures[0].nbytes))
    made: list[bytes] = []
    for first in range(0, len(pictures), rows):
        made += encode_pngs(np.stack(pictures[first : first + rows])).to_pylist()
    return made


MAX_ENCODED_BYTES = 16 << 20
"""How many bytes of pixels are encoded by one call."""


def encode_picture(picture: Array, encoding: str | None) -> bytes:
    """Return a picture as PNG or JPEG."""
    if picture.dtype == np.float32:
        picture = np.ascontiguousarray(picture).view(np.uint8)
    return encode_jpeg(picture) if encoding == "jpeg" else encode_png(picture)
