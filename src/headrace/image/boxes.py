"""Boxes of images at one size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, column_of, values
from headrace.core.types import AnyFunction, Nested, TensorLike
from headrace.image.resize import two_sizes
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation
from headrace.trace.values import map_arguments

Float = NDArray[np.float32]


def _spec(
    image: TensorLike, boxes: TensorLike, box_indices: TensorLike, crop_size: TensorLike, *_: object, **__: object
) -> TensorSpec:
    if isinstance(crop_size, TensorSpec):
        raise ValueError("crop_size depends on the data")
    images, corners, numbers = _shape(image, 3, 4), _shape(boxes, 2), _shape(box_indices, 1)
    count = corners[0] if corners[0] is not None else numbers[0]
    return TensorSpec((count, *two_sizes(crop_size), images[-1]), np.float32)


def _shape(value: TensorLike, *ranks: int) -> tuple[int | None, ...]:
    shape = value.shape if isinstance(value, TensorSpec) else np.shape(value)
    if shape is None or len(shape) not in ranks:
        raise ValueError(f"it is given {value} where something of {ranks[-1]} axes is needed")
    return tuple(shape)


def _block(*args: object, **named: object) -> AnyFunction:
    """Apply the function row by row."""

    def run(*columns: Column) -> Column:
        made = []
        for row in zip(*map(values, columns), strict=True):
            filled, keywords = _filled((args, named), iter(row))
            made.append(crop_and_resize(*filled, **keywords))
        return column_of(made)

    return run


def _filled(arguments: object, row: Iterator[object]) -> Nested:
    """Arguments with the values of a row in the place of their specs."""
    return map_arguments(arguments, lambda item: next(row) if isinstance(item, TensorSpec) else item)


@traced_operation(spec=_spec, block=_block)
def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: TensorLike,
    crop_size: TensorLike,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Float:
    """Crop boxes of a batch of images and resize them to one size, in float32: box i, (y1, x1, y2, x2), is of image
    `box_indices[i]`.

    Corners go from 0 to 1; a box whose second corner is before its first is mirrored, and pixels outside of the image
    have the `extrapolation_value`. A single image is a batch of one.

    Args:
        image: One image (height, width, channels) or a batch of images.
        boxes: Boxes as (y1, x1, y2, x2), relative to the size of the image.
        box_indices: Number of the image that each box refers to.
        crop_size: Height and width of each result.
        method: Interpolation, one of `hr.image.ResizeMethod`.
        extrapolation_value: Value outside of the image.

    >>> hr.image.crop_and_resize(np.arange(9.0).reshape(1, 3, 3, 1), [[0, 0, 1, 1]], [0], (2, 2))[0, :, :, 0]
    array([[0., 2.],
           [6., 8.]], dtype=float32)
    """
    images, corners = np.asarray(image), np.asarray(boxes, np.float32)
    images = images[None] if images.ndim == 3 else images
    numbers = np.asarray(box_indices, np.int64)
    if images.ndim != 4 or corners.ndim != 2 or corners.shape[1] != 4 or numbers.shape != corners.shape[:1]:
        raise ValueError(
            f"a batch of images, n boxes of four numbers and n indices are needed, not shapes {images.shape}, "
            f"{corners.shape} and {numbers.shape}"
        )
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(images)):
        raise ValueError(f"box_indices are outside of a batch of {len(images)}")
    if method not in ("bilinear", "nearest"):
        raise ValueError(f'method is "bilinear" or "nearest", not {method!r}')
    height, width = two_sizes(crop_size)
    out = np.full((len(corners), height, width, images.shape[3]), extrapolation_value, np.float32)
    for made, (y1, x1, y2, x2), number in zip(out, corners, numbers.tolist(), strict=True):
        y, x = _places(y1, y2, images.shape[1], height), _places(x1, x2, images.shape[2], width)
        inside_y, inside_x = (y >= 0) & (y <= images.shape[1] - 1), (x >= 0) & (x <= images.shape[2] - 1)
        if inside_y.any() and inside_x.any():
            pixels = images[number].astype(np.float32)
            made[np.ix_(inside_y, inside_x)] = _sampled(pixels, y[inside_y], x[inside_x], nearest=method == "nearest")
    return out


def _places(first: Float, last: Float, size: int, wanted: int) -> Float:
    """Return the positions of a box's pixels along an axis."""
    most = np.float32(size - 1)
    if wanted == 1:
        return np.asarray([np.float32(0.5) * (first + last) * most], np.float32)
    step = (last - first) * most / np.float32(wanted - 1)
    return np.asarray(first * most + np.arange(wanted, dtype=np.float32) * step, np.float32)


def _sampled(pixels: Float, y: Float, x: Float, *, nearest: bool) -> Float:
    if nearest:
        rows, columns = (np.floor(at + np.float32(0.5)).astype(np.int64) for at in (y, x))
        return np.asarray(pixels[rows][:, columns])
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    bottom, right = np.ceil(y).astype(np.int64), np.ceil(x).astype(np.int64)
    part_y, part_x = (y - top.astype(np.float32))[:, None, None], (x - left.astype(np.float32))[:, None]
    upper = pixels[top][:, left] + (pixels[top][:, right] - pixels[top][:, left]) * part_x
    lower = pixels[bottom][:, left] + (pixels[bottom][:, right] - pixels[bottom][:, left]) * part_x
    made: Float = upper + (lower - upper) * part_y
    return made
