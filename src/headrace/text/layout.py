"""The concatenated texts of a column, and their layout in its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, RaggedText, Stacked, text_column
from headrace.columns.text import box_words, holds_text, is_of_bytes
from headrace.core.ragged import Ragged
from headrace.core.types import Component

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TextLayout:
    """How many rows there are, and for each axis of a row either its size or the offsets of its parts."""

    rows: int
    axes: tuple[int | Offsets, ...] = ()

    def lay(self, values: Column) -> Column:
        """Return a column of one value for each text: an array, Arrow's text, or ragged rows."""
        import pyarrow as pa

        if not self.axes:
            return values
        sizes = [axis for axis in self.axes if isinstance(axis, int)]
        even = len(sizes) == len(self.axes)
        if isinstance(values, pa.Array):
            if even and 0 not in sizes:
                return Stacked(values, tuple(sizes))
            if len(self.axes) == 1 and not even:
                return RaggedText(values, self._offsets[0])
            values = box_words(values)
        if even and isinstance(values, np.ndarray):
            return values.reshape(self.rows, *sizes, *values.shape[1:])
        for cuts in reversed(self._offsets):
            values = Ragged._of(values, cuts)
        return values

    def lay_rows(self, values: Column, cuts: Offsets) -> Column:
        """Return a column of a row of values for each text."""
        import pyarrow as pa

        if isinstance(values, pa.Array):
            if not self.axes:
                return RaggedText(values, cuts)
            values = box_words(values)
        return self.lay(Ragged._of(values, cuts))

    @property
    def _offsets(self) -> list[Offsets]:
        """Return the offsets of parts, for each axis."""
        return list(self._cuts())

    def _cuts(self) -> Iterator[Offsets]:
        count = self.rows
        for axis in self.axes:
            cuts = np.arange(count + 1) * axis if isinstance(axis, int) else axis
            yield cuts
            count = int(cuts[-1])

    def without_last(self) -> tuple[TextLayout, Offsets]:
        """Return the layout with the last axis as one, and the offsets of its parts."""
        return TextLayout(self.rows, self.axes[:-1]), self._offsets[-1]

    def without_any(self) -> tuple[TextLayout, Offsets]:
        """Return the layout of rows that are single values, and the offsets of all texts of each row."""
        first, *inner = self._offsets
        for cuts in inner:
            first = cuts[first]
        return TextLayout(self.rows), first


def texts_of(column: Column) -> tuple[pa.Array, TextLayout]:
    """Return the texts of a column of strings or of bytes, whatever the shape of its rows."""
    if isinstance(column, Stacked):
        return column.inner, TextLayout(len(column), column.shape)
    if isinstance(column, RaggedText):
        return column.inner, TextLayout(len(column), (column.offsets,))
    if isinstance(column, Ragged):
        inner, layout = texts_of(column.values)
        return inner, TextLayout(len(column), (column.offsets, *layout.axes))
    if isinstance(column, np.ndarray):
        kind = bytes if is_of_bytes(column.dtype) or column.dtype.kind == "S" else str
        return _in_arrow(column.reshape(-1).tolist(), kind), TextLayout(len(column), column.shape[1:])
    if isinstance(column, list):
        return _in_arrow(column), TextLayout(len(column))
    return _as_large(column), TextLayout(len(column))


def _in_arrow(rows: list[Component], if_none: type = str) -> pa.Array:
    import pyarrow as pa

    made = text_column(rows) if rows else pa.array([], pa.large_string() if if_none is str else pa.large_binary())
    if isinstance(made, list):
        other = next((row for row in rows if not isinstance(row, str | bytes)), None)
        found = "str and bytes, or text that is no Unicode" if other is None else type(other).__name__
        raise TypeError(f"functions of hr.text take str or bytes, not {found}")
    return made


def _as_large(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if not holds_text(column) or column.null_count:
        found = "None" if column.null_count else str(column.type)
        raise TypeError(f"functions of hr.text take str or bytes, not {found}")
    if column.type in (pa.large_string(), pa.large_binary()):
        return column
    return column.cast(pa.large_string() if column.type == pa.string() else pa.large_binary())
