"""Rows of text: bytes in one array, and where each row begins and ends in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.kind import Column, Indices, Kind, register_kind
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


class Text:
    """Row i is `data[starts[i]:stops[i]]`: bytes, or UTF-8 where `kind` is str. Nobody writes to the data.

    Rows may lie anywhere in the data, in any order: to take some of them moves none.
    """

    __slots__ = ("data", "kind", "starts", "stops")

    def __init__(self, data: Bytes, starts: Offsets, stops: Offsets, kind: type = bytes) -> None:
        self.data = data
        self.starts = starts
        self.stops = stops
        self.kind = kind

    @classmethod
    def of(cls, data: Bytes | bytes, offsets: Offsets, kind: type = bytes) -> Text:
        """Rows that lie one after another, each beginning where the one before ends."""
        array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        return cls(array, offsets[:-1], offsets[1:], kind)

    @classmethod
    def from_rows(cls, rows: Sequence[Any]) -> Text | None:
        """Of str or bytes objects, all of one of the two; None where they are not, or no UTF-8."""
        kinds = {type(row) for row in rows}
        if kinds == {str}:
            try:
                rows = [row.encode() for row in rows]
            except UnicodeEncodeError:  # lone surrogates
                return None
        elif kinds != {bytes}:
            return None
        joined = _native.join_bytes(list(rows))
        return cls.of(*joined, kind=kinds.pop())

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Text:
        """Of an Arrow array of strings or bytes without nulls, sharing its memory."""
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        kind = str if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) else bytes
        wide = pa.large_string() if kind is str else pa.large_binary()
        if array.type != wide:
            array = array.cast(wide)
        if array.null_count:
            raise ValueError(f"row {array.is_null().index(True).as_py()} is null where text is needed")
        _, offsets, values = array.buffers()
        if offsets is None or not len(array):
            return cls.of(b"", np.zeros(1, np.int64), kind)
        cuts = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        data = np.frombuffer(values, np.uint8) if values is not None and values.size else np.empty(0, np.uint8)
        return cls.of(data, cuts, kind)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice) -> Text:
        return Text(self.data, self.starts[rows], self.stops[rows], self.kind)

    @property
    def lengths(self) -> Offsets:
        """How many bytes each row has."""
        return self.stops - self.starts

    @property
    def compact(self) -> bool:
        """Whether each row begins where the one before ends."""
        return len(self) < 2 or bool((self.starts[1:] == self.stops[:-1]).all())

    def packed(self) -> tuple[Bytes, Offsets]:
        """The rows one after another, and where each begins; in place where they lie so already."""
        if not len(self):
            return self.data[:0], np.zeros(1, np.int64)
        if self.compact:
            offsets = np.empty(len(self) + 1, np.int64)
            offsets[:-1], offsets[-1] = self.starts, self.stops[-1]
            return self.data, offsets
        data, offsets = _native.text_gather(self.data, self.starts, self.stops)
        return data, offsets

    def objects(self) -> NDArray[Any]:
        """The rows as str or bytes objects, in an array."""
        made: NDArray[Any] = _native.text_objects(self.data, self.starts, self.stops, self.kind is str)
        return made

    def to_arrow(self) -> pa.Array:
        """As an Arrow array, sharing memory where rows lie one after another."""
        import pyarrow as pa

        data, offsets = self.packed()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(pa.large_string() if self.kind is str else pa.large_binary(), len(self), buffers)

    def to_list(self) -> list[Any]:
        """The rows as objects."""
        return list(self.objects())

    def __reduce__(self) -> tuple[Any, ...]:
        data, offsets = self.packed()
        return _restored, (data[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0], self.kind)


def _restored(data: Bytes, offsets: Offsets, kind: type) -> Text:
    return Text.of(data, offsets, kind)


class TextKind(Kind):
    """See Text."""

    name = "text"

    def rows(self, column: Text) -> Iterator[Any]:
        return iter(column.objects().tolist())

    def take(self, column: Text, indices: Indices) -> Text:
        return Text(column.data, column.starts[indices], column.stops[indices], column.kind)

    def join(self, columns: Sequence[Text]) -> Text | None:
        first = columns[0]
        if any(c.kind is not first.kind for c in columns):
            return None
        if all(c.data is first.data for c in columns):
            starts, stops = (np.concatenate([getattr(c, n) for c in columns]) for n in ("starts", "stops"))
            return Text(first.data, starts, stops, first.kind)
        data, offsets = _native.text_join([(c.data, c.starts, c.stops) for c in columns])
        return Text.of(data, offsets, first.kind)

    def pick(self, columns: Sequence[Text], order: Indices) -> Text | None:
        if any(c.kind is not columns[0].kind for c in columns):
            return None
        starts = np.cumsum([0, *map(len, columns)])
        which = np.searchsorted(starts, order, side="right") - 1
        parts = [(c.data, c.starts, c.stops) for c in columns]
        data, offsets = _native.text_pick(parts, which, order - starts[which])
        return Text.of(data, offsets, columns[0].kind)

    def stack(self, column: Text, size: int) -> Column:
        from headrace.columns.stacked import Stacked

        return Stacked(column, (size,))

    def pad(self, column: Text, size: int, shape: Any, filler: Any) -> Column | str:  # noqa: ARG002
        return self.stack(column, size) if not shape else f"an element of shape () does not fit into {shape}"

    def nbytes(self, column: Text) -> int:
        return int(column.lengths.sum()) + column.starts.nbytes + column.stops.nbytes

    def spec(self, column: Text) -> TensorSpec:
        return TensorSpec((), column.kind)

    def copy(self, column: Text) -> Text:
        data, offsets = _native.text_gather(column.data, column.starts, column.stops)
        return Text.of(data, offsets, column.kind)

    def to_arrow(self, column: Text) -> tuple[pa.Array, dict[str, Any]]:
        return column.to_arrow(), {"kind": self.name}

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> Text:  # noqa: ARG002
        return Text.from_arrow(array)


register_kind(TextKind(), Text)
