"""Bytes of image files to pixels: JPEG, PNG, WebP, BMP and the first frame of a GIF."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.arrow_text import Bytes, parts
from headrace.columns import Column, column_of
from headrace.columns.dense import pooled
from headrace.errors import ParseError
from headrace.image.codecs import GIF, JPEG, KINDS, MAX_PIXELS, PNG, image_library, read_headers
from headrace.image.convert import convert_values
from headrace.image.images import column_of_images, new_images
from headrace.io.binary import bytes_column, one_record, record
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

RATIOS = (1, 2, 4, 8)
FAST_DCT = {"": True, "INTEGER_FAST": True, "INTEGER_ACCURATE": False}


def _pixels_spec(channels: int, dtype: DTypeLike = np.uint8) -> TensorSpec:
    return TensorSpec((None, None, channels or None), np.dtype(dtype))


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
    stored = np.where(headers[:, 3] == 1, 1, 3)
    shapes = np.stack(
        [-(-headers[:, 1] // ratio), -(-headers[:, 2] // ratio), stored if not channels else stored * 0 + channels], 1
    )
    data, starts = new_images(shapes, np.uint8)
    jpeg = JpegDecoder(
        fast_dct=FAST_DCT[dct_method], fast_upsampling=not fancy_upscaling, recover=try_recover_truncated
    )
    for i, (start, size) in enumerate(zip(starts.tolist(), shapes.prod(1).tolist(), strict=True)):
        content = values[offsets[i] : offsets[i + 1]]
        into = data[start : start + size].reshape(shapes[i])
        jpeg.decode(content, into, headers[i], i)
    return column_of_images(data, shapes)


class JpegDecoder:
    """How JPEGs are decoded, into memory that is there."""

    def __init__(self, *, fast_dct: bool = True, fast_upsampling: bool = False, recover: bool = False) -> None:
        self._library = image_library("simplejpeg")
        self._fast_dct = fast_dct
        self._fast_upsampling = fast_upsampling
        self._recover = recover

    def decode(self, content: Bytes, into: NDArray[np.uint8], header: NDArray[np.int64], row: int) -> None:
        """Fill `into` at its size: that of the image, or one that a scaled transform gives."""
        height, width, channels = into.shape
        scaled = (height, width) != (int(header[1]), int(header[2]))
        if int(header[3]) == 4:
            self._decode_cmyk(content, into, row)
            return
        how = {
            "colorspace": "GRAY" if channels == 1 else "RGB",
            "fastdct": self._fast_dct,
            "fastupsample": self._fast_upsampling,
            "buffer": into,
        }
        if scaled:
            how |= {"min_height": height, "min_width": width}
        try:
            made = self._library.decode_jpeg(content, **how)
        except ValueError as error:
            made = self._decode_with_flaws(content, how, error, row)
        if made.shape[:2] != (height, width):
            raise ParseError(
                f"a JPEG that says {height} × {width} and has {made.shape[0]} × {made.shape[1]} pixels", row
            )

    def _decode_with_flaws(self, content: Bytes, how: dict[str, Any], error: ValueError, row: int) -> NDArray[np.uint8]:
        """What the library calls an error and a reader may pass over: anything but pixels that are missing."""
        if not self._recover and ("remature end" in str(error) or not _ends(content)):
            raise ParseError(f"a JPEG that is damaged or breaks off: {error}", row) from None
        try:
            made: NDArray[np.uint8] = self._library.decode_jpeg(content, **how, strict=False)
            return made
        except ValueError as worse:
            raise ParseError(f"a JPEG that is damaged: {worse}", row) from None

    @staticmethod
    def _decode_cmyk(content: Bytes, into: NDArray[np.uint8], row: int) -> None:
        cv2 = image_library("cv2")
        height, width, channels = into.shape
        flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR_RGB
        made = cv2.imdecode(content, flag | cv2.IMREAD_IGNORE_ORIENTATION)
        if made is None:
            raise ParseError("a JPEG of four colours that is damaged", row)
        if made.shape[:2] != (height, width):
            made = cv2.resize(made, (width, height), interpolation=cv2.INTER_AREA)
        into[...] = made.reshape(into.shape)


def _ends(content: Bytes) -> bool:
    """Whether the marker of the end is among the last bytes."""
    return b"\xff\xd9" in content[-64:].tobytes()


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
    return _decode_column(rows, channels, np.dtype(dtype), max_pixels, PNG, (np.uint8, np.uint16))


@traced_operation(
    spec=lambda contents, channels=0, dtype=np.uint8, **_: record(contents) and _pixels_spec(channels, dtype),
    block=lambda contents, *how, **named: lambda rows: decode_image_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_image(
    contents: Any, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> NDArray[Any]:
    """The pixels of a JPEG, PNG, WebP, BMP or the first frame of a GIF, told apart by their first bytes.

    In float32, colours are numbers from 0 to 1.

    >>> hr.image.decode_image(hr.image.encode_png(np.full((4, 6, 3), 255, np.uint8)), dtype=np.float32)[0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    made: Any = decode_image_column(bytes_column(one_record(contents)), channels, dtype, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_image_column(
    rows: pa.LargeBinaryArray, channels: int = 0, dtype: DTypeLike = np.uint8, *, max_pixels: int | None = MAX_PIXELS
) -> Column:
    """The block form of `decode_image`."""
    return _decode_column(rows, channels, np.dtype(dtype), max_pixels, None, (np.uint8, np.uint16, np.float32))


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
    headers = read_headers(values, offsets, max_pixels, only)
    if only is None and (headers[:, 0] == JPEG).all() and channels in (0, 1, 3) and dtype == np.uint8:
        return decode_jpeg_column(rows, channels, max_pixels=max_pixels)
    kinds, cuts = headers[:, 0].tolist(), offsets.tolist()
    if dtype == np.uint8 and channels < 2 and len(headers) and (headers == (PNG, *headers[0, 1:3], 1, 8)).all():
        return _grey_pngs(values, cuts, *headers[0, 1:3].tolist())
    made = [
        decode_any(values[cuts[i] : cuts[i + 1]], kinds[i], headers[i], channels, dtype, i) for i in range(len(headers))
    ]
    return column_of(made) if made else np.empty((0, 0, 0, channels or 1), dtype)


def _grey_pngs(values: Bytes, cuts: list[int], height: int, width: int) -> NDArray[np.uint8]:
    """Grey images of one size, such as digits: the least work for each."""
    cv2 = image_library("cv2")
    decode, how = cv2.imdecode, cv2.IMREAD_UNCHANGED
    out = pooled((len(cuts) - 1, height, width, 1), np.uint8)
    for row, (start, stop) in enumerate(pairwise(cuts)):
        pixels = decode(values[start:stop], how)
        if pixels is None or pixels.shape != (height, width):
            raise ParseError("a PNG that is damaged or breaks off", row)
        out[row, :, :, 0] = pixels
    return out


def decode_any(
    content: Bytes, kind: int, header: NDArray[np.int64], channels: int, dtype: np.dtype[Any], row: int
) -> NDArray[Any]:
    """One image of any kind."""
    if kind == JPEG:
        stored = 1 if header[3] == 1 else 3
        pixels: NDArray[Any] = np.empty(
            (int(header[1]), int(header[2]), 1 if channels in (1, 2) else (channels and 3) or stored), np.uint8
        )
        JpegDecoder().decode(content, pixels, header, row)
    else:
        pixels = _decode_with_opencv(content, kind, header, row)
    return _with_depth(_with_channels(pixels, channels), dtype)


def _decode_with_opencv(content: Bytes, kind: int, header: NDArray[np.int64], row: int) -> NDArray[Any]:
    """The pixels as they are stored, colours in the order of RGB."""
    cv2 = image_library("cv2")
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


def _with_depth(pixels: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if pixels.dtype == dtype:
        return pixels
    if dtype == np.uint8:
        made: NDArray[Any] = (pixels >> 8).astype(np.uint8)
        return made
    if dtype == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(257)
    return convert_values(pixels, dtype)


def _with_channels(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
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


def decode_for_size(
    rows: pa.LargeBinaryArray, size: tuple[int, int] | None, channels: int, max_pixels: int | None
) -> Iterator[NDArray[np.uint8]]:
    """Each image in turn, to be used before the next is asked for; a JPEG at a scale that covers the `size`."""
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
            height, width = _smallest_scale(height, width, *size)
        needed = height * width * channels
        memory = memory if len(memory) >= needed else np.empty(needed, np.uint8)
        pixels = memory[:needed].reshape(height, width, channels)
        jpeg.decode(content, pixels, header, i)
        yield pixels


def _smallest_scale(height: int, width: int, least_height: int, least_width: int) -> tuple[int, int]:
    """The size at the smallest of the scales 1/8, 1/4 and 1/2 that is no smaller than this each way, or the whole.

    Of others the transform takes longer than at the whole size.
    """
    for eighths in (1, 2, 4):
        scaled = -(-height * eighths // 8), -(-width * eighths // 8)
        if scaled[0] >= least_height and scaled[1] >= least_width:
            return scaled
    return height, width


GREY = (9798, 19234, 3736)
"""Of red, green and blue in grey, in parts of 32768: what a JPEG calls its luminance."""


def _grey(colours: NDArray[Any]) -> NDArray[Any]:
    weighted = (colours.astype(np.int64) * np.array(GREY)).sum(2, keepdims=True)
    made: NDArray[Any] = (weighted >> 15).astype(colours.dtype)
    return made
