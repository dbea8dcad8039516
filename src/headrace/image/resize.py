"""Images of another size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns import Column, Varied
from headrace.columns.arrow_text import parts
from headrace.columns.dense import pooled
from headrace.core.types import Array, DType, Tensor, TensorLike
from headrace.image.codecs import JPEG, MAX_PIXELS, read_headers
from headrace.image.decode_rows import decode_for_size
from headrace.image.encoded import EncodedJpegs, ResizedJpegs
from headrace.image.images import Images, column_of_images, new_images
from headrace.image.jpeg import JpegDecoder
from headrace.image.operation import Shape, image_operation
from headrace.image.resample import KERNELS, area_scale, taps
from headrace.image.resizing import FLOATS, NEAREST, Resizing
from headrace.io.binary import bytes_column, one_record, record
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation
from headrace.trace.values import Deferred

METHODS = ("nearest", "area", *KERNELS)


def two_sizes(size: TensorLike) -> tuple[int, int]:
    """Height and width."""
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError):
        raise ValueError(f"a size is a height and a width, such as (224, 224), not {size!r}") from None
    if height < 1 or width < 1:
        raise ValueError(f"a size has at least a pixel each way, not {size!r}")
    return height, width


def fitting_sizes(shapes: NDArray[np.int64], height: int, width: int) -> NDArray[np.int64]:
    """For each shape the largest size within this one that keeps the ratio of its sides."""
    sides = shapes[:, :2].astype(np.float64)
    scale = np.minimum(width / sides[:, 1], height / sides[:, 0])
    return np.maximum(np.rint(scale[:, None] * sides), 1).astype(np.int64)


def resize_images(images: Images, sizes: NDArray[np.int64], method: str, antialias: bool) -> Column:
    """Return each image at its own size."""
    if method not in METHODS:
        raise ValueError(f"method is one of {', '.join(map(repr, METHODS))}, not {method!r}")
    if len(images) and (images.shapes[:, :2] < 1).any():
        raise ValueError("an image without pixels has nothing to resize")
    if images.dtype.kind not in "iufb":
        raise TypeError(f"pixels are numbers, not {images.dtype}")
    shapes = np.hstack([sizes, images.shapes[:, 2:]])
    if method == "nearest":
        made = [_nearest(row, *size) for row, size in zip(images.rows(), sizes.tolist(), strict=True)]
        return column_of_images(np.concatenate([row.ravel() for row in made]), shapes)
    data = images.data if images.dtype in (np.uint8, np.float32) else images.data.astype(np.float32)
    out, starts = new_images(shapes, np.float32)
    if method == "bilinear" and not antialias:
        _bilinear(data, images, sizes, out, starts)
        return column_of_images(out, shapes)
    for i, (height, width) in enumerate(sizes.tolist()):
        start, size = int(images.starts[i]), int(images.shapes[i].prod())
        rows = taps(method, int(images.shapes[i, 0]), height, antialias)
        columns = taps(method, int(images.shapes[i, 1]), width, antialias)
        into = out[starts[i] : int(starts[i]) + int(shapes[i].prod())]
        _native.resample(data[start : start + size], images.shapes[i], *rows, *columns, into)
        if method == "area":
            into *= area_scale(images.shapes[i], height, width)
    return column_of_images(out, shapes)


def resize_windows(
    images: Images | EncodedJpegs,
    windows: NDArray[np.int64],
    size: tuple[int, int],
    rounding: int = FLOATS,
) -> Array | None:
    """Return a window of each image at one size, bilinear; None if they are not bytes of as many channels."""
    how = Resizing(size, rounding, np.zeros(len(images), np.int64))
    if isinstance(images, EncodedJpegs):
        return images.cut(windows).resize(how)
    channels = images.shapes[:, 2]
    if images.dtype != np.uint8 or not len(images) or (channels != channels[0]).any() or (windows[:, 2:4] < 1).any():
        return None
    out = pooled((len(images), *size, int(channels[0])), np.float32 if rounding == FLOATS else np.uint8)
    _native.resize_windows(
        images.data, images.starts, images.shapes, windows, *how.arguments(slice(None)), out.reshape(-1)
    )
    return out


def resized_dtype(dtype: DTypeLike | None, method: str, own: DTypeLike) -> DType:
    """Return the dtype of resized images. Raise if it is not one that they can have."""
    if dtype is None:
        return np.dtype(own) if method == "nearest" else np.dtype(np.float32)
    wanted = numpy_dtype(dtype)
    if wanted not in (np.float32, np.uint8) and not (method == "nearest" and wanted == own):
        raise ValueError(f"images are resized to float32, or to uint8 with values rounded, not to {wanted}")
    return wanted


def to_dtype(column: Column, dtype: DType) -> Column:
    """Return resized images in a dtype that they can have: floats are rounded half to even, and 0 to 255."""
    if isinstance(column, np.ndarray):
        return _to_dtype(column, dtype)
    assert isinstance(column, Varied)
    return column if column.dtype == dtype else Varied(_to_dtype(column.packed(), dtype), column.shapes)


def _to_dtype(values: Array, dtype: DType) -> Array:
    if values.dtype == dtype:
        return values
    if dtype == np.uint8:
        values = np.nan_to_num(np.clip(np.rint(values), 0, 255), nan=0)
    made: Array = values.astype(dtype)
    return made


def _bilinear(
    data: Array, images: Images, sizes: NDArray[np.int64], out: NDArray[np.float32], starts: NDArray[np.int64]
) -> None:
    even = len(sizes) and (sizes == sizes[0]).all() and (images.shapes[:, 2] == images.shapes[0, 2]).all()
    if even:
        height, width = sizes[0].tolist()
        _native.resize_bilinear(data, images.starts, images.shapes, height, width, out)
        return
    ends = [*starts[1:].tolist(), len(out)]
    for i, (height, width) in enumerate(sizes.tolist()):
        into = out[starts[i] : ends[i]]
        _native.resize_bilinear(data, images.starts[i : i + 1], images.shapes[i : i + 1], height, width, into)


def _nearest(image: Array, height: int, width: int) -> Array:
    def places(size: int, wanted: int) -> NDArray[np.int64]:
        scale = np.float32(size) / np.float32(wanted)
        at = np.floor((np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale).astype(np.int64)
        return np.asarray(np.minimum(at, size - 1))

    return image[places(image.shape[0], height)][:, places(image.shape[1], width)]


def _resize_rows(
    images: Images, size: TensorLike, method: str, preserve_aspect_ratio: bool, antialias: bool, dtype: DTypeLike | None
) -> Column:
    height, width = two_sizes(size)
    wanted = resized_dtype(dtype, method, images.dtype)
    if wanted == np.uint8 and method == "bilinear" and not antialias and not preserve_aspect_ratio:
        made = resize_windows(images, whole_windows(images), (height, width), NEAREST)
        if made is not None:
            return made
    sizes = np.broadcast_to(np.array([height, width]), (len(images), 2))
    if preserve_aspect_ratio:
        sizes = fitting_sizes(images.shapes, height, width)
    return to_dtype(resize_images(images, sizes, method, antialias), wanted)


def whole_windows(images: Images | EncodedJpegs) -> NDArray[np.int64]:
    """Return windows of whole images."""
    windows = np.zeros((len(images), 5), np.int64)
    windows[:, 2:4] = images.shapes[:, :2]
    return windows


def resize_later(
    images: Deferred,
    windows: NDArray[np.int64] | None,
    size: TensorLike,
    method: str,
    antialias: bool,
    dtype: DTypeLike | None,
) -> Column | Deferred | None:
    """Return what `resize` gives of windows of JPEGs that are still encoded; None if they are to be decoded first."""
    if not isinstance(images, EncodedJpegs) or method != "bilinear" or antialias:
        return None
    source = images if windows is None else images.cut(windows)
    wanted = resized_dtype(dtype, method, np.uint8)
    return ResizedJpegs(source, two_sizes(size), wanted) if source.resizable else None


def _resize_later(
    images: Deferred,
    size: TensorLike,
    method: str,
    preserve_aspect_ratio: bool,
    antialias: bool,
    dtype: DTypeLike | None,
) -> Column | Deferred | None:
    return None if preserve_aspect_ratio else resize_later(images, None, size, method, antialias, dtype)


def _resize_shape(
    shape: Shape,
    own: DTypeLike,
    size: TensorLike,
    method: str,
    preserve_aspect_ratio: bool,
    antialias: bool,
    dtype: DTypeLike | None,
) -> tuple[Shape, Any]:
    del antialias
    height, width = two_sizes(size)
    made: tuple[int | None, int | None] = (height, width)
    if preserve_aspect_ratio:
        known = shape[0] is not None and shape[1] is not None
        made = tuple(fitting_sizes(np.array([shape[:2]]), height, width)[0].tolist()) if known else (None, None)
    return (*made, shape[2]), resized_dtype(dtype, method, own)


@image_operation(_resize_rows, _resize_shape, deferred=_resize_later)
def resize(
    images: TensorLike,
    size: TensorLike,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Resize an image, or a batch, to (height, width), in float32; with "nearest", in its own dtype.

    `method` is "bilinear", "nearest", "area", "bicubic", "lanczos3", "lanczos5", "gaussian" or "mitchellcubic". With
    `antialias` each pixel of a smaller image averages all pixels that it covers.

    Args:
        images: One image (height, width, channels) or a batch of images.
        size: Target height and width.
        method: Interpolation, one of `hr.image.ResizeMethod`.
        preserve_aspect_ratio: Whether to keep the aspect ratio, so that one side may be smaller than asked for.
        antialias: Whether to smooth when the image is made smaller.
        dtype: `np.uint8` for pixels rounded to the nearest integer (half to even) and limited to 0 and 255, which takes
            a quarter of the memory.

    >>> hr.image.resize(np.arange(4, dtype=np.uint8).reshape(2, 2, 1), (1, 1))
    array([[[1.5]]], dtype=float32)
    >>> hr.image.resize(np.arange(4, dtype=np.uint8).reshape(2, 2, 1), (1, 1), dtype=np.uint8)
    array([[[2]]], dtype=uint8)
    """


