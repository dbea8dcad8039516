"""RandAugment: a few of fourteen changes, all of one strength."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column
from headrace.columns.dense import pooled
from headrace.core.types import RandomSource, Tensor, TensorLike
from headrace.image.codecs import image_library
from headrace.image.images import Images
from headrace.image.operation import drawn, each_row, image_operation

Pixels = NDArray[np.uint8]
BINS = 31
"""Strengths go from 0 to 30."""


def _warp(image: Pixels, matrix: list[list[float]], fill: int) -> Pixels:
    """Warp by nearest neighbor: the matrix maps positions of the result to those of the image."""
    cv2 = image_library("cv2")
    height, width, channels = image.shape
    how = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    border = (fill,) * 4
    made = cv2.warpAffine(image, np.array(matrix, np.float64), (width, height), flags=how, borderValue=border)
    return np.asarray(made).reshape(height, width, channels)


def around_middle(height: int, width: int, a: float, b: float, c: float, d: float) -> list[list[float]]:
    """Return the matrix that has these factors, and leaves the middle of an image where it is."""
    y, x = (height - 1) / 2, (width - 1) / 2
    return [[a, b, x - a * x - b * y], [c, d, y - c * x - d * y]]


def _rotate(image: Pixels, degrees: float, fill: int) -> Pixels:
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    height, width, _ = image.shape
    return _warp(image, around_middle(height, width, cosine, sine, -sine, cosine), fill)


def _blend(image: Pixels, other: NDArray[np.float32], factor: float) -> Pixels:
    made = other + (image.astype(np.float32) - other) * np.float32(factor)
    return np.clip(made, 0, 255).astype(np.uint8)


def _grey(image: Pixels) -> NDArray[np.float32]:
    if image.shape[2] != 3:
        return image.astype(np.float32)
    made: NDArray[np.float32] = np.floor(image.astype(np.float32) @ np.array([0.2989, 0.587, 0.114], np.float32))
    return made[:, :, None]


def _colour(image: Pixels, factor: float, _: int) -> Pixels:
    return _blend(image, np.broadcast_to(_grey(image), image.shape), factor)


def _contrast(image: Pixels, factor: float, _: int) -> Pixels:
    return _blend(image, np.full((1, 1, 1), _grey(image).mean(), np.float32), factor)


def _sharpness(image: Pixels, factor: float, _: int) -> Pixels:
    if min(image.shape[:2]) < 3:
        return image
    cv2 = image_library("cv2")
    kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    soft = image.astype(np.float32)
    blurred = np.rint(cv2.filter2D(soft, -1, kernel)).reshape(image.shape)
    soft[1:-1, 1:-1] = blurred[1:-1, 1:-1]
    return _blend(image, soft, factor)


def _stretch(image: Pixels, *_: object) -> Pixels:
    """Return each channel from its least and its largest value to 0 and 255."""
    low, high = image.min((0, 1)).astype(np.float32), image.max((0, 1)).astype(np.float32)
    scale = np.divide(np.float32(255), high - low, out=np.ones_like(low), where=high > low)
    made = (image - np.where(high > low, low, 0)) * scale
    return np.asarray(np.clip(made, 0, 255), np.uint8)


def _equalize(image: Pixels, *_: object) -> Pixels:
    """Return each channel with its values spread evenly."""
    made = image.copy()
    for channel in range(image.shape[2]):
        counts = np.bincount(image[:, :, channel].ravel(), minlength=256)
        last = counts[np.flatnonzero(counts)[-1]]
        step = int(counts.sum() - last) // 255
        if step:
            table = (np.cumsum(counts) - counts + step // 2) // step
            made[:, :, channel] = np.clip(table, 0, 255).astype(np.uint8)[image[:, :, channel]]
    return made


Change = Callable[[Pixels, float, int], Pixels]
CHANGES: list[tuple[Change, Callable[[float, int, int], float], bool]] = [
    (lambda image, *_: image, lambda *_: 0.0, False),
    (lambda image, x, fill: _warp(image, [[1, x, 0], [0, 1, 0]], fill), lambda s, *_: 0.3 * s, True),
    (lambda image, x, fill: _warp(image, [[1, 0, 0], [x, 1, 0]], fill), lambda s, *_: 0.3 * s, True),
    (lambda image, x, fill: _warp(image, [[1, 0, -int(x)], [0, 1, 0]], fill), lambda s, _, w: 150 / 331 * w * s, True),
    (lambda image, x, fill: _warp(image, [[1, 0, 0], [0, 1, -int(x)]], fill), lambda s, h, _: 150 / 331 * h * s, True),
    (_rotate, lambda s, *_: 30 * s, True),
    (lambda image, x, _: _blend(image, np.zeros((1, 1, 1), np.float32), 1 + x), lambda s, *_: 0.9 * s, True),
    (lambda image, x, fill: _colour(image, 1 + x, fill), lambda s, *_: 0.9 * s, True),
    (lambda image, x, fill: _contrast(image, 1 + x, fill), lambda s, *_: 0.9 * s, True),
    (lambda image, x, fill: _sharpness(image, 1 + x, fill), lambda s, *_: 0.9 * s, True),
    (lambda image, x, _: image & np.uint8(256 - (1 << (8 - int(x)))), lambda s, *_: 8 - round(4 * s), False),
    (lambda image, x, _: np.where(image >= x, 255 - image, image), lambda s, *_: 255 * (1 - s), False),
    (_stretch, lambda *_: 0.0, False),
    (_equalize, lambda *_: 0.0, False),
]
"""The changes: function, amount for a strength from 0 to 1, height and width, and whether it may be negated.

