"""The interface of a kind of column: a few operations, each on all rows at a time.

A kind is registered for the class of its columns; everything else calls `kind_of` and knows no classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Component

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.spec import TensorSpec

Column: TypeAlias = Any
"""The rows of one component: an object of a class that a kind is registered for, with a length, which can be sliced."""

Indices: TypeAlias = NDArray[np.int64]

Notes: TypeAlias = dict[str, Any]
"""JSON values needed to make a column from its Arrow array again; `kind` is the name of the kind."""


class Kind(ABC):
    """One kind of column. `column[a:b]` is rows of it, sharing memory."""

    name: str
    """The name of the kind in files."""

    @abstractmethod
    def values(self, column: Column) -> Iterator[Component]:
        """Return the rows as components of elements."""

    @abstractmethod
    def take(self, column: Column, indices: Indices) -> Column:
        """Return these rows, copied."""

    @abstractmethod
    def join(self, columns: Sequence[Column]) -> Column | None:
        """Concatenate columns of this kind; None if they are too different."""

    def pick(self, columns: Sequence[Column], order: Indices) -> Column | None:
        """Return rows of several columns of this kind by their numbers among all of them; None if they cannot be
        joined.
        """
        joined = self.join(columns)
        return None if joined is None else self.take(joined, order)

    @abstractmethod
    def stack(self, column: Column, size: int, path: str) -> Column | str:
        """Return every `size` rows as one, with an axis more; or why those at `path` of elements do not fit
        together.
        """

    def unstack(self, column: Column) -> tuple[Column, Indices] | None:  # noqa: ARG002
        """Return the rows of all rows, and how many each has; None if one of them has no axis to split."""
        return None

    @abstractmethod
    def nbytes(self, column: Column) -> int:
        """Return how much memory the rows take, roughly."""

    @abstractmethod
    def spec(self, column: Column) -> TensorSpec:
        """Return the spec of the rows for a traced function: a size only if all have it."""

    def lock(self, column: Column) -> Column:
        """Return a read-only column that shares memory."""
        return column

    def copy(self, column: Column) -> Column:
        """Return the rows in their own memory."""
        return column

    @abstractmethod
    def to_arrow(self, column: Column) -> tuple[pa.Array, Notes]:
        """Return an Arrow array, and notes for making the column from it again."""

    @abstractmethod
    def from_arrow(self, array: pa.Array, notes: Notes) -> Column:
        """Return what `to_arrow` was given, sharing memory if possible.

        Raise ValueError, TypeError or KeyError if it was not.
        """


_by_class: dict[type, Kind] = {}
_by_class_name: dict[str, Kind] = {}
_by_name: dict[str, Kind] = {}


def register_kind(kind: Kind, of: type | str) -> None:
    """Register the kind of columns of a class and its subclasses.

    The class may be named, as `module.Class`, if its module should not be imported for this.
    """
    known = _by_name.setdefault(kind.name, kind)
    if type(known) is not type(kind):
        raise ValueError(f"a kind of column called {kind.name!r} is registered already: {type(known).__name__}")
    if isinstance(of, str):
        _by_class_name[of] = kind
    else:
        _by_class[of] = kind


def kind_of(column: Column) -> Kind:
    """Return the kind of a column."""
    try:
        return _by_class[type(column)]
    except KeyError:
        return _derived(type(column))


def _derived(of: type) -> Kind:
    for base in of.__mro__:
        found = _by_class.get(base) or _by_class_name.get(f"{base.__module__}.{base.__qualname__}")
        if found is not None:
            _by_class[of] = found
            return found
    raise TypeError(f"{of.__name__} is not a column: register its kind with headrace.columns.register_kind")


def kind_named(name: str) -> Kind:
    """Return the kind that has this name in files."""
    try:
        return _by_name[name]
    except KeyError:
        raise ValueError(f"a column stored as {name!r}; is the package that adds this kind imported?") from None
