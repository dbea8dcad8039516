"""Colours of images changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column
from headrace.columns.dense import pooled
from headrace.core.types import Array, Tensor, TensorLike
from headrace.image.convert import convert_values
from headrace.image.images import Images, column_of_images
from headrace.image.operation import each_row, image_operation

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
Float = NDArray[np.float32]


def _adjust(what: int, images: Images, factor: TensorLike) -> Column:
    factors = each_row(factor, len(images), np.float32)
    if factors.ndim != 1:
        raise ValueError(f"one number is needed for an image, not {factors.shape[1:]}")
    if what == BRIGHTNESS and images.dtype == np.float16:  # TensorFlow adds in float16, too
        sizes = images.shapes.prod(1)
        return images.with_values(images.data + np.repeat(factors.astype(np.float16), sizes))
    direct = images.dtype in (np.uint8, np.float32)
    data = images.data if direct else convert_values(images.data, np.float32)
    out = pooled(len(data), data.dtype)
    _native.adjust_images(what, data, images.starts, images.shapes, factors, out)
    return images.with_values(out if direct else convert_values(out, images.dtype, saturate=True))


def _three(images: Images, what: str) -> None:
    if (images.shapes[:, 2] != 3).any():
        raise ValueError(f"{what} needs images of three channels, red, green and blue")


@image_operation(lambda images, delta: _adjust(BRIGHTNESS, images, delta), lambda *known, **_: known, each=("delta",))
def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """`delta` added to colours from 0 to 1.

    Args:
        image: One image (height, width, channels) or a batch of images.
        delta: Amount to add.

    >>> hr.image.adjust_brightness(np.full((1, 1, 1), 100, np.uint8), 0.1)
    array([[[125]]], dtype=uint8)
    """


@image_operation(
    lambda images, contrast_factor: _adjust(CONTRAST, images, contrast_factor),
    lambda *known, **_: known,
    each=("contrast_factor",),
)
def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """Multiply each channel's distance from its mean by a factor.

    Args:
        images: One image (height, width, channels) or a batch of images.
        contrast_factor: Factor for the distance of each pixel from the mean.

    >>> hr.image.adjust_contrast(np.array([[[0.4], [0.6]]], np.float32), 2.0).ravel().round(3)
    array([0.3, 0.7], dtype=float32)
    """


def _saturate_rows(images: Images, saturation_factor: TensorLike) -> Column:
    _three(images, "saturation")
    return _adjust(SATURATION, images, saturation_factor)


@image_operation(_saturate_rows, lambda *known, **_: known, each=("saturation_factor",))
def adjust_saturation(image: TensorLike, saturation_factor: TensorLike) -> Tensor:
    """Colours with their saturation times a factor: 0 makes them grey.

    Args:
        image: One image (height, width, channels) or a batch of images.
        saturation_factor: Factor for the saturation.

    >>> hr.image.adjust_saturation(np.array([[[200, 100, 100]]], np.uint8), 0.0).ravel()
    array([200, 200, 200], dtype=uint8)
    """


def _hue_rows(images: Images, delta: TensorLike) -> Column:
    _three(images, "hue")
    turns = each_row(delta, len(images), np.float32)
    if not (np.abs(turns) <= 1).all():
        raise ValueError("delta must be between -1 and 1")
    return _adjust(HUE, images, delta)


@image_operation(_hue_rows, lambda *known, **_: known, each=("delta",))
def adjust_hue(image: TensorLike, delta: TensorLike) -> Tensor:
    """Colours with their hue moved on by `delta` of a turn, from -1 to 1.

    Args:
        image: One image (height, width, channels) or a batch of images.
        delta: Amount to add.

    >>> hr.image.adjust_hue(np.array([[[1.0, 0.0, 0.0]]], np.float32), 0.5).ravel().tolist()
    [0.0, 1.0, 1.0]
    """


def _gamma_rows(images: Images, gamma: TensorLike, gain: TensorLike) -> Column:
    gammas, gains = each_row(gamma, len(images), np.float32), each_row(gain, len(images), np.float32)
    if not (gammas >= 0).all():
        raise ValueError("gamma must not be negative")
    out = np.empty_like(images.data)
    for start, size, power, times in zip(images.starts, images.shapes.prod(1), gammas, gains, strict=True):
        part = slice(int(start), int(start + size))
        if images.dtype == np.uint8:
            every = convert_values(np.arange(256, dtype=np.uint8), np.float32)
            out[part] = convert_values(times * every**power, np.uint8, saturate=True)[images.data[part]]
        elif images.dtype == np.float16:  # as TensorFlow has it
            out[part] = np.float16(times) * images.data[part] ** np.float16(power)
        else:
            known = convert_values(images.data[part], np.float32)
            out[part] = convert_values(times * known**power, images.dtype, saturate=True)
    return images.with_values(out)


@image_operation(_gamma_rows, lambda *known, **_: known, each=("gamma", "gain"))
def adjust_gamma(image: TensorLike, gamma: TensorLike = 1, gain: TensorLike = 1) -> Tensor:
    """`gain × colour ** gamma`, of colours from 0 to 1.

    Args:
        image: One image (height, width, channels) or a batch of images.
        gamma: Exponent.
        gain: Factor.

    >>> hr.image.adjust_gamma(np.array([[[0.5]]], np.float32), 2)
    array([[[0.25]]], dtype=float32)
    """


def _standard_rows(images: Images) -> Column:
    dtype = np.dtype(np.float32)
    out = np.empty(len(images.data), dtype)
    for row, start in zip(images.rows(), images.starts.tolist(), strict=True):
        values = row.astype(dtype).ravel()
        least = dtype.type(1) / np.sqrt(dtype.type(max(1, values.size)))
        np.divide(values - values.mean(), max(values.std(), least), out=out[start : start + values.size])
    return images.with_values(out)


@image_operation(_standard_rows, lambda shape, dtype: (shape, np.dtype(np.float32)))  # noqa: ARG005
def per_image_standardization(image: TensorLike) -> Tensor:
    """Return the image in float32 with mean 0 and variance 1; one of a single colour is 0.

    Args:
        image: One image (height, width, channels) or a batch of images.

    >>> hr.image.per_image_standardization(np.array([[[1], [3]]], np.uint8)).ravel()
    array([-1.,  1.], dtype=float32)
    """


GREY = (0.2989, 0.5870, 0.1140)


def _grey_rows(images: Images) -> Column:
    _three(images, "rgb_to_grayscale")
    known = convert_values(images.data, np.float32).reshape(-1, 3)
    red, green, blue = (known[:, i] * known.dtype.type(weight) for i, weight in enumerate(GREY))
    shapes = images.shapes.copy()
    shapes[:, 2] = 1
    return column_of_images(convert_values((red + green) + blue, images.dtype), shapes)


@image_operation(_grey_rows, lambda shape, dtype: ((*shape[:2], 1), dtype))
def rgb_to_grayscale(images: TensorLike) -> Tensor:
    """Red, green and blue as one channel.

    Args:
        images: One image (height, width, channels) or a batch of images.

    >>> hr.image.rgb_to_grayscale(np.array([[[255, 0, 0]]], np.uint8))
    array([[[76]]], dtype=uint8)
    """


def _from_grey_rows(images: Images) -> Column:
    if (images.shapes[:, 2] != 1).any():
        raise ValueError("grayscale_to_rgb needs images of one channel")
    shapes = images.shapes.copy()
    shapes[:, 2] = 3
    return column_of_images(np.repeat(images.data, 3), shapes)


@image_operation(_from_grey_rows, lambda shape, dtype: ((*shape[:2], 3), dtype))
def grayscale_to_rgb(images: TensorLike) -> Tensor:
    """Return one channel as red, green and blue.

    Args:
        images: One image (height, width, channels) or a batch of images.

    >>> hr.image.grayscale_to_rgb(np.array([[[7]]], np.uint8)).ravel()
    array([7, 7, 7], dtype=uint8)
    """


def _floats(images: Images, what: str) -> Array:
    _three(images, what)
    if images.dtype.kind != "f":
        raise TypeError(f"{what} works on floats from 0 to 1, not {images.dtype}: convert_image_dtype makes them")
    return images.data.reshape(-1, 3)


def _hsv_rows(images: Images) -> Column:
    colours = _floats(images, "rgb_to_hsv")
    one = colours.dtype.type(1)
    r, g, b = colours.T
    value = colours.max(1)
    span = value - colours.min(1)
    saturation = np.divide(span, value, out=np.zeros_like(value), where=value > 0)
    norm = np.divide(one, 6 * span, out=np.zeros_like(value), where=span > 0)
    third = one / 3
    hue = np.where(r == value, norm * (g - b), np.where(g == value, norm * (b - r) + third, norm * (r - g) + 2 * third))
    hue = np.where(span > 0, np.where(hue < 0, hue + one, hue), 0)
    return images.with_values(np.stack([hue, saturation, value], 1).astype(colours.dtype).reshape(-1))


@image_operation(_hsv_rows, lambda *known, **_: known)
def rgb_to_hsv(images: TensorLike) -> Tensor:
    """Red, green and blue, from 0 to 1, as hue, saturation and value.

    Args:
        images: One image (height, width, channels) or a batch of images.

    >>> hr.image.rgb_to_hsv(np.array([[[0.0, 1.0, 0.0]]])).ravel().round(3)
    array([0.333, 1.   , 1.   ])
    """


def _rgb_rows(images: Images) -> Column:
    colours = _floats(images, "hsv_to_rgb")
    hue, saturation, value = colours.T
    six = hue * 6
    parts = [np.abs(six - 3) - 1, 2 - np.abs(six - 2), 2 - np.abs(six - 4)]
    made = [(1 - saturation + saturation * np.clip(part, 0, 1)) * value for part in parts]
    return images.with_values(np.stack(made, 1).astype(colours.dtype).reshape(-1))


@image_operation(_rgb_rows, lambda *known, **_: known)
def hsv_to_rgb(images: TensorLike) -> Tensor:
    """Hue, saturation and value, from 0 to 1, as red, green and blue.

    Args:
        images: One image (height, width, channels) or a batch of images.

    >>> hr.image.hsv_to_rgb(np.array([[[0.5, 1.0, 1.0]]])).ravel()
    array([0., 1., 1.])
    """