In turn: nothing, sheared along x and y, moved along x and y, turned, brightness, colour, contrast, sharpness,
fewer bits, bright values inverted, contrast stretched, values spread evenly.
"""


def _augment(image: Pixels, draws: NDArray[np.float64], strength: float, fill: int) -> Pixels:
    for which, sign in draws.tolist():
        change, amount, signed = CHANGES[int(which * len(CHANGES))]
        much = amount(strength, *image.shape[:2])
        image = change(image, -much if signed and sign < 0.5 else much, fill)
    return image


def check_magnitude(magnitude: int) -> None:
    """Raise ValueError for a strength that there is not."""
    if not 0 <= magnitude < BINS:
        raise ValueError(f"magnitude must be between 0 and {BINS - 1}, not {magnitude}")


def _augment_rows(images: Images, draws: TensorLike, magnitude: int, fill: int) -> Column:
    if images.dtype != np.uint8:
        raise TypeError(f"rand_augment works on uint8, not {images.dtype}: use it before images become floats")
    check_magnitude(magnitude)
    numbers = each_row(draws, len(images))
    out = pooled(len(images.data), np.uint8)
    for row, start, own in zip(images.rows(), images.starts.tolist(), numbers, strict=True):
        out[start : start + row.size] = _augment(row, own, magnitude / (BINS - 1), fill).ravel()
    return images.with_values(out)


@image_operation(_augment_rows, lambda *known, **_: known, each=("draws",))
def augment_by_draws(image: TensorLike, draws: TensorLike, magnitude: int, fill: int) -> Tensor:
    """Return an image changed as pairs of numbers from 0 to 1 decide."""


@drawn
def rand_augment(image: TensorLike, rng: RandomSource, num_ops: int = 2, magnitude: int = 9, fill: int = 0) -> Tensor:
    """Return the image after `num_ops` changes, chosen out of fourteen, of a strength from 0 to 30, as RandAugment has
    them.

    Images are uint8. What comes in from outside of the image is `fill`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        rng: Random generator that `random_map` passes to its function.
        num_ops: Number of changes to apply.
        magnitude: Strength of the changes.
        fill: Value of pixels outside of the image.

    >>> hr.image.rand_augment(np.zeros((8, 8, 3), np.uint8), np.random.default_rng(0)).shape
    (8, 8, 3)
    """
    return augment_by_draws(image, rng.random((num_ops, 2)), magnitude, fill)
