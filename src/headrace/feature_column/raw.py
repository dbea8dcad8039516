"""The raw features of rows as the kernels take them: text in Arrow's layout, integers, floats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import RaggedText, Stacked
from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, TensorLike
from headrace.errors import what_there_is

if TYPE_CHECKING:
    pass

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
NO_SALT = np.empty(0, np.uint64)
LARGE_TEXT = ("LargeBinaryArray", "LargeStringArray")
"""Arrow's classes of the columns that blocks hold."""


class Raw:
    """One raw feature of some rows.

    `numbers` holds the concatenated values, or `text` their bytes and offsets. Rows have the shape `shape` each
    (dense), or are cut at `splits`. In a dense row "" and -1 mean a missing value, as in TensorFlow's dense tensors; in
    ragged rows they are values like others.
    """

    def __init__(
        self,
        rows: int,
        *,
        numbers: Array | None = None,
        text: tuple[NDArray[np.uint8], Ints] | None = None,
        shape: tuple[int, ...] = (),
        splits: Ints | None = None,
        dense: bool = True,
    ) -> None:
        self.rows: int = rows
        self.numbers: Array | None = numbers
        self.text: tuple[NDArray[np.uint8], Ints] | None = text
        self.shape: tuple[int, ...] = shape
        self.splits: Ints | None = splits
        self.dense: bool = dense and splits is None
        self._hashes: Hashes | None = None

    @property
    def kind(self) -> str:
        """What the values are, in an error."""
        if self.numbers is None:
            return "text"
        return "integers" if self.numbers.dtype.kind in "iub" else str(self.numbers.dtype)

    @property
    def size(self) -> int:
        """Return how many values there are."""
        return len(self.numbers) if self.numbers is not None else len(self.text[1]) - 1  # type: ignore[index]

    @property
    def integers(self) -> Ints:
        """The values as int64."""
        assert self.numbers is not None
        if self.numbers.dtype == np.uint64 and self.numbers.size and self.numbers.max() > np.iinfo(np.int64).max:
            raise ValueError("integers beyond int64: hash them as text")
        return np.ascontiguousarray(self.numbers, np.int64)

    def hashes(self) -> Hashes:
        """Return the fingerprint of each value; of an integer, of its decimal text."""
        if self._hashes is None:
            self._hashes = hash_values(self)
        return self._hashes

    def missing(self) -> NDArray[np.bool_] | None:
        """Return which values stand for nothing, None if none can."""
        if not self.dense:
            return None
        mask = self.text[1][1:] == self.text[1][:-1] if self.text is not None else self.integers == -1
        return mask if mask.any() else None

    def offsets(self) -> Ints:
        """Return where the values of each row begin."""
        return self.splits if self.splits is not None else np.arange(self.rows + 1) * math.prod(self.shape)


def hash_values(raw: Raw, salt: Hashes = NO_SALT) -> Hashes:
    """Return the hash of each value: Fingerprint64, or with a salt SipHash."""
    out = np.empty(raw.size, np.uint64)
    if raw.text is not None:
        _native.hash_text(*raw.text, salt, out)
    else:
        _native.hash_numbers(raw.integers, salt, out)
    return out


def raw_of(column: Column, *, rows_have_axes: bool = False) -> Raw:
    """Return a column of rows, whatever it is: an array, Ragged, an Arrow array, a list, a series of a data frame.

    `rows_have_axes` says that these are single elements, not a batch: an axis of a row then holds any number of values.
    """
    if type(column) is list and column and type(column[0]) is bytes:
        joined = _native.join_bytes(column)
        if joined is not None:  # a row of text, by the shortest way
            return Raw(len(column), text=joined)
    if type(column).__name__ in LARGE_TEXT and not column.null_count:
        return Raw(len(column), text=parts(column))
    if isinstance(column, RaggedText):
        return Raw(len(column), text=parts(column.inner), splits=column.offsets)
    column = plain_column(column)
    if isinstance(column, Ragged):
        if isinstance(column.values, Ragged) or column.values.ndim > 1:
            raise ValueError("rows hold a list of values each, not lists of lists")
        return _flat(column.values, len(column), splits=np.ascontiguousarray(column.offsets))
    if isinstance(column, np.ndarray):
        dense = not (rows_have_axes and column.ndim > 1)
        shape = () if dense and column.shape[1:] == (1,) else column.shape[1:]
        return _flat(column.reshape(-1), len(column), shape=shape, dense=dense)
    return _flat(column, len(column))


