"""Rows of bytes or strings in Arrow's layout, and the few other values that only Arrow has types for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.columns.arrow_text import binary, is_plain, nbytes, parts, pick_text
from headrace.columns.kind import Column, Indices, Kind, Notes, register_kind
from headrace.core.override import override
from headrace.core.types import Array, Component, DType
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa


BYTES: DType = np.dtype(object, metadata={"text": bytes})
"""Objects that are bytes: the dtype of an array says so, even if there are none in it."""


def is_of_bytes(dtype: DType) -> bool:
    """Return whether a dtype says that its objects are bytes."""
    return dtype.metadata is not None and dtype.metadata.get("text") is bytes


class TextKind(Kind):
    """An Arrow array."""

    name = "text"

    def values(self, column: pa.Array) -> Iterator[Component]:
        return iter(box_text(column).tolist())

    def take(self, column: pa.Array, indices: Indices) -> pa.Array:
        return pick_text([column], indices)

    def join(self, columns: Sequence[pa.Array]) -> pa.Array | None:
        import pyarrow as pa

        return pa.concat_arrays(columns) if len({c.type for c in columns}) == 1 else None

    def pick(self, columns: Sequence[pa.Array], order: Indices) -> pa.Array | None:
        return pick_text(columns, order) if len({c.type for c in columns}) == 1 else None

    @override
    def stack(self, column: pa.Array, size: int, path: str) -> Column:
        from headrace.columns.stacked import Stacked

        return Stacked(column, (size,)) if holds_text(column) else box_text(column).reshape(-1, size)

    def nbytes(self, column: pa.Array) -> int:
        return nbytes(column)

    def spec(self, column: pa.Array) -> TensorSpec:
        kind = str(column.type)
        return TensorSpec((), str if "string" in kind else bytes if "binary" in kind else object)

    def to_arrow(self, column: pa.Array) -> tuple[pa.Array, Notes]:
        return column, {"kind": self.name}

    @override
    def from_arrow(self, array: pa.Array, notes: Notes) -> pa.Array:
        if not holds_text(array) or array.null_count:
            raise ValueError(f"{array.type} with {array.null_count} nulls where text or bytes were stored")
        return array


def holds_text(array: pa.Array) -> bool:
    """Return whether it is an Arrow array of bytes or strings."""
    import pyarrow as pa

    return array.type in (pa.large_string(), pa.large_binary(), pa.string(), pa.binary())


def box_text(column: pa.Array) -> Array:
    """Return an Arrow column as an array of objects; text far faster than through a list."""
    import pyarrow as pa

    if is_plain(column):
        return _native.text_objects(*parts(column), column.type == pa.large_string())
    made: Array = np.empty(len(column), object)
    made[:] = column.to_pylist()
    return made


def box_words(column: pa.Array) -> Array:
    """Return an array of texts that will be split into rows; the dtype of an empty one, too, says whether it holds
    bytes.
    """
    made = box_text(column)
    return made.view(BYTES) if "binary" in str(column.type) else made


def text_column(rows: Sequence[Any]) -> Column:
    """Make a column of str or bytes in Arrow's layout, or return the list if Arrow has no type for it."""
    import pyarrow as pa

    kinds = {type(r) for r in rows}
    try:  # not by pa.array, which imports pandas, if it is there, before it makes its first
        texts = [r.encode() for r in rows] if kinds == {str} else list(rows)
    except UnicodeEncodeError:  # lone surrogates are no UTF-8
        return list(rows)
    joined = _native.join_bytes(texts) if rows else None
    return list(rows) if joined is None else binary(*joined, pa.large_string() if kinds == {str} else None)


register_kind(TextKind(), "pyarrow.lib.Array")
