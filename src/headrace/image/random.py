"""Images changed at random, by the generator that `random_map` gives: the same on any number of threads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column
from headrace.core.types import RandomSource, Tensor, TensorLike
from headrace.image.colour import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation
from headrace.image.encoded import EncodedJpegs
from headrace.image.geometry import Sized, cut_images, cuts_at, flip_if
from headrace.image.images import Images
from headrace.image.operation import drawn, each_row, image_operation, in_windows
from headrace.image.resize import resize_images, resize_later, resize_windows, resized_dtype, to_dtype, two_sizes
from headrace.image.resizing import FLOATS, NEAREST
from headrace.trace.values import Deferred


@drawn
def random_flip_left_right(image: TensorLike, rng: RandomSource, p: float = 0.5) -> Tensor:
    """Return the image as in a mirror, with probability `p`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        rng: Random generator that `random_map` passes to its function.
        p: Probability of the change.

    >>> ds = hr.Dataset.from_tensor_slices(np.zeros((4, 2, 2, 3))).random_map(hr.image.random_flip_left_right, seed=1)
    >>> ds.element_spec
    TensorSpec(shape=(2, 2, 3), dtype=float64)
    """
    return flip_if(image, rng.random() < p)


@drawn
def random_flip_up_down(image: TensorLike, rng: RandomSource, p: float = 0.5) -> Tensor:
    """Return the image upside down, with probability `p`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        rng: Random generator that `random_map` passes to its function.
        p: Probability of the change.

    >>> hr.image.random_flip_up_down(np.arange(2).reshape(2, 1, 1), np.random.default_rng(0), p=1.0).ravel()
    array([1, 0])
    """
    return flip_if(image, rng.random() < p, upside_down=True)


def drawn_cuts(images: Sized, size: TensorLike, draws: TensorLike) -> NDArray[np.int64]:
    """Return the crop of each image that two numbers from 0 to 1 determine."""
    height, width = two_sizes(size[:2])
    if len(size) == 3 and (images.shapes[:, 2] != size[2]).any():
        raise ValueError(f"an image of {images.shapes[0, 2]} channels has no crop of {size[2]}")
    spare = images.shapes[:, :2] - np.array([height, width]) + 1
    if (spare < 1).any():
        row = int((spare < 1).any(1).argmax())
        sides = " × ".join(map(str, images.shapes[row, :2].tolist()))
        raise ValueError(f"an image of {sides} has no crop of {height} × {width}")
    corners = (each_row(draws, len(images)) * spare).astype(np.int64)
    return cuts_at(images, corners[:, 0], corners[:, 1], height, width)


def _crop_rows(images: Images | EncodedJpegs, size: TensorLike, draws: TensorLike) -> Column:
    made: Column = cut_images(images, drawn_cuts(images, size, draws))
    return made


@image_operation(
    _crop_rows,
    lambda shape, dtype, size, **_: ((*two_sizes(size[:2]), shape[2]), dtype),
    each=("draws",),
    deferred=in_windows(_crop_rows),
)
def crop_by_draws(image: TensorLike, size: TensorLike, draws: TensorLike) -> Tensor:
    """Crop at a position that two numbers from 0 to 1 determine."""


@drawn
def random_crop(image: TensorLike, size: TensorLike, rng: RandomSource) -> Tensor:
    """Crop a random part of size (height, width) from the image.

    Args:
        image: One image (height, width, channels) or a batch of images.
        size: Shape of the result.
        rng: Random generator that `random_map` passes to its function.

    >>> hr.image.random_crop(np.zeros((5, 5, 3)), (2, 3), np.random.default_rng(0)).shape
    (2, 3, 3)
    """
    return crop_by_draws(image, size, rng.random(2))


MAX_CROP_TRIES = 10


def drawn_windows(
    images: Sized, numbers: NDArray[np.float64], scale: Sequence[float], ratio: Sequence[float]
) -> NDArray[np.int64]:
    """Return the window of each image that numbers from 0 to 1 determine."""
    cuts = np.zeros((len(images), 5), np.int64)
    for i, (height, width, _) in enumerate(images.shapes.tolist()):
        cuts[i, :4] = _window(height, width, numbers[i], scale, ratio)
    return cuts


def _resized_crop_rows(
    images: Images,
    size: TensorLike,
    draws: TensorLike,
    scale: Sequence[float],
    ratio: Sequence[float],
    method: str,
    antialias: bool,
    dtype: DTypeLike | None,
) -> Column:
    windows = drawn_windows(images, each_row(draws, len(images)), scale, ratio)
    made_dtype = resized_dtype(dtype, method, images.dtype)
    if method == "bilinear" and not antialias:
        made = resize_windows(images, windows, two_sizes(size), NEAREST if made_dtype == np.uint8 else FLOATS)
        if made is not None:
            return made
    wanted = np.broadcast_to(np.array(two_sizes(size)), (len(images), 2))
    return to_dtype(resize_images(Images.of_column(cut_images(images, windows)), wanted, method, antialias), made_dtype)


def _resized_crop_later(
    images: Deferred,
    size: TensorLike,
    draws: TensorLike,
    scale: Sequence[float],
    ratio: Sequence[float],
    method: str,
    antialias: bool,
    dtype: DTypeLike | None,
) -> Column | Deferred | None:
    if not isinstance(images, EncodedJpegs):
        return None
    return resize_later(
        images, drawn_windows(images, each_row(draws, len(images)), scale, ratio), size, method, antialias, dtype
    )


def _window(
    height: int, width: int, draws: NDArray[np.float64], scale: Sequence[float], ratio: Sequence[float]
) -> tuple[int, int, int, int]:
    """Top, left, height and width: the first of the tries that fits, else the most of the middle that may be."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for area, shape, top, left in draws.tolist():
        wanted = height * width * (scale[0] + area * (scale[1] - scale[0]))
        aspect = math.exp(low + shape * (high - low))
        wide, tall = round(math.sqrt(wanted * aspect)), round(math.sqrt(wanted / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            return int(top * (height - tall + 1)), int(left * (width - wide + 1)), tall, wide
    wide, tall = width, height
    if width / height < ratio[0]:
        tall = min(height, max(1, round(width / ratio[0])))
    elif width / height > ratio[1]:
        wide = min(width, max(1, round(height * ratio[1])))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


@image_operation(
    _resized_crop_rows,
    lambda shape, own, size, method, dtype, **_: ((*two_sizes(size), shape[2]), resized_dtype(dtype, method, own)),
    each=("draws",),
    deferred=_resized_crop_later,
)
def resized_crop_by_draws(
    image: TensorLike,
    size: TensorLike,
    draws: TensorLike,
    scale: Sequence[float],
    ratio: Sequence[float],
    method: str,
    antialias: bool,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Crop with a size and position that numbers from 0 to 1 determine, and resize."""


@drawn
def random_resized_crop(
    image: TensorLike,
    size: TensorLike,
    rng: RandomSource,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    method: str = "bilinear",
    antialias: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Crop a random part with an area in `scale` and an aspect ratio in `ratio`, and resize it.

    Of a JPEG that `decode_jpeg` gave within the same function, only this part is decoded.

    Args:
        image: One image (height, width, channels) or a batch of images.
        size: Target height and width.
        rng: Random generator that `random_map` passes to its function.
        scale: Smallest and largest share of the area.
        ratio: Smallest and largest aspect ratio.
        method: Interpolation, one of `hr.image.ResizeMethod`.
        antialias: Whether to smooth when the image is made smaller.
        dtype: `np.uint8` for rounded pixels; float32 by default.

    >>> hr.image.random_resized_crop(np.zeros((50, 80, 3)), (8, 8), np.random.default_rng(0)).shape
    (8, 8, 3)
    """
    return resized_crop_by_draws(
        image, size, rng.random((MAX_CROP_TRIES, 4)), tuple(scale), tuple(ratio), method, antialias, dtype
    )


@drawn
def random_brightness(image: TensorLike, max_delta: float, rng: RandomSource) -> Tensor:
    """`adjust_brightness` by something between -max_delta and max_delta.

    Args:
        image: One image (height, width, channels) or a batch of images.
        max_delta: Largest change, in both directions.
        rng: Random generator that `random_map` passes to its function.

    >>> hr.image.random_brightness(np.full((1, 1, 3), 0.5, np.float32), 0.0, np.random.default_rng(0)).ravel()
    array([0.5, 0.5, 0.5], dtype=float32)
    """
    if max_delta < 0:
        raise ValueError(f"max_delta must not be negative, not {max_delta}")
    return adjust_brightness(image, rng.uniform(-max_delta, max_delta))


@drawn
def random_contrast(image: TensorLike, lower: float, upper: float, rng: RandomSource) -> Tensor:
    """`adjust_contrast` by a factor between `lower` and `upper`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        lower: Lower bound of the random factor.
        upper: Upper bound of the random factor.
        rng: Random generator that `random_map` passes to its function.

    >>> hr.image.random_contrast(np.full((1, 2, 1), 7, np.uint8), 0.5, 2.0, np.random.default_rng(0)).ravel()
    array([7, 7], dtype=uint8)
    """
    return adjust_contrast(image, _between(lower, upper, rng))


@drawn
def random_saturation(image: TensorLike, lower: float, upper: float, rng: RandomSource) -> Tensor:
    """`adjust_saturation` by a factor between `lower` and `upper`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        lower: Lower bound of the random factor.
        upper: Upper bound of the random factor.
        rng: Random generator that `random_map` passes to its function.

    >>> hr.image.random_saturation(np.full((1, 1, 3), 7, np.uint8), 0.5, 2.0, np.random.default_rng(0)).ravel()
    array([7, 7, 7], dtype=uint8)
    """
    return adjust_saturation(image, _between(lower, upper, rng))


@drawn
def random_hue(image: TensorLike, max_delta: float, rng: RandomSource) -> Tensor:
    """`adjust_hue` by something between -max_delta and max_delta of a turn, which is at most 0.5.

    Args:
        image: One image (height, width, channels) or a batch of images.
        max_delta: Largest change, in both directions.
        rng: Random generator that `random_map` passes to its function.

    >>> hr.image.random_hue(np.full((1, 1, 3), 7, np.uint8), 0.5, np.random.default_rng(0)).ravel()
    array([7, 7, 7], dtype=uint8)
    """
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be between 0 and 0.5, not {max_delta}")
    return adjust_hue(image, rng.uniform(-max_delta, max_delta))


def _between(lower: float, upper: float, rng: RandomSource) -> Tensor:
    if not 0 <= lower <= upper:
        raise ValueError(f"factors need 0 <= lower <= upper, not {lower} and {upper}")
    return rng.uniform(lower, upper)