def is_single(value: object) -> bool:
    """Return whether this is one value, without any axis."""
    if isinstance(value, bytes | str | np.generic) or value is None:
        return True
    return not hasattr(value, "__len__") or (isinstance(value, np.ndarray) and value.ndim == 0)


def plain_column(column: object) -> Column:
    """Return an array, a Ragged or an Arrow array of text."""
    if isinstance(column, Stacked | RaggedText):
        return column.boxed()
    if isinstance(column, np.ndarray | Ragged):
        return column
    if hasattr(column, "to_arrow"):
        column = column.to_arrow()
    elif hasattr(column, "to_numpy") and not hasattr(column, "type"):
        column = np.asarray(column.to_numpy())
        nested = column.dtype == object and len(column) and isinstance(column[0], list | tuple | np.ndarray)
        return _read_list(column.tolist()) if nested else column
    if isinstance(column, list | tuple):
        return _read_list(list(column))
    if not hasattr(column, "type"):
        return np.asarray(column)
    return _arrow(column)


def _read_list(rows: list[Component]) -> Component:
    """Return a list: of values, or of rows which hold several."""
    nested = [isinstance(row, list | tuple | np.ndarray) and np.ndim(np.asarray(row, object)) > 0 for row in rows]
    if not any(nested):
        made = np.asarray(rows)
        return made if made.dtype.kind not in "SU" else _objects(rows)
    if not all(nested):
        raise TypeError("some rows are lists and others are not")
    arrays = [_read_list(list(row)) if not isinstance(row, np.ndarray) else row for row in rows]
    text = any(a.dtype.kind in "OSU" for a in arrays)
    filled = [a for a in arrays if len(a)]
    values = np.concatenate([a.astype(object) if text else a for a in filled]) if filled else np.empty(0, np.int64)
    return Ragged(values, np.cumsum([0, *map(len, arrays)]))


def _objects(rows: list[Component]) -> Array:
    made = np.empty(len(rows), object)
    made[:] = rows
    return made


def _arrow(column: Column) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _arrow(column.dictionary_decode())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        column = pc.fill_null(column, [])
        inner = plain_column(column.flatten())
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        if not isinstance(inner, np.ndarray):
            inner = inner.to_numpy(zero_copy_only=False)
        return Ragged(inner, offsets - offsets[0])
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False)
    if kind not in (pa.large_binary(), pa.large_string()):
        column = column.cast(pa.large_binary())
    return pc.fill_null(column, b"" if column.type == pa.large_binary() else "") if column.null_count else column


def _flat(values: Column, rows: int, **layout: Any) -> Raw:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubf":
        return Raw(rows, numbers=values, **layout)
    return Raw(rows, text=_text(values) if isinstance(values, np.ndarray) else parts(values), **layout)


def _text(values: Array) -> tuple[NDArray[np.uint8], Ints]:
    """Text of any kind in Arrow's layout; None and NaN are empty."""
    if values.dtype.kind not in "OSU":
        raise TypeError(f"values of {values.dtype} are neither text nor numbers")
    rows = values.tolist()
    joined = _native.join_bytes(rows)
    if joined is not None:
        return joined
    import pyarrow as pa

    try:
        return parts(_arrow(pa.array(rows, pa.large_string(), from_pandas=True)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise TypeError(f"values are not all text: {error}") from None


class Inputs:
    """The raw features of some rows, and what columns have made of them: each is computed once."""

    def __init__(self, features: Mapping[str, object], rows: int, *, rows_have_axes: bool) -> None:
        self.features: Mapping[str, TensorLike] = features
        self.rows: int = rows
        self._axes = rows_have_axes
        self._raw: dict[str, Raw] = {}
        self.made: dict[int, Any] = {}

    def raw(self, key: str, column: str) -> Raw:
        """Return a raw feature, for a column of this name."""
        found = self._raw.get(key)
        if found is None:
            if key not in self.features:
                raise KeyError(f"column {column!r} needs the feature {key!r}: {what_there_is(key, self.features)}")
            try:
                found = raw_of(self.features[key], rows_have_axes=self._axes)
            except (TypeError, ValueError) as error:
                raise type(error)(f"feature {key!r} of column {column!r}: {error}") from None
            if found.rows != self.rows:
                raise ValueError(f"feature {key!r} has {found.rows} rows, but others have {self.rows}")
            self._raw[key] = found
        return found
