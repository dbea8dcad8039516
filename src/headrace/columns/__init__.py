"""Columns: the rows of one component, stored together.

Each kind is a file: dense arrays, ragged rows, text, rows stacked into batches, arrays of varied shapes, and objects
as a last resort. What can be done with all of them is here; see `Kind` for adding another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.columns.dense import Dense
from headrace.columns.kind import Column, Indices, Kind, kind_named, kind_of, register_kind
from headrace.columns.objects import Objects
from headrace.columns.ragged import RaggedKind, as_ragged
from headrace.columns.stacked import Stacked
from headrace.columns.text import Text
from headrace.columns.varied import Varied
from headrace.ragged import Ragged

__all__ = [
    "Column", "Dense", "Indices", "Kind", "Objects", "RaggedKind", "Stacked", "Text", "Varied", "as_ragged", "box",
    "column_of", "join", "join_alike", "kind_named", "kind_of", "nbytes", "pick", "register_kind", "stack", "take",
]  # fmt: skip

_PARAMETRIC = (np.datetime64, np.timedelta64, np.void)
"""Scalars whose type alone does not tell their dtype."""


def take(column: Column, indices: Indices) -> Column:
    """These rows."""
    return column.take(indices, axis=0) if type(column) is np.ndarray else kind_of(column).take(column, indices)


def box(column: Column) -> Iterator[Any]:
    """The rows as components of elements."""
    return iter(column) if type(column) is np.ndarray else kind_of(column).rows(column)


def nbytes(column: Column) -> int:
    """How much memory the rows take, roughly."""
    return kind_of(column).nbytes(column)


def stack(column: Column, size: int) -> Column | str:
    """Every `size` rows as one, with an axis more; or why they do not fit together."""
    return kind_of(column).stack(column, size)


def join(columns: Sequence[Column]) -> Column:
    """Columns one after another, of whichever kind holds them all."""
    if len(columns) == 1:
        return columns[0]
    made = join_alike(columns)
    return [row for column in columns for row in box(column)] if made is None else made


def join_alike(columns: Sequence[Column]) -> Column | None:
    """As `join`, None where only a list of objects would hold them all."""
    return _by_kind(columns, lambda kind, of_it: kind.join(of_it))


def pick(columns: Sequence[Column], order: Indices) -> Column:
    """Rows of several columns by their numbers among all of them."""
    if len(columns) == 1:
        return take(columns[0], order)
    made = _by_kind(columns, lambda kind, of_it: kind.pick(of_it, order))
    return take(join(columns), order) if made is None else made


def _by_kind(columns: Sequence[Column], work: Callable[[Kind, Sequence[Column]], Column | None]) -> Column | None:
    """What a kind makes of columns: their own if they have one, else one that arrays of other shapes fit into."""
    kinds = {kind_of(column) for column in columns}
    made = work(kinds.pop(), columns) if len(kinds) == 1 else None
    if made is not None:
        return made
    for convert in (_as_ragged, _as_varied):
        converted = [convert(column) for column in columns]
        alike = [c for c in converted if c is not None]
        if len(alike) == len(columns):
            made = work(kind_of(alike[0]), alike)
            if made is not None:
                return made
    return None


def _as_ragged(column: Column) -> Ragged | None:
    if isinstance(column, Ragged):
        return column
    return as_ragged(column) if isinstance(column, np.ndarray) and column.ndim > 1 else None


def _as_varied(column: Column) -> Varied | None:
    if isinstance(column, Varied):
        return column
    if isinstance(column, Ragged) and isinstance(column.inner, np.ndarray) and not column.dtype.hasobject:
        lengths = column.row_lengths()[:, None]
        rest = np.broadcast_to(np.array(column.inner.shape[1:], np.int64), (len(lengths), column.inner.ndim - 1))
        return Varied(column.inner.reshape(-1), np.hstack([lengths, rest]))
    if isinstance(column, np.ndarray) and column.ndim > 1 and not column.dtype.hasobject:
        shapes = np.tile(np.array(column.shape[1:], np.int64), (len(column), 1))
        return Varied(np.ascontiguousarray(column).reshape(-1), shapes)
    return None


def column_of(rows: list[Any]) -> Column:
    """A column of leaves: dense where all have one dtype and shape, else arrays that differ in shape, else the list."""
    first = rows[0]
    kind = type(first)
    if isinstance(first, np.generic):
        alike = all(type(r) is kind for r in rows) and kind not in _PARAMETRIC
        if not alike:  # types may differ where dtypes do not, and the other way round
            alike = all(isinstance(r, np.generic) and r.dtype == first.dtype for r in rows)
        return np.array(rows, first.dtype) if alike else rows
    if kind is np.ndarray:
        if len(rows) == 1:
            return first[None]
        shape, dtype, rank = first.shape, first.dtype, first.ndim
        if rank and all(type(r) is np.ndarray and r.ndim == rank and r.dtype == dtype for r in rows):
            if all(r.shape == shape for r in rows):
                return np.stack(rows)
            if dtype.hasobject:
                return rows
            return Ragged.from_rows(rows) if all(r.shape[1:] == shape[1:] for r in rows) else Varied.from_rows(rows)
    return rows