def sizes_with_pad(
    shapes: NDArray[np.int64], target_height: int, target_width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the size at which each image fits into a frame, and the corner at which it begins there."""
    wanted = np.array(two_sizes((target_height, target_width)))
    sides = shapes[:, :2]
    ratios = (sides.astype(np.float32) / wanted.astype(np.float32)).max(1, keepdims=True)
    sizes = np.maximum(np.floor(sides.astype(np.float32) / ratios), 1).astype(np.int64)
    margins = np.maximum(np.floor((wanted.astype(np.float32) - sides.astype(np.float32) / ratios) / 2), 0).astype(
        np.int64
    )
    return sizes, margins


def _pad_rows(images: Images, target_height: int, target_width: int, method: str, antialias: bool) -> Column:
    sizes, margins = sizes_with_pad(images.shapes, target_height, target_width)
    resized = Images.of_column(resize_images(images, sizes, method, antialias))
    return place_images(resized, margins, target_height, target_width)


def place_images(images: Images, corners: NDArray[np.int64], height: int, width: int) -> Column:
    """Return each image from its corner on within zeros of one size."""
    channels = images.shapes[:, 2:]
    shapes = np.hstack([np.broadcast_to(np.array([height, width]), (len(images), 2)), channels])
    out = np.zeros(int(shapes.prod(1).sum()), images.dtype)
    column = column_of_images(out, shapes)
    for made, row, (top, left) in zip(column, images.rows(), corners.tolist(), strict=True):
        made[top : top + row.shape[0], left : left + row.shape[1]] = row
    return column


@image_operation(
    _pad_rows,
    lambda shape, dtype, target_height, target_width, method, **_: (
        (target_height, target_width, shape[2]),
        dtype if method == "nearest" else np.dtype(np.float32),
    ),
)
def resize_with_pad(
    image: TensorLike, target_height: int, target_width: int, method: str = "bilinear", antialias: bool = False
) -> Tensor:
    """Resize an image to fit into the size, keeping its aspect ratio, and pad it with zeros.

    Args:
        image: One image (height, width, channels) or a batch of images.
        target_height: Height of the result in pixels.
        target_width: Width of the result in pixels.
        method: Interpolation, one of `hr.image.ResizeMethod`.
        antialias: Whether to smooth when the image is made smaller.

    >>> hr.image.resize_with_pad(np.ones((2, 1, 1)), 2, 2)[..., 0]
    array([[1., 0.],
           [1., 0.]], dtype=float32)
    """


@traced_operation(
    spec=lambda contents, size, channels=3, *_, **__: (
        record(contents) and TensorSpec((*two_sizes(size), channels), np.float32)
    ),
    block=lambda contents, *how, **named: lambda rows: decode_and_resize_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_and_resize(
    contents: TensorLike,
    size: TensorLike,
    channels: int = 3,
    *,
    fast: bool = False,
    max_pixels: int | None = MAX_PIXELS,
) -> NDArray[np.float32]:
    """`resize(decode_image(contents, channels), size)`, at once.

    With `fast`, a JPEG is decoded at the smallest scale that still covers the size: in a part of the time, and with
    somewhat other pixels.

    Args:
        contents: Bytes of an encoded image, or an array of such.
        size: Target height and width.
        channels: Number of color channels; 0 keeps those of the file.
        fast: Whether JPEG files may be decoded at a reduced scale, which changes pixels slightly.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.

    >>> hr.image.decode_and_resize(hr.image.encode_png(np.full((9, 7, 3), 8, np.uint8)), (2, 2)).shape
    (2, 2, 3)
    """
    rows = bytes_column(one_record(contents))
    return np.asarray(decode_and_resize_column(rows, size, channels, fast=fast, max_pixels=max_pixels)[0])


def decode_and_resize_column(
    rows: TensorLike, size: TensorLike, channels: int = 3, *, fast: bool = False, max_pixels: int | None = MAX_PIXELS
) -> NDArray[np.float32]:
    """Return the block form of `decode_and_resize`."""
    height, width = two_sizes(size)
    if channels not in (1, 3, 4):
        raise ValueError(f"channels is 1, 3 or 4, not {channels}")
    if not fast and channels != 4:
        values, offsets = parts(rows)
        headers = read_headers(values, offsets, max_pixels)
        if len(headers) and (headers[:, 0] == JPEG).all():
            images = EncodedJpegs(JpegDecoder(), values, offsets, headers, channels)
            made = images.resize(Resizing((height, width), FLOATS, np.zeros(len(headers), np.int64)))
            assert made is not None, "all have the same channels"
            return made
    out = pooled((len(rows), height, width, channels), np.float32)
    for i, pixels in enumerate(decode_for_size(rows, (height, width) if fast else None, channels, max_pixels)):
        shape = np.array([pixels.shape], np.int64)
        _native.resize_bilinear(pixels.reshape(-1), np.zeros(1, np.int64), shape, height, width, out[i].reshape(-1))
    return out
