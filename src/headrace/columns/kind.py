"""What a kind of column is: the few things that can be done with one, all rows at a time.

A kind is registered for the class of its columns. Everything else asks `kind_of` and knows no classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.spec import LeafSpec, Shape

Column: TypeAlias = Any
"""Rows of one component: whatever class a kind is registered for. It has a length, and can be sliced."""

Indices: TypeAlias = NDArray[np.int64]


class Kind(ABC):
    """One kind of column. Rows lie on the first axis; `column[a:b]` shares memory."""

    name: str
    """Under which the kind is written down in files."""

    @abstractmethod
    def rows(self, column: Column) -> Iterator[Any]:
        """The rows as components of elements."""

    @abstractmethod
    def take(self, column: Column, indices: Indices) -> Column:
        """These rows."""

    @abstractmethod
    def join(self, columns: Sequence[Column]) -> Column | None:
        """Columns of this kind one after another; None where they are too different to be one."""

    def pick(self, columns: Sequence[Column], order: Indices) -> Column | None:
        """Rows of several columns of this kind by their numbers among all of them; None where there is no join."""
        joined = self.join(columns)
        return None if joined is None else self.take(joined, order)

    @abstractmethod
    def stack(self, column: Column, size: int) -> Column | str:
        """Every `size` rows as one, with an axis more; or why they do not fit together."""

    def group(self, column: Column, size: int) -> Column | str:
        """As `stack`, of rows that may differ in length: they stay as they are, as ragged ones."""
        return self.stack(column, size)

    def pad(self, column: Column, size: int, shape: Shape, filler: Any) -> Column | str:
        """As `stack`, of rows filled up to `shape` (None: the longest of each `size`) with `filler` (None: 0 or "")."""
        from headrace.columns.padding import pad_rows

        return pad_rows(list(self.rows(column)), size, shape, filler)

    def unstack(self, column: Column) -> tuple[Column, Indices] | None:  # noqa: ARG002
        """The rows of all rows, and how many each has; None where rows have no axis to take apart."""
        return None

    @abstractmethod
    def nbytes(self, column: Column) -> int:
        """How much memory the rows take, roughly."""

    @abstractmethod
    def spec(self, column: Column) -> LeafSpec:
        """What the rows look like: a size only where all have it."""

    def lock(self, column: Column) -> Column:
        """The column as nobody can write to it, sharing memory."""
        return column

    @abstractmethod
    def copy(self, column: Column) -> Column:
        """The rows in memory of their own, and nothing but the rows."""

    @abstractmethod
    def to_arrow(self, column: Column) -> tuple[pa.Array, dict[str, Any]]:
        """As an Arrow array, and what JSON must remember to make the column again."""

    @abstractmethod
    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Column:
        """What `to_arrow` was given; shares memory where it can. Raises ValueError where the two do not fit."""


_kinds: dict[type, Kind] = {}
_by_name: dict[str, Kind] = {}


def register_kind(kind: Kind, *classes: type) -> None:
    """Have columns of these classes, and of classes derived from them, treated as `kind` says."""
    _by_name[kind.name] = kind
    for each in classes:
        _kinds[each] = kind


def kind_of(column: Column) -> Kind:
    """The kind of a column."""
    try:
        return _kinds[type(column)]
    except KeyError:
        for base in type(column).__mro__:
            if base in _kinds:
                _kinds[type(column)] = _kinds[base]
                return _kinds[base]
        raise TypeError(
            f"no kind of column is registered for {type(column).__name__}: see headrace.columns.register_kind"
        ) from None


def kind_named(name: str) -> Kind:
    """The kind of this name."""
    try:
        return _by_name[name]
    except KeyError:
        raise ValueError(f"no kind of column is called {name!r}") from None
