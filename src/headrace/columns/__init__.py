"""Columns: the rows of one component, stored together.

One kind per file: dense arrays, ragged rows, text, batches of text, arrays of varied shapes, and objects as a last
resort. Functions for all kinds are here. `register_kind` adds another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from headrace import _native
from headrace.columns.dense import MIN_THREADED_COPY_BYTES, copy_in_order, stack_rows, take_rows
from headrace.columns.kind import Column, Indices, Kind, Notes, kind_named, kind_of, register_kind
from headrace.columns.objects import boxes
from headrace.columns.ragged import group_rows
from headrace.columns.ragged_text import RaggedText
from headrace.columns.stacked import Stacked
from headrace.columns.text import box_text, text_column
from headrace.columns.varied import Varied
from headrace.core.ragged import Ragged, as_ragged
from headrace.core.types import Component

__all__ = [
    "MAX_AXES",
    "Column",
    "Indices",
    "Kind",
    "Notes",
    "RaggedText",
    "Stacked",
    "Varied",
    "as_varied",
    "box_text",
    "boxes",
    "column_bytes",
    "column_of",
    "copy_in_order",
    "group_rows",
    "in_own_kinds",
    "in_plain_kinds",
    "join",
    "join_all",
    "kind_named",
    "kind_of",
    "owned",
    "pick",
    "read_only",
    "register_kind",
    "take",
    "text_column",
    "unstack",
    "values",
]  # fmt: skip

_PARAMETRIC = (np.datetime64, np.timedelta64, np.void)
"""Scalars whose type alone does not determine their dtype."""


def values(column: Column) -> Iterator[Component]:
    """Return the rows as components of elements."""
    return iter(column) if type(column) is np.ndarray else kind_of(column).values(column)


def take(column: Column, indices: Indices) -> Column:
    """Return these rows, copied."""
    return take_rows(column, indices) if type(column) is np.ndarray else kind_of(column).take(column, indices)


def column_bytes(column: Column) -> int:
    """Return how much memory the rows take, roughly; of objects, judged by some of them."""
    return kind_of(column).nbytes(column)


def read_only(column: Column) -> Column:
    """Return a read-only column that shares memory."""
    return kind_of(column).lock(column)


def owned(column: Column) -> Column:
    """Return a read-only copy."""
    kind = kind_of(column)
    return kind.lock(kind.copy(column))


def join(columns: Sequence[Column]) -> Column:
    """Return columns one after another, of whichever kind holds them all."""
    made = _by_kind(columns, lambda kind, alike: kind.join(alike))
    return [row for column in columns for row in values(column)] if made is None else made


def join_all(groups: Sequence[Sequence[Column]], bounds: list[tuple[int, int]]) -> list[Column]:
    """Return each group of columns as one, as `join` does: of the i-th of each group the rows within `bounds[i]`.

    Small arrays are copied by one call: a thread that releases the GIL for each column of a wide table has to wait for
    it each time.
    """
    joined = _native.join_arrays(groups, MIN_THREADED_COPY_BYTES, bounds)
    return [
        join([_within(column, *rows) for column, rows in zip(group, bounds, strict=True)]) if made is None else made
        for made, group in zip(joined, groups, strict=True)
    ]


def _within(column: Column, start: int, stop: int) -> Column:
    return column if not start and stop == len(column) else column[start:stop]


def pick(columns: Sequence[Column], order: Indices) -> Column:
    """Return rows of several columns by their numbers among all of them."""
    made = _by_kind(columns, lambda kind, alike: kind.pick(alike, order))
    return take(join(columns), order) if made is None else made


def _by_kind(columns: Sequence[Column], work: Callable[[Kind, Sequence[Column]], Column | None]) -> Column | None:
    """Return what a kind makes of columns: their own if they have one, else one that arrays of other shapes
    fit into.
    """
    kinds = {kind_of(column) for column in columns}
    made = work(kinds.pop(), columns) if len(kinds) == 1 else None
    for convert in (_as_ragged, as_varied) if made is None else ():
        alike = [each for each in map(convert, columns) if each is not None]
        made = work(kind_of(alike[0]), alike) if len(alike) == len(columns) else None
        if made is not None:
            break
    return made


def _as_ragged(column: Column) -> Ragged | None:
    if isinstance(column, Ragged):
        return column
    return as_ragged(column) if isinstance(column, np.ndarray) and column.ndim > 1 else None


def as_varied(column: Column) -> Varied | None:
    """Return arrays of two axes or more as rows of varied shapes; None if they are something else, or of several
    dtypes.
    """
    if isinstance(column, Varied):
        return column
    inner = column.values if isinstance(column, Ragged) else column
    if not isinstance(inner, np.ndarray) or inner.dtype.hasobject or len(column.shape) < 3:
        return None
    lengths = column.row_lengths() if isinstance(column, Ragged) else np.full(len(column), column.shape[1])
    rest = np.broadcast_to(np.array(column.shape[2:], np.int64), (len(column), len(column.shape) - 2))
    return Varied(np.ascontiguousarray(inner).reshape(-1), np.hstack([lengths[:, None], rest]))


MAX_AXES = 32 if np.lib.NumpyVersion(np.__version__) < "2.0.0" else 64
"""The most axes that an array may have."""


def column_of(rows: list[Component]) -> Column:
    """Make a column of components: dense if all have one dtype and shape, varied if shapes differ, else the list."""
    first = rows[0]
    kind = type(first)
    if isinstance(first, np.generic):
        alike = all(type(r) is kind for r in rows) and kind not in _PARAMETRIC
        if not alike:  # types may differ although dtypes do not, and vice versa
            alike = all(isinstance(r, np.generic) and r.dtype == first.dtype for r in rows)
        return np.array(rows, first.dtype) if alike else rows
    if kind is np.ndarray:
        shape, dtype, rank = first.shape, first.dtype, first.ndim
        if rank >= MAX_AXES:  # no array has an axis more
            return rows
        if len(rows) == 1:
            return first[None]
        if rank and all(type(r) is np.ndarray and r.ndim == rank and r.dtype == dtype for r in rows):
            if all(r.shape == shape for r in rows):
                return stack_rows(rows)
            if dtype.hasobject:
                return rows
            return Ragged.from_rows(rows) if all(r.shape[1:] == shape[1:] for r in rows) else Varied.from_rows(rows)
    return rows


def in_plain_kinds(column: Column) -> Column:
    """Return the column as an array, a Ragged, an Arrow array or a list, for callers that know only these."""
    if isinstance(column, Stacked):
        return column.boxed()
    return column if kind_of(column).name in PLAIN else list(values(column))


PLAIN = {"dense", "ragged", "text", "objects"}


def in_own_kinds(column: Column) -> Column:
    """Return the column as one of headrace's own kinds; a column of another package's kind is converted."""
    if type(column) is np.ndarray or kind_of(column).name in OWN:
        return column
    rows = list(values(column))
    return column_of(rows) if rows else rows


OWN = {*PLAIN, "stacked", "ragged text", "varied", "device"}


def unstack(column: Column) -> tuple[Column, Indices] | None:
    """Return the rows of all rows, and how many each has; None if one of them has no axis to split."""
    made = kind_of(column).unstack(column)
    if made is None and (own := in_own_kinds(column)) is not column:
        return kind_of(own).unstack(own)
    return made
