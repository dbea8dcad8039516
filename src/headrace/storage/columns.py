"""Columns as Arrow arrays, so that reading them back copies nothing where the types allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.columns import Column, Notes, kind_named, kind_of

if TYPE_CHECKING:
    import pyarrow as pa


def encoded(column: Column) -> tuple[pa.Array, Notes]:
    """The column as an Arrow array, and how to read it."""
    return kind_of(column).to_arrow(column)


def decoded(array: pa.Array, notes: Notes) -> Column:
    """The column that was encoded so; raises ValueError, TypeError or KeyError where none was."""
    return kind_named(notes["kind"]).from_arrow(array, notes)
