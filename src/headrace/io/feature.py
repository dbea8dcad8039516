"""The interface of a feature description: which lists it needs, and the column that they become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import box_text
from headrace.columns.arrow_text import binary
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, Nested

BYTES, FLOAT, INT64 = 1, 2, 3
"""The kernels' codes of feature types."""
DTYPES = {BYTES: np.dtype(bytes), FLOAT: np.dtype(np.float32), INT64: np.dtype(np.int64)}


class Request(NamedTuple):
    """One list of each record, as the kernels take it (src/native/example.h)."""

    name: bytes
    kind: int
    in_steps: bool
    size: int
    multiple: int = 1
    required: bool = False
    skip_empty: bool = False
    default: Component = None

    @property
    def single_number(self) -> bool:
        """Whether there is one number in each record: the kernels put these together."""
        return self.size == 1 and not self.in_steps and self.kind != BYTES


class FoundValues(NamedTuple):
    """The values of a request in all records, and their boundaries."""

    values: Array
    ends: NDArray[np.int64] | None
    splits: NDArray[np.int64]
    steps: NDArray[np.int64]

    @property
    def array(self) -> Array:
        """The values, bytes as objects."""
        return self.values if self.ends is None else box_text(binary(self.values, self.ends))

    @property
    def ragged(self) -> Ragged:
        """The values cut into the records, or steps."""
        return Ragged._of(self.array, self.splits)


class Feature(ABC):
    """Base of all descriptions."""

    dtype: DTypeLike

    @property
    def kind(self) -> int:
        """Bytes, float or int64, as the kernels number them."""
        given = getattr(self.dtype, "as_numpy_dtype", self.dtype)  # TensorFlow's own dtypes do as well
        dtype = np.dtype(given)
        if dtype.kind in "SUO":
            return BYTES
        if dtype not in (np.float32, np.int64):
            raise ValueError(f"an Example holds float32, int64 and bytes: parse as one of these instead of {dtype}")
        return FLOAT if dtype == np.float32 else INT64

    _headrace_constant = True  # a traced function may hold on to it

    @property
    def plain(self) -> bool:
        """Whether its column is just what was found: a number or a text a record."""
        return False

    @abstractmethod
    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the lists it is made of."""

    @abstractmethod
    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Column:
        """Return the column of a block, one row a record (or step)."""

    def as_batch(self, column: Column) -> Column:
        """Return the column as one batch."""
        return column

    @abstractmethod
    def spec(self, *, batch: bool) -> Nested:
        """Return a TensorSpec, or several in a structure: what is known before any record is read."""


def varying(name: str, kind: int, *, single: bool, in_steps: bool) -> Request:
    """Return a list of any length.

    Of several with one name tf.io takes the last; of a single Example the last not empty.
    """
    return Request(name.encode(), kind, in_steps, -1, skip_empty=single and not in_steps)


def sizes_of(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple of sizes, all of which are known."""
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if any(size is None or size < 0 for size in sizes):
        raise ValueError(f"all sizes of a feature must be known, not {shape}; for any number see VarLenFeature")
    return tuple(int(size) for size in sizes)


def as_tuples(value: object) -> Nested:
    """Return lists and arrays as tuples, so that descriptions can be compared."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(as_tuples(v) for v in value) if isinstance(value, list | tuple) else value
