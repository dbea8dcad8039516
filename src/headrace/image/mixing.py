"""Images of a batch mixed with their neighbours, and labels with them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, column_of, values
from headrace.core.types import AnyFunction, Array, RandomSource, Tensor, TensorLike
from headrace.image.operation import drawn
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

BETA_TABLE_POINTS = 4096


@lru_cache(maxsize=32)
def _beta_table(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tabulate the lower half of the symmetric beta distribution: cumulative probabilities, and points."""
    if not alpha > 0:
        raise ValueError(f"alpha is positive, not {alpha}")
    if alpha < 1:
        steps = np.linspace(0, 0.5**alpha, BETA_TABLE_POINTS)  # of x ** alpha, in which the density has no pole
        points = steps ** (1 / alpha)
        density = (1 - points) ** (alpha - 1)
    else:
        steps = points = np.linspace(0, 0.5, BETA_TABLE_POINTS)
        density = (points * (1 - points)) ** (alpha - 1)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(steps))])
    return below / below[-1] / 2, points


def beta_of_uniform(draw: float, alpha: float) -> float:
    """Return the number below which the symmetric beta distribution has `draw` of its mass, to four digits."""
    below, points = _beta_table(alpha)
    low = float(np.interp(min(draw, 1 - draw), below, points))
    return low if draw <= 0.5 else 1 - low


def _one_hot(labels: Array, classes: int | None) -> NDArray[np.float32]:
    if labels.ndim == 1 and labels.dtype.kind in "iu":
        if classes is None:
            raise ValueError("labels that are numbers need num_classes")
        if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
            raise ValueError(f"a label is outside of num_classes={classes}")
        return np.asarray(np.eye(classes, dtype=np.float32)[labels])
    if labels.ndim != 2:
        raise ValueError(f"labels are numbers, or a row of probabilities for each image, not of shape {labels.shape}")
    return np.asarray(labels, np.float32)


def check_batch(images: tuple[int, ...], labels: tuple[int, ...]) -> None:
    """Raise if arrays of these shapes are no batch of images and as many labels."""
    if len(images) != 4 or labels[:1] != images[:1]:
        raise ValueError(
            f"a batch of images and as many labels are mixed, not shapes {images} and {labels}: batch first"
        )


def _mixup(
    images: TensorLike, labels: TensorLike, draw: TensorLike, alpha: float, num_classes: int | None
) -> tuple[Any, Any]:
    images, labels = np.asarray(images), np.asarray(labels)
    check_batch(images.shape, labels.shape)
    share = np.float32(beta_of_uniform(float(draw), alpha))
    rest = np.float32(1) - share
    pixels = images if images.dtype == np.float32 else images.astype(np.float32)
    kinds = _one_hot(labels, num_classes)
    return pixels * share + np.roll(pixels, 1, 0) * rest, kinds * share + np.roll(kinds, 1, 0) * rest


def cutmix_box(draws: TensorLike, height: int, width: int, alpha: float) -> tuple[int, int, int, int]:
    """Return top, left, bottom and right of the box that three numbers from 0 to 1 determine."""
    side = 0.5 * math.sqrt(1 - beta_of_uniform(float(draws[0]), alpha))
    middle_y, middle_x = int(draws[1] * height), int(draws[2] * width)
    half_y, half_x = int(side * height), int(side * width)
    top, left = max(0, middle_y - half_y), max(0, middle_x - half_x)
    return top, left, min(height, middle_y + half_y), min(width, middle_x + half_x)


def _cutmix(
    images: TensorLike, labels: TensorLike, draws: TensorLike, alpha: float, num_classes: int | None
) -> tuple[Any, Any]:
    images, labels = np.asarray(images), np.asarray(labels)
    check_batch(images.shape, labels.shape)
    height, width = images.shape[1:3]
    top, left, bottom, right = cutmix_box(draws, height, width, alpha)
    mixed = images.copy()
    mixed[:, top:bottom, left:right] = np.roll(images, 1, 0)[:, top:bottom, left:right]
    kept = np.float32(1 - (bottom - top) * (right - left) / (height * width))
    kinds = _one_hot(labels, num_classes)
    return mixed, kinds * kept + np.roll(kinds, 1, 0) * (np.float32(1) - kept)


