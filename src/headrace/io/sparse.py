"""Features as sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array
from headrace.errors import ParseError
from headrace.io.feature import DTYPES, INT64, Feature, FoundValues, Request, sizes_of, varying
from headrace.plan.spec import TensorSpec


class Sparse(NamedTuple):
    """A mostly zero tensor: the indices of its nonzero values, the values, and its shape.

    Args:
        indices: Positions of the values, one row each.
        values: Values at these positions.
        dense_shape: Shape of the dense array.

    >>> hr.io.Sparse(np.array([[0, 3]]), np.array([1.5]), np.array([1, 4])).to_dense()
    array([[0. , 0. , 0. , 1.5]])
    """

    indices: NDArray[np.int64]
    values: Array
    dense_shape: NDArray[np.int64]

    def to_dense(self, default_value: object = 0) -> Array:
        """Return the whole tensor."""
        dense = np.full(self.dense_shape, default_value, self.values.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense


@dataclass(frozen=True)
class SparseFeature(Feature):
    """Values with their indices, for a tensor of shape `size` that is empty elsewhere.

    Args:
        index_key: Name, or names, of the features that contain the indices.
        value_key: Name of the feature that contains the values.
        dtype: Data type.
        size: Size of each axis.
        already_sorted: Whether the indices are sorted.

    >>> record = hr.io.encode_example({"at": [7, 2], "weight": [0.5, 1.0]})
    >>> feature = hr.io.SparseFeature("at", "weight", np.float32, 10)
    >>> hr.io.parse_single_example(record, {"x": feature})["x"].values
    array([1. , 0.5], dtype=float32)
    """

    index_key: str | Sequence[str]
    value_key: str
    dtype: DTypeLike
    size: int | Sequence[int]
    already_sorted: bool = False

    def __post_init__(self) -> None:
        keys = (self.index_key,) if isinstance(self.index_key, str) else tuple(self.index_key)
        object.__setattr__(self, "index_key", keys)
        object.__setattr__(self, "size", sizes_of(self.size))
        if len(keys) != len(self._size):
            raise ValueError(f"there are {len(keys)} keys of indices for the size {self.size}")

    @property
    def _keys(self) -> tuple[str, ...]:
        return self.index_key  # type: ignore[return-value]

    @property
    def _size(self) -> tuple[int, ...]:
        return self.size  # type: ignore[return-value]

    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the values, and an index for each axis."""
        if in_steps:
            raise ValueError(f"feature list {name!r} needs FixedLenSequenceFeature, VarLenFeature or RaggedFeature")
        indices = [varying(key, INT64, single=single, in_steps=in_steps) for key in self._keys]
        return [varying(self.value_key, self.kind, single=single, in_steps=in_steps), *indices]

    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Sparse:
        """Ragged indices and values, sorted in each row."""
        values, *axes = (f.ragged for f in found)
        size = np.array(self._size, np.int64)
        lengths = values.row_lengths()
        for key, axis in zip(self._keys, axes, strict=True):
            if (wrong := axis.row_lengths() != lengths).any():
                row = int(wrong.argmax())
                raise ParseError(f"feature {key!r} has {len(axis[row])} indices for {lengths[row]} values", row)
        indices = np.stack([axis.values for axis in axes], axis=1)
        if (outside := ((indices < 0) | (indices >= size)).any(axis=1)).any():
            at = int(outside.argmax())
            row = int(np.searchsorted(values.offsets, at, "right")) - 1
            raise ParseError(f"feature {name!r} has the index {indices[at].tolist()} in a size of {size.tolist()}", row)
        content = values.values
        if not self.already_sorted:
            order = np.lexsort((*indices.T[::-1], np.repeat(np.arange(rows), lengths)))
            indices, content = indices[order], content[order]
        offsets = values.offsets
        columns: tuple[Any, ...] = (
            Ragged._of(indices, offsets),
            Ragged._of(content, offsets),
            np.tile(size, (rows, 1)),
        )
        return Sparse(*columns)

    def as_batch(self, column: Column) -> Sparse:
        """Return one tensor, with the rows as its first axis."""
        indices, values, dense_shape = column
        rows = len(values)
        numbers = np.repeat(np.arange(rows), values.row_lengths())
        shape = np.array([len(dense_shape), *self._size])
        return Sparse(np.column_stack([numbers, indices.values]), values.values, shape)

    def spec(self, *, batch: bool) -> Sparse:
        """Return the spec: the number of values is not known."""
        rank = len(self._keys) + batch
        parts: tuple[Any, ...] = (
            TensorSpec((None, rank), np.int64),
            TensorSpec((None,), DTYPES[self.kind]),
            TensorSpec((rank,), np.int64),
        )
        return Sparse(*parts)
