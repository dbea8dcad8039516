"""Measures of images: formats, sizes, similarity."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns.arrow_text import parts
from headrace.core.types import Array, Tensor, TensorLike
from headrace.image.codecs import JPEG, read_headers
from headrace.io.binary import bytes_column, one_record
from headrace.plan.dtypes import numpy_dtype


class ResizeMethod:
    """The methods of `hr.image.resize`, under tf.image's names: each is a string."""

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


def extract_jpeg_shape(contents: TensorLike, output_type: DTypeLike = np.int32) -> Array:
    """Return height, width and channels of a JPEG, read from its header alone.

    Args:
        contents: Bytes of an encoded image, or an array of such.
        output_type: Data type of the result.

    >>> hr.image.extract_jpeg_shape(hr.image.encode_jpeg(np.zeros((4, 6, 3), np.uint8)))
    array([4, 6, 3], dtype=int32)
    """
    values, offsets = parts(bytes_column(one_record(contents)))
    found = read_headers(values, offsets, None, JPEG)
    return found[0, 1:4].astype(numpy_dtype(output_type))


def is_jpeg(contents: TensorLike) -> np.bool_:
    """Return whether bytes begin as a JPEG does.

    Args:
        contents: Bytes of an encoded image, or an array of such.

    >>> hr.image.is_jpeg(b"GIF89a")
    np.False_
    """
    return np.bool_(bytes(contents)[:3] == b"\xff\xd8\xff")


def psnr(a: TensorLike, b: TensorLike, max_val: TensorLike) -> Tensor:
    """Return the peak signal-to-noise ratio of two images, or batches of them, in decibels, as float32.

    Args:
        a: An image or a batch.
        b: Another of the same shape.
        max_val: The difference between the largest and the smallest value there may be.

    >>> hr.image.psnr(np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8), 255)
    np.float32(0.0)
    """
    first, second, scale = _scaled(a, b, max_val)
    error = np.mean((first - second) ** 2, axis=(-3, -2, -1))
    with np.errstate(divide="ignore"):
        return np.float32(20 * np.log10(scale) - 10 * np.log10(error))


def ssim(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Return the structural similarity of two images, or batches of them, as float32: 1 if they are equal.

    Args:
        img1: An image or a batch.
        img2: Another of the same shape.
        max_val: The difference between the largest and the smallest value there may be.
        filter_size: The side of the Gaussian window, in pixels.
        filter_sigma: The deviation of the Gaussian, in pixels.
        k1: A small number that keeps means of 0 from mattering.
        k2: A small number that keeps variances of 0 from mattering.

    >>> image = np.arange(12 * 12 * 1.0).reshape(12, 12, 1)
    >>> hr.image.ssim(image, image, 255)
    np.float32(1.0)
    """
    x, y, scale = _scaled(img1, img2, max_val)
    if min(x.shape[-3:-1]) < filter_size:
        raise ValueError(f"images of {x.shape[-3]} × {x.shape[-2]} are smaller than the filter, {filter_size}")
    places = np.arange(filter_size) - (filter_size - 1) / 2
    weights = np.exp(-(places**2) / (2 * filter_sigma**2))
    weights /= weights.sum()

    def blurred(image: NDArray[np.float64]) -> NDArray[np.float64]:
        for axis in (-3, -2):
            image = np.lib.stride_tricks.sliding_window_view(image, filter_size, axis) @ weights
        return image

    c1, c2 = (k1 * scale) ** 2, (k2 * scale) ** 2
    mean_x, mean_y = blurred(x), blurred(y)
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    products = 2 * (blurred(x * y) - mean_x * mean_y)
    squares = blurred(x**2 + y**2) - mean_x**2 - mean_y**2
    return np.float32(np.mean(luminance * (products + c2) / (squares + c2), axis=(-3, -2, -1)))


def _scaled(
    a: TensorLike, b: TensorLike, max_val: TensorLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Both as float64; integers as parts of the largest value that their dtype has, as TensorFlow converts them."""
    arrays = [np.asarray(a), np.asarray(b)]
    if arrays[0].shape != arrays[1].shape or arrays[0].ndim < 3:
        raise ValueError(f"two images of one shape are needed, not {arrays[0].shape} and {arrays[1].shape}")
    largest = [float(np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else 1.0 for x in arrays]
    return arrays[0] / largest[0], arrays[1] / largest[1], float(max_val) / largest[0]