def _mixed_spec(
    images: TensorLike, labels: TensorLike, draws: TensorLike, alpha: float, num_classes: int | None, *, floats: bool
) -> tuple[TensorSpec, TensorSpec]:
    del draws, alpha
    if not isinstance(images, TensorSpec) or not isinstance(labels, TensorSpec) or images.rank != 4:
        raise ValueError(f"it is given {images} and {labels} where a batch of images and their labels are needed")
    assert images.shape is not None and labels.shape is not None
    classes = labels.shape[1] if len(labels.shape) == 2 else num_classes
    return (
        TensorSpec(images.shape, np.float32 if floats else images.dtype),
        TensorSpec((images.shape[0], classes), np.float32),
    )


def _each_batch(mix: AnyFunction) -> AnyFunction:
    """Return the block form: a block has few batches, each mixed by itself."""

    def block(_images: object, _labels: object, _draws: object, alpha: float, num_classes: int | None) -> AnyFunction:
        def run(*columns: Column) -> tuple[Column, Column]:
            rows = zip(*[values(column) for column in columns], strict=True)
            made = [mix(*row, alpha, num_classes) for row in rows]
            return column_of([images for images, _ in made]), column_of([labels for _, labels in made])

        return run

    return block


@traced_operation(spec=lambda *args: _mixed_spec(*args, floats=True), block=_each_batch(_mixup))
def mixup_by_draw(
    images: TensorLike, labels: TensorLike, draw: TensorLike, alpha: float, num_classes: int | None
) -> Tensor:
    """Return images and labels mixed as a number from 0 to 1 decides."""
    return _mixup(images, labels, draw, alpha, num_classes)


@traced_operation(spec=lambda *args: _mixed_spec(*args, floats=False), block=_each_batch(_cutmix))
def cutmix_by_draws(
    images: TensorLike, labels: TensorLike, draws: TensorLike, alpha: float, num_classes: int | None
) -> Tensor:
    """Return images and labels mixed as three numbers from 0 to 1 decide."""
    return _cutmix(images, labels, draws, alpha, num_classes)


@drawn
def mixup(
    images: TensorLike, labels: TensorLike, rng: RandomSource, alpha: float = 1.0, num_classes: int | None = None
) -> Tensor:
    """Mix each image of a batch with the one before it, and their labels, in shares drawn from Beta(alpha, alpha).

    Labels are a row of probabilities for each image, or numbers with `num_classes`.

    Args:
        images: One image (height, width, channels) or a batch of images.
        labels: Labels of the images: integers or one-hot rows.
        rng: Random generator that `random_map` passes to its function.
        alpha: Parameter of the Beta distribution that the proportion is drawn from.
        num_classes: Number of classes, if labels are integers.

    >>> images, labels = hr.image.mixup(np.ones((2, 4, 4, 3)), np.eye(2), np.random.default_rng(0))
    >>> images.dtype, labels.sum(1)
    (dtype('float32'), array([1., 1.], dtype=float32))
    """
    return mixup_by_draw(images, labels, rng.random(), alpha, num_classes)


@drawn
def cutmix(
    images: TensorLike, labels: TensorLike, rng: RandomSource, alpha: float = 1.0, num_classes: int | None = None
) -> Tensor:
    """Replace a box in each image of a batch by that of the image before it; labels are mixed by the box's share.

    Labels are a row of probabilities for each image, or numbers with `num_classes`.

    Args:
        images: One image (height, width, channels) or a batch of images.
        labels: Labels of the images: integers or one-hot rows.
        rng: Random generator that `random_map` passes to its function.
        alpha: Parameter of the Beta distribution that the proportion is drawn from.
        num_classes: Number of classes, if labels are integers.

    >>> images, labels = hr.image.cutmix(np.ones((2, 4, 4, 3)), np.eye(2), np.random.default_rng(0))
    >>> images.shape, labels.sum(1)
    ((2, 4, 4, 3), array([1., 1.], dtype=float32))
    """
    return cutmix_by_draws(images, labels, rng.random(3), alpha, num_classes)
