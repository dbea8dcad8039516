"""What a kind of column is: the few things that can be done with one, all rows at a time.

A kind is registered for the class of its columns; everything else asks `kind_of` and knows no classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.plan.spec import TensorSpec

Column: TypeAlias = Any
"""The rows of one component: an object of a class that a kind is registered for, with a length, which can be sliced."""

Indices: TypeAlias = NDArray[np.int64]

Notes: TypeAlias = dict[str, Any]
"""What JSON must remember of a column to make it again of its Arrow array; `kind` is the name of the kind."""


class Kind(ABC):
    """One kind of column. `column[a:b]` is rows of it, sharing memory."""

    name: str
    """Under which the kind is written down in files."""

    @abstractmethod
    def values(self, column: Column) -> Iterator[Any]:
        """The rows as components of elements."""

    @abstractmethod
    def take(self, column: Column, indices: Indices) -> Column:
        """These rows, copied."""

    @abstractmethod
    def join(self, columns: Sequence[Column]) -> Column | None:
        """Columns of this kind one after another; None where they are too different to be one."""

    def pick(self, columns: Sequence[Column], order: Indices) -> Column | None:
        """Rows of several columns of this kind by their numbers among all of them; None where there is no join."""
        joined = self.join(columns)
        return None if joined is None else self.take(joined, order)

    @abstractmethod
    def stack(self, column: Column, size: int, path: str) -> Column | str:
        """Every `size` rows as one, with an axis more; or why those at `path` of elements do not fit together."""

    def unstack(self, column: Column) -> tuple[Column, Indices] | None:  # noqa: ARG002
        """The rows of all rows, and how many each has; None where one of them has no axis to take apart."""
        return None

    @abstractmethod
    def nbytes(self, column: Column) -> int:
        """How much memory the rows take, roughly."""

    @abstractmethod
    def spec(self, column: Column) -> TensorSpec:
        """What the rows look like to a traced function: a size only where all have it."""

    def lock(self, column: Column) -> Column:
        """The column as nobody can write to it, sharing memory."""
        return column

    def copy(self, column: Column) -> Column:
        """The rows in memory of their own."""
        return column

    @abstractmethod
    def to_arrow(self, column: Column) -> tuple[pa.Array, Notes]:
        """As an Arrow array, and what must be remembered to make the column of it again."""

    @abstractmethod
    def from_arrow(self, array: pa.Array, notes: Notes) -> Column:
        """What `to_arrow` was given, sharing memory where it can; ValueError, TypeError or KeyError if it was not."""


_by_class: dict[type, Kind] = {}
_by_class_name: dict[str, Kind] = {}
_by_name: dict[str, Kind] = {}


def register_kind(kind: Kind, of: type | str) -> None:
    """Have columns of a class, and of those derived from it, treated as `kind` says.

    The class may be named, as `module.Class`, where nobody should import its module for this.
    """
    known = _by_name.setdefault(kind.name, kind)
    if type(known) is not type(kind):
        raise ValueError(f"a kind of column called {kind.name!r} is registered already: {type(known).__name__}")
    if isinstance(of, str):
        _by_class_name[of] = kind
    else:
        _by_class[of] = kind


def kind_of(column: Column) -> Kind:
    """The kind of a column."""
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
    raise TypeError(f"{of.__name__} is no column: headrace.columns.register_kind says how one would be")


def kind_named(name: str) -> Kind:
    """The kind that is called so in a file."""
    try:
        return _by_name[name]
    except KeyError:
        raise ValueError(f"a column stored as {name!r}; is the package that adds this kind imported?") from None
