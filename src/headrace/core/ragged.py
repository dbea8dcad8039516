"""Rows of different lengths: one array of values, and row offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from headrace import _native
from headrace.core.types import Array, Component, DType, Nested, TorchTensor

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.columns.kind import Column


class Ragged:
    """An array whose second axis differs in length between rows: `values`, and `offsets` into them, one more than rows.

    The values may be ragged themselves: then the third axis differs in length, too.

    Args:
        values: The values of all rows, one behind the other.
        offsets: Start of each row in `values`, and the end of the last.

    >>> r = hr.Ragged.from_rows([[1, 2, 3], [], [4]])
    >>> r
    Ragged([[1, 2, 3], [], [4]], dtype=int64)
    >>> r[0], r[0, 1]
    (array([1, 2, 3]), np.int64(2))
    >>> r[:, 1:]
    Ragged([[2, 3], [], []], dtype=int64)
    >>> r.to_padded()
    array([[1, 2, 3],
           [0, 0, 0],
           [4, 0, 0]])
    """

    __slots__ = ("_offsets", "_values")

    def __init__(self, values: ArrayLike | Ragged, offsets: ArrayLike) -> None:
        self._values: Column = values if isinstance(values, Ragged) else np.asarray(values)
        self._offsets: NDArray[np.int64] = np.ascontiguousarray(offsets, np.int64)
        if not self._values.shape or self._offsets.ndim != 1 or len(self._offsets) < 1:
            raise ValueError("Ragged takes an array of values and one row of offsets, one more than there are rows")
        first, last = self._offsets[0], self._offsets[-1]
        if first < 0 or last > len(self._values) or (np.diff(self._offsets) < 0).any():
            raise ValueError(f"offsets must rise from 0 to at most the {len(self._values)} values there are")

    @classmethod
    def _of(cls, values: Array | Ragged, offsets: NDArray[np.int64]) -> Ragged:
        """Without checks, for offsets that are known to be right."""
        made = object.__new__(cls)
        made._values, made._offsets = values, offsets
        return made

    @classmethod
    def from_rows(cls, rows: Sequence[ArrayLike | Ragged], dtype: DTypeLike | None = None) -> Ragged:
        """Make a Ragged from arrays or lists that differ in their first axis only, or from Ragged rows."""
        nested = [row for row in rows if isinstance(row, Ragged)]
        if nested and len(nested) == len(rows):
            return cls._nested(nested)
        arrays = [np.asarray(row, dtype) for row in rows]
        full = [a for a in arrays if len(a)] or arrays[:1]
        lengths = np.array([len(a) for a in arrays], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return cls._of(join_values(full) if full else np.empty(0, dtype or np.float64), offsets)

    @classmethod
    def _nested(cls, rows: list[Ragged]) -> Ragged:
        if len({(row.dtype, row.shape[1:]) for row in rows}) > 1:
            raise ValueError("Ragged rows of different dtypes or ranks make no Ragged")
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls._of(joined_ragged(rows), offsets)

    @property
    def values(self) -> Component:
        """The rows one after another, as a view: an array, or ragged again."""
        return self._values[int(self._offsets[0]) : int(self._offsets[-1])]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Return where each row begins in `values`, and where the last one ends."""
        return self._offsets - self._offsets[0] if self._offsets[0] else self._offsets

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        dtype: DType = self._values.dtype
        return dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """(rows, None, …): the second axis has no one length."""
        return (len(self), None, *self._values.shape[1:])

    @property
    def nbytes(self) -> int:
        """The memory of values and offsets."""
        return int(self.values.nbytes + self._offsets.nbytes)

    def row_lengths(self) -> NDArray[np.int64]:
        """Return the length of each row."""
        return np.diff(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Nested]:
        cuts = self._offsets.tolist()
        values = self._values
        return (values[a:b] for a, b in pairwise(cuts))

    @overload
    def __getitem__(self, index: int) -> Component: ...
    @overload
    def __getitem__(self, index: slice) -> Ragged: ...
    @overload
    def __getitem__(self, index: tuple[object, ...]) -> Component: ...
    def __getitem__(self, index: int | slice | tuple[object, ...]) -> Component:
        if isinstance(index, tuple):
            return self._part(index)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return Ragged._of(self._values, self._offsets[start : max(start, stop) + 1])
        number = range(len(self))[index]
        return self._values[int(self._offsets[number]) : int(self._offsets[number + 1])]

    def _part(self, index: tuple[Any, ...]) -> Component:
        """By one index an axis: rows first, then what is kept of each."""
        if index.count(Ellipsis) == 1:
            at = index.index(Ellipsis)
            index = (*index[:at], *[slice(None)] * (len(self.shape) - len(index) + 1), *index[at + 1 :])
        if len(index) > len(self.shape):
            raise IndexError(f"{len(index)} indices are too many for an array of {len(self.shape)} axes")
        first, *rest = index
        rows = self[first]
        if not rest or not isinstance(first, slice):
            return rows[tuple(rest)] if rest else rows
        if not isinstance(rest[0], slice):
            raise IndexError(
                f"rows differ in length, and not all may have a {rest[0]!r}: r[:, a:b] takes a part of each"
            )
        kept = rows if rest[0] == slice(None) else rows._cut(rest[0])
        return kept if len(rest) == 1 else Ragged._of(kept.values[:, *rest[1:]], kept.offsets)

    def _cut(self, cut: slice) -> Ragged:
        """Return the same part of every row, as Python slices a list."""
        lengths = self.row_lengths()
        step = 1 if cut.step is None else cut.step
        if step == 0:
            raise ValueError("slice step cannot be zero")
        low, high = (0 * lengths, lengths) if step > 0 else (0 * lengths - 1, lengths - 1)

        def bound(value: int | None, default: NDArray[np.int64]) -> NDArray[np.int64]:
            if value is None:
                return default
            return np.clip(value + lengths if value < 0 else np.full_like(lengths, value), low, high)

        start, stop = (bound(cut.start, low), bound(cut.stop, high)) if step > 0 else (
            bound(cut.start, high), bound(cut.stop, low),
        )  # fmt: skip
        kept = np.maximum(0, -((start - stop) // step))
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(kept, out=offsets[1:])
        within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], kept)
        numbers = np.repeat(self._offsets[:-1] + start, kept) + step * within
        nested = isinstance(self._values, Ragged)
        return Ragged._of(self._values.take(numbers) if nested else self._values.take(numbers, axis=0), offsets)

    def take(self, indices: NDArray[np.int64]) -> Ragged:
        """Return these rows, copied."""
        lengths = self.row_lengths()[indices]
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if isinstance(self._values, Ragged):
            numbers = np.repeat(self._offsets[indices] - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
            return Ragged._of(self._values.take(numbers), offsets)
        values = np.empty((int(offsets[-1]), *self._values.shape[1:]), self.dtype)
        if self.dtype.hasobject:
            for i, number in enumerate(indices.tolist()):
                values[offsets[i] : offsets[i + 1]] = self[number]
        elif values.nbytes:
            _native.ragged_take(as_bytes(self._values), self._offsets, np.ascontiguousarray(indices), as_bytes(values))
        return Ragged._of(values, offsets)

    def to_list(self) -> list[Component]:
        """Return rows as lists."""
        return [row.tolist() for row in self]

    tolist = to_list

    def to_padded(self, value: object = 0, length: int | None = None) -> Array:
        """Return a dense array, rows filled up with `value` to `length`, or to the longest."""
        if isinstance(self._values, Ragged):
            return Ragged._of(self._values.to_padded(value), self._offsets).to_padded(value, length)
        lengths = self.row_lengths()
        longest = int(lengths.max(initial=0))
        if length is not None and longest > length:
            raise ValueError(f"a row has {longest} values, more than the {length} to pad to")
        length = longest if length is None else length
        if not self.dtype.hasobject:
            return self.groups_to_padded(np.array([length]), value).reshape(len(self), length, *self._values.shape[1:])
        out = np.full((len(self), length, *self._values.shape[1:]), value, self.dtype)
        for row, target in zip(self, out, strict=True):
            target[: len(row)] = row
        return out

    def groups_to_padded(self, lengths: NDArray[np.int64], value: object) -> Array:
        """Return the values of rows of numbers, filled up with `value`: all rows of a group to the group's length.

        There are as many groups of consecutive rows, all of one size, as `lengths`. The result has no axis for rows:
        they differ in length.
        """
        cell = self._values.shape[1:]
        cells = int(lengths.sum()) * (len(self) // max(1, len(lengths)))
        out: Array = np.empty((cells, *cell), self.dtype)
        filler = None if _is_zero(value, self.dtype) else np.full((1, *cell), value, self.dtype)
        if out.nbytes:
            to = as_bytes(out)
            values = as_bytes(self._values) if self._values.size else to[:0]
            _native.ragged_pad(values, self._offsets, lengths, None if filler is None else as_bytes(filler), to)
        return out

    def to_tensor(
        self,
        default_value: object = None,
        name: str | None = None,  # noqa: ARG002 - in its place as in TensorFlow
        shape: Sequence[int | None] | None = None,
    ) -> Array:
        """Return a dense array like tf.RaggedTensor's: short rows are padded with `default_value`, 0 or empty.

        `shape` is its size; longer rows are truncated, and None stands for the longest.

        >>> hr.Ragged.from_rows([[1, 2, 3], [4]]).to_tensor(default_value=-1, shape=[None, 2])
        array([[ 1,  2],
               [ 4, -1]])
        """
        sizes = (None,) * len(self.shape) if shape is None else tuple(shape)
        if len(sizes) != len(self.shape):
            raise ValueError(f"shape {sizes} is not of the {len(self.shape)} axes of {self.shape}")
        fill = self._fill(default_value)
        values: Column = self._values
        if isinstance(values, Ragged):
            values = values.to_tensor(fill, shape=(None, *sizes[2:]))
        elif any(n not in (None, m) for n, m in zip(sizes[2:], values.shape[1:], strict=True)):
            raise ValueError(f"shape {sizes} does not fit values of shape {values.shape[1:]}")
        rows = Ragged._of(values, self._offsets)
        length = sizes[1]
        made = rows.to_padded(fill, length) if length is None else rows[:, :length].to_padded(fill, length)
        if sizes[0] is None or sizes[0] == len(made):
            return made
        whole = np.full((sizes[0], *made.shape[1:]), fill, made.dtype)
        whole[: len(made)] = made[: sizes[0]]
        return whole

    def _fill(self, value: object) -> Component:
        """Return what stands for missing values; it must be of their kind."""
        if value is None and self.dtype.hasobject:
            first = next(iter(np.asarray(self._flat()).flat), b"")
            return type(first)() if isinstance(first, str | bytes) else None
        if value is None:
            return np.zeros((), self.dtype)
        if np.asarray(value).dtype.kind in "fc" and self.dtype.kind in "iub":
            raise TypeError(f"default_value {value!r} is no {self.dtype}")
        return value if self.dtype.hasobject else np.asarray(value, self.dtype)

    def _flat(self) -> Array:
        values = self._values
        return values._flat() if isinstance(values, Ragged) else values

    def to_arrow(self) -> pa.Array:
        """Return an Arrow array of lists, sharing the values if they have one axis."""
        import pyarrow as pa

        values = self.values
        if isinstance(values, Ragged):
            return pa.LargeListArray.from_arrays(pa.array(self.offsets), values.to_arrow())
        inner = pa.array(values.ravel())
        for size in reversed(values.shape[1:]):
            inner = pa.FixedSizeListArray.from_arrays(inner, size)
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), inner)

    def to_torch(self) -> TorchTensor:
        """Return a torch nested tensor (jagged layout)."""
        import torch

        return torch.nested.nested_tensor_from_jagged(
            torch.from_numpy(np.array(self.values)), torch.from_numpy(np.array(self.offsets))
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ragged)
            and self.dtype == other.dtype
            and np.array_equal(self.offsets, other.offsets)
            and _equal(self.values, other.values)
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = self[:6].to_list()
        more = ", …" if len(self) > 6 else ""
        return f"Ragged({str(shown)[:-1]}{more}], dtype={self.dtype})"


