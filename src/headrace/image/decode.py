"""Bytes of image files to pixels: JPEG, PNG, WebP, BMP and the first frame of a GIF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.arrow_text import parts
from headrace.columns import Column
from headrace.image.codecs import JPEG, MAX_PIXELS, PNG, read_headers
from headrace.image.decode_rows import decode_images
from headrace.image.jpeg import JpegDecoder
from headrace.io.binary import bytes_column, one_record, record
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

RATIOS = (1, 2, 4, 8)
FAST_DCT = {"": True, "INTEGER_FAST": True, "INTEGER_ACCURATE": False}


def _pixels_spec(channels: int, dtype: DTypeLike = np.uint8) -> TensorSpec:
    return TensorSpec((None, None, channels or None), numpy_dtype(dtype))


@traced_operation(
    spec=lambda contents, channels=0, *_, **__: record(contents) and _pixels_spec(channels),
    block=lambda contents, *how, **named: lambda rows: decode_jpeg_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    dct_method: str = "",
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> NDArray[np.uint8]:
    """The pixels of a JPEG, height × width × channels: as many as are stored, or 1 (grey) or 3 (RGB).

    `ratio` 2, 4 or 8 decodes at a part of the size, in a part of the time. `dct_method` is "INTEGER_FAST", as in
    TensorFlow the default, or "INTEGER_ACCURATE". Bytes that are no JPEG, break off, or promise more than `max_pixels`
    are the element's error.

    >>> hr.image.decode_jpeg(hr.image.encode_jpeg(np.full((4, 6, 3), 200, np.uint8)))[0, 0]
    array([200, 200, 200], dtype=uint8)
    """
    rows = bytes_column(one_record(contents))
    made = decode_jpeg_column(
        rows, channels, ratio, fancy_upscaling, try_recover_truncated, dct_method, max_pixels=max_pixels
    )
    return made[0]  # type: ignore[no-any-return]


def decode_jpeg_column(
    rows: pa.LargeBinaryArray,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    dct_method: str = "",
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> Column:
    """The block form of `decode_jpeg`."""
    if channels not in (0, 1, 3):
        raise ValueError(f"a JPEG is decoded to channels=0 (as stored), 1 or 3, not {channels}")
    if ratio not in RATIOS:
        raise ValueError(f"ratio is 1, 2, 4 or 8, not {ratio}")
    if dct_method not in FAST_DCT:
        raise ValueError(f'dct_method is "", "INTEGER_FAST" or "INTEGER_ACCURATE", not {dct_method!r}')
    values, offsets = parts(rows)
    headers = read_headers(values, offsets, max_pixels, JPEG)
    decoder = JpegDecoder(
        fast_dct=FAST_DCT[dct_method], fast_upsampling=not fancy_upscaling, recover=try_recover_truncated
    )
    return decoder.decode_rows(values, offsets, headers, channels, ratio)


@traced_operation(
    spec=lambda contents, channels=0, dtype=np.uint8, **_: record(contents) and _pixels_spec(channels, dtype),
    block=lambda contents, *how, **named: lambda rows: decode_png_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_png(
    contents: Any, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> NDArray[Any]:
    """The pixels of a PNG, height × width × channels: as many as are stored, or 1, 2, 3 or 4; in uint8 or uint16.

    >>> hr.image.decode_png(hr.image.encode_png(np.full((4, 6, 1), 200, np.uint8))).shape
    (4, 6, 1)
    """
    made: Any = decode_png_column(bytes_column(one_record(contents)), channels, dtype, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_png_column(
    rows: pa.LargeBinaryArray, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> Column:
    """The block form of `decode_png`."""
    return _decode_column(rows, channels, numpy_dtype(dtype), max_pixels, PNG, (np.uint8, np.uint16))


@traced_operation(
    spec=lambda contents, channels=0, dtype=np.uint8, *_, **__: record(contents) and _pixels_spec(channels or 0, dtype),
    block=lambda contents, *how, **named: lambda rows: decode_image_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_image(
    contents: Any,
    channels: int | None = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,
    expand_animations: bool = False,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> NDArray[Any]:
    """The pixels of a JPEG, PNG, WebP, BMP or the first frame of a GIF, told apart by their first bytes.

    There are no animations here: `expand_animations=True` is an error.

    In float32, colours are numbers from 0 to 1.

    >>> hr.image.decode_image(hr.image.encode_png(np.full((4, 6, 3), 255, np.uint8)), dtype=np.float32)[0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    rows = bytes_column(one_record(contents))
    made: Any = decode_image_column(rows, channels, dtype, name, expand_animations, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_image_column(
    rows: pa.LargeBinaryArray,
    channels: int | None = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,  # noqa: ARG001 - in its place as in TensorFlow
    expand_animations: bool = False,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> Column:
    """The block form of `decode_image`."""
    if expand_animations:
        raise ValueError("decode_image gives the first frame of an animation: leave out expand_animations=True")
    return _decode_column(rows, channels or 0, numpy_dtype(dtype), max_pixels, None, (np.uint8, np.uint16, np.float32))


def _decode_column(
    rows: pa.LargeBinaryArray,
    channels: int,
    dtype: np.dtype[Any],
    max_pixels: int | None,
    only: int | None,
    dtypes: tuple[Any, ...],
) -> Column:
    if channels not in (0, 1, 2, 3, 4):
        raise ValueError(f"channels is 0 (as stored), 1, 2, 3 or 4, not {channels}")
    if dtype not in dtypes:
        raise ValueError(f"pixels are {', '.join(np.dtype(d).name for d in dtypes)}, not {dtype}")
    values, offsets = parts(rows)
    return decode_images(values, offsets, read_headers(values, offsets, max_pixels, only), channels, dtype)
