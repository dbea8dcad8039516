"""Bytes of image files to pixels: JPEG, PNG, WebP, BMP and the first frame of a GIF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column
from headrace.columns.arrow_text import parts
from headrace.core.types import Array, DType, TensorLike
from headrace.image.codecs import JPEG, MAX_PIXELS, PNG, read_headers
from headrace.image.decode_rows import decode_images
from headrace.image.encoded import EncodedJpegs
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
    deferred=lambda contents, *how, **named: lambda rows: encoded_jpegs(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_jpeg(
    contents: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    dct_method: str = "",
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> NDArray[np.uint8]:
    """Decode a JPEG to height × width × channels: as many as are stored, or 1 (grey) or 3 (RGB).

    `ratio` 2, 4 or 8 decodes at a part of the size, in a part of the time. `dct_method` is "INTEGER_FAST", as in
    TensorFlow the default, or "INTEGER_ACCURATE". Bytes that are not a JPEG, are truncated, or declare more than
    `max_pixels` are the element's error.

    Args:
        contents: Bytes of an encoded image, or an array of such.
        channels: Number of color channels; 0 keeps those of the file.
        ratio: Factor, 1, 2, 4 or 8, by which the image is made smaller while it is decoded.
        fancy_upscaling: Whether to interpolate color channels when enlarging them.
        try_recover_truncated: Whether to accept a file that ends early.
        dct_method: "INTEGER_FAST", "INTEGER_ACCURATE", or "" for the default.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.

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
    """Return the block form of `decode_jpeg`."""
    made = encoded_jpegs(
        rows, channels, ratio, fancy_upscaling, try_recover_truncated, dct_method, max_pixels=max_pixels
    )
    return made.column() if isinstance(made, EncodedJpegs) else made


def encoded_jpegs(
    rows: pa.LargeBinaryArray,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    dct_method: str = "",
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> EncodedJpegs | Column:
    """Return the column of `decode_jpeg`, decoded when it is known which part of each image is needed."""
    if channels not in (0, 1, 3):
        raise ValueError(f"a JPEG is decoded to channels=0 (as stored), 1 or 3, not {channels}")
    if ratio not in RATIOS:
        raise ValueError(f"ratio is 1, 2, 4 or 8, not {ratio}")
    if dct_method not in FAST_DCT:
        raise ValueError(f'dct_method is "", "INTEGER_FAST" or "INTEGER_ACCURATE", not {dct_method!r}')
    values, offsets = parts(rows)
    headers = read_headers(values, offsets, max_pixels, JPEG, may_break_off=try_recover_truncated)
    decoder = JpegDecoder(
        fast_dct=FAST_DCT[dct_method], fast_upsampling=not fancy_upscaling, recover=try_recover_truncated
    )
    if ratio != 1:
        return decoder.decode_rows(values, offsets, headers, channels, ratio)
    return EncodedJpegs(decoder, values, offsets, headers, channels)


@traced_operation(
    spec=lambda contents, channels=0, dtype=np.uint8, **_: record(contents) and _pixels_spec(channels, dtype),
    block=lambda contents, *how, **named: lambda rows: decode_png_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_png(
    contents: TensorLike, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> Array:
    """Decode a PNG to height × width × channels: as many as are stored, or 1, 2, 3 or 4; in uint8 or uint16.

    Args:
        contents: Bytes of an encoded image, or an array of such.
        channels: Number of color channels; 0 keeps those of the file.
        dtype: Data type of the pixels.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.

    >>> hr.image.decode_png(hr.image.encode_png(np.full((4, 6, 1), 200, np.uint8))).shape
    (4, 6, 1)
    """
    made: Column = decode_png_column(bytes_column(one_record(contents)), channels, dtype, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_png_column(
    rows: pa.LargeBinaryArray, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> Column:
    """Return the block form of `decode_png`."""
    made = _decode_column(rows, channels, numpy_dtype(dtype), max_pixels, PNG, (np.uint8, np.uint16))
    assert not isinstance(made, EncodedJpegs), "PNGs"
    return made


@traced_operation(
    spec=lambda contents, channels=0, dtype=np.uint8, *_, **__: record(contents) and _pixels_spec(channels or 0, dtype),
    block=lambda contents, *how, **named: lambda rows: decode_image_column(bytes_column(rows), *how, **named),  # noqa: ARG005
    deferred=lambda contents, *how, **named: lambda rows: encoded_images(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_image(
    contents: TensorLike,
    channels: int | None = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,
    expand_animations: bool = False,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> Array:
    """Decode a JPEG, PNG, WebP, BMP or the first frame of a GIF, recognized by their first bytes.

    Animations are not supported: `expand_animations=True` is an error.

    In float32, colours are numbers from 0 to 1.

    Args:
        contents: Bytes of an encoded image, or an array of such.
        channels: Number of color channels; 0 keeps those of the file.
        dtype: Data type of the pixels.
        name: Accepted for compatibility with tf.image.
        expand_animations: Accepted for compatibility; only the first frame of an animation is returned.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.

    >>> hr.image.decode_image(hr.image.encode_png(np.full((4, 6, 3), 255, np.uint8)), dtype=np.float32)[0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    rows = bytes_column(one_record(contents))
    made: Column = decode_image_column(rows, channels, dtype, name, expand_animations, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_image_column(
    rows: pa.LargeBinaryArray,
    channels: int | None = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,
    expand_animations: bool = False,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> Column:
    """Return the block form of `decode_image`."""
    made = encoded_images(rows, channels, dtype, name, expand_animations, max_pixels=max_pixels)
    return made.column() if isinstance(made, EncodedJpegs) else made


def encoded_images(
    rows: pa.LargeBinaryArray,
    channels: int | None = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,  # noqa: ARG001 - in its place as in TensorFlow
    expand_animations: bool = False,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> EncodedJpegs | Column:
    """Return the column of `decode_image`; JPEGs decoded when it is known which part of each is needed."""
    if expand_animations:
        raise ValueError(
            "decode_image gives the first frame of an animation: leave out expand_animations=True, or use decode_gif"
        )
    dtypes = (np.uint8, np.uint16, np.float32)
    return _decode_column(rows, channels or 0, numpy_dtype(dtype), max_pixels, None, dtypes)


def _decode_column(
    rows: pa.LargeBinaryArray,
    channels: int,
    dtype: DType,
    max_pixels: int | None,
    only: int | None,
    dtypes: tuple[Any, ...],
) -> EncodedJpegs | Column:
    if channels not in (0, 1, 2, 3, 4):
        raise ValueError(f"channels is 0 (as stored), 1, 2, 3 or 4, not {channels}")
    if dtype not in dtypes:
        raise ValueError(f"pixels are {', '.join(np.dtype(d).name for d in dtypes)}, not {dtype}")
    values, offsets = parts(rows)
    headers = read_headers(values, offsets, max_pixels, only)
    if dtype == np.uint8 and channels in (0, 1, 3) and len(headers) and (headers[:, 0] == JPEG).all():
        return EncodedJpegs(JpegDecoder(), values, offsets, headers, channels)
    return decode_images(values, offsets, headers, channels, dtype)
