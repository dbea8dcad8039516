"""Encode columns as Arrow arrays, so that reading them back copies nothing if the types allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.columns import Column, Notes, kind_named, kind_of

if TYPE_CHECKING:
    import pyarrow as pa


def encoded(column: Column) -> tuple[pa.Array, Notes]:
    """Return the column as an Arrow array, and how to read it."""
    return kind_of(column).to_arrow(column)


def decoded(array: pa.Array, notes: Notes) -> Column:
    """Return the column that was encoded so. Raise ValueError, TypeError or KeyError if none was."""
    return kind_named(notes["kind"]).from_arrow(array, notes)
