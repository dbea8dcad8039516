"""Columns of images for the kernels: one flat array, and the offset of each image in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column, Varied, as_varied, values
from headrace.columns.dense import pooled
from headrace.core.types import Array, Component, DType


@dataclass(slots=True)
class Images:
    """Images in one flat array: image i has the shape `shapes[i]` (height, width, channels) and begins at `starts[i]`.

    They are contiguous.
    """

    data: Array
    shapes: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of_column(cls, column: Column) -> Images:
        """Return the rows of a column, which must be images of one dtype."""
        if isinstance(column, np.ndarray):
            if column.ndim != 4:
                raise ValueError(f"an image has height, width and channels, not the shape {column.shape[1:]}")
            count, size = len(column), int(np.prod(column.shape[1:]))
            shapes = np.broadcast_to(np.array(column.shape[1:], np.int64), (count, 3)).copy()
            return cls(np.ascontiguousarray(column).reshape(-1), shapes, np.arange(count, dtype=np.int64) * size)
        varied = as_varied(column)
        if varied is None:
            varied = Varied.from_rows([_image(row) for row in values(column)])
        if varied.shapes.shape[1] != 3:
            raise ValueError(f"an image has height, width and channels, not {varied.shapes.shape[1]} axes")
        shapes, sizes = np.ascontiguousarray(varied.shapes), varied.sizes
        return cls(varied.packed(), shapes, np.cumsum(sizes) - sizes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def dtype(self) -> DType:
        """Of the values."""
        return self.data.dtype

    @property
    def even(self) -> bool:
        """Whether all have one shape."""
        return bool((self.shapes == self.shapes[0]).all())

    def rows(self) -> list[Array]:
        """Return each image as an array, sharing memory."""
        return list(Varied(self.data, self.shapes, self.starts))

    def dense(self) -> Array | None:
        """Return all images as one array if they have one shape, sharing memory."""
        return self.data.reshape(len(self), *self.shapes[0].tolist()) if len(self) and self.even else None

    def with_values(self, data: Array) -> Column:
        """Return a column of images of these shapes with other values, in the same places."""
        return column_of_images(data, self.shapes)


def column_of_images(data: Array, shapes: NDArray[np.int64]) -> Array | Varied:
    """Return contiguous images as a column: dense if all have one shape, else varied."""
    if len(shapes) and (shapes == shapes[0]).all():
        return data.reshape(len(shapes), *shapes[0].tolist())
    return Varied(data, shapes)


def new_images(shapes: NDArray[np.int64], dtype: DTypeLike) -> tuple[Array, NDArray[np.int64]]:
    """Allocate contiguous memory for images of these shapes, and return the offset of each."""
    sizes = shapes.prod(1)
    return pooled(int(sizes.sum()), dtype), np.cumsum(sizes) - sizes


def _image(row: Component) -> Array:
    if not isinstance(row, np.ndarray) or row.ndim != 3:
        raise ValueError(f"an image has height, width and channels, not the shape {np.shape(row)}")
    return row