def joined_ragged(parts: Sequence[Ragged]) -> Ragged:
    """Return the rows of several, one after another."""
    each = [p.values for p in parts]
    nested = [v for v in each if isinstance(v, Ragged)]
    values = joined_ragged(nested) if nested else join_values(each)
    lengths = np.concatenate([p.row_lengths() for p in parts])
    return Ragged._of(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def join_values(arrays: Sequence[Array]) -> Array:
    """Concatenate arrays, keeping the dtype metadata of objects, which NumPy drops."""
    made = np.concatenate(arrays)
    if made.dtype.kind != "O":
        return made
    said = next((array.dtype for array in arrays if array.dtype.metadata), made.dtype)
    return made.view(said)


def _equal(a: Component, b: Component) -> bool:
    return bool(a == b) if isinstance(a, Ragged) or isinstance(b, Ragged) else np.array_equal(a, b)


def row_views(ragged: Ragged) -> list[Component]:
    """Return the rows, which share memory with it."""
    values = ragged._values
    return [values[a:b] for a, b in pairwise(ragged._offsets.tolist())]


def as_ragged(dense: Array) -> Ragged:
    """Return rows of one length as ragged ones."""
    rows, length = dense.shape[:2]
    return Ragged._of(dense.reshape(rows * length, *dense.shape[2:]), np.arange(rows + 1) * length)


def address_of(array: Array) -> int:
    """Return the address of the first value of an array."""
    return int(array.__array_interface__["data"][0])


def _is_zero(value: object, dtype: DType) -> bool:
    """Return whether all bits of a number are zero: `np.zeros` is faster than `np.full`, and keeps the GIL."""
    if isinstance(value, np.generic):
        return value.dtype == dtype and not value.tobytes().strip(b"\0")
    return type(value) is int and value == 0


def as_bytes(array: Array) -> NDArray[np.uint8]:
    """Return the rows of an array as bytes, one line a row."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)
