"""The user's choice of columns: which are read, as which types, and values for missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.core.types import Component
from headrace.errors import SpecError, what_there_is
from headrace.formats.tables.arrow import is_list, list_of
from headrace.formats.tables.fields import arrow_fields

if TYPE_CHECKING:
    import pyarrow as pa

OBJECT = "object"
"""A column cast to this holds Python's own objects, lists as arrays of them; nothing more is known of it."""


@dataclass(frozen=True)
class Choice:
    """A user's options for columns, all by name: those of fields are `column.field`."""

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    cast: tuple[tuple[str, Any], ...] = ()
    nulls: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | None,
        exclude: Sequence[str] | None,
        cast: Mapping[str, object] | None,
        nulls: Mapping[str, object] | None,
    ) -> Choice:
        """Make a choice from the arguments of a reader."""
        chosen = None if columns is None else tuple(_check_names("columns", columns))
        left_out = tuple(_check_names("exclude", exclude or ()))
        twice = sorted({name for name in chosen or () if (chosen or ()).count(name) > 1})
        if twice:
            raise ValueError(f"columns names {', '.join(twice)} more than once")
        targets = tuple(sorted((name, _target(name, kind)) for name, kind in (cast or {}).items()))
        return cls(chosen, left_out, targets, tuple(sorted((nulls or {}).items())))

    def __str__(self) -> str:
        said = {"columns": self.columns, "exclude": self.exclude, "cast": self.targets, "nulls": self.fillers}
        return ", ".join(
            f"{name}={value}" for name, value in said.items() if value or (value == () and name == "columns")
        )

    @cached_property
    def targets(self) -> dict[str, Any]:
        """What columns are cast to: types of Arrow's, or OBJECT."""
        return dict(self.cast)

    @cached_property
    def fillers(self) -> dict[str, Any]:
        """What stands for a missing value, column by column."""
        return dict(self.nulls)

    def changes(self, name: str) -> bool:
        """Return whether the values of a column are cast or filled."""
        return name in self.targets or name in self.fillers

    def numbers(self, schema: pa.Schema) -> list[int]:
        """Return the indices of the columns to read. Raise if two of them have the same name."""
        names = schema.names
        numbers = [i for i, n in enumerate(names) if n not in self.exclude]
        if self.columns is not None:
            numbers = [i for i in numbers if names[i] in self.columns]
        check_names([names[i] for i in numbers], "column")
        return numbers

    def check(self, schema: pa.Schema) -> None:
        """Raise if the user names a column that the table does not have."""
        fields = [name for field in schema for name in column_paths(field.name, field.type)]
        missing = [name for name in self.columns or () if name not in schema.names]
        missing += [n for said in (self.exclude, self.targets, self.fillers) for n in said if n not in fields]
        if missing:
            raise SpecError(unknown_columns(missing, fields))


EVERYTHING = Choice()


def as_objects(name: str, values: list[Any], choice: Choice) -> list[Any]:
    """Return values as leaves of elements. Raise SpecError for None, dicts and tuples, which are not leaves."""
    filler = choice.fillers.get(name)
    return [_as_leaf(name, filler if value is None else value) for value in values]


def _as_leaf(name: str, value: object) -> Component:
    if value is None:
        raise SpecError(no_value(name))
    if isinstance(value, dict | tuple):
        raise SpecError(
            f"column {name!r} holds a {type(value).__name__}, which is not a value of a column but several parts"
        )
    if not isinstance(value, list):
        return value
    made = np.empty(len(value), object)
    made[:] = value
    return made


def no_value(name: str) -> str:
    """Return the error text for a missing value."""
    return f"column {name!r} has no value here; say what stands for it: nulls={{{name!r}: …}}"


def check_names(names: list[str], what: str) -> None:
    """Raise if two names are equal, because rows are dicts."""
    twice = sorted({repr(n) for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(
            f"more than one {what} is called {', '.join(twice)}: rename them, or leave them out (exclude=)"
        )


def cast_kind(kind: pa.DataType, target: pa.DataType) -> pa.DataType:
    """Return the type of an array whose values are cast; inside lists, unless the target is a list itself."""
    return list_of(cast_kind(kind.value_type, target), kind) if is_list(kind) and not is_list(target) else target


def _check_names(argument: str, names: Sequence[str]) -> Iterator[str]:
    if isinstance(names, str | bytes):
        raise TypeError(f"{argument} is a list of names, not {names!r}: [{names!r}]")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} holds names of columns, not {name!r}")
        yield str(name)


def _target(name: str, kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, pa.DataType):
        return kind
    try:
        dtype = np.dtype(kind)
        if dtype.kind == "O":
            return OBJECT
        if dtype.kind in "US":
            return pa.large_string() if dtype.kind == "U" else pa.large_binary()
        return pa.from_numpy_dtype(dtype)
    except (TypeError, pa.ArrowNotImplementedError):
        raise TypeError(
            f"cast={{{name!r}: {kind!r}}}: that is no dtype of NumPy's, str, bytes, object or type of pyarrow's"
        ) from None


def column_paths(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the names of a column and of the fields in it."""
    yield name
    for key, each in arrow_fields(kind) or ():
        yield from column_paths(f"{name}.{key}", each)


def unknown_columns(missing: list[str], known: Iterable[str]) -> str:
    """Return the error for unknown columns, with the known ones."""
    return f"there are no columns {', '.join(missing)}: {what_there_is(missing[0], known)}"
