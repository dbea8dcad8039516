"""Rows of anything else, in a list: the last resort."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.dense import is_number, locked
from headrace.columns.kind import Column, Indices, Kind, Notes, kind_of, register_kind
from headrace.columns.ragged import group_rows
from headrace.core.extended import dtype_code, dtype_of
from headrace.core.override import override
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component
from headrace.errors import StorageError
from headrace.plan import mismatch
from headrace.plan.spec import TensorSpec, leaf_spec

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_ROWS = 8


class ObjectKind(Kind):
    """A list."""

    name = "objects"

    def values(self, column: list[Component]) -> Iterator[Component]:
        return iter(column)

    def take(self, column: list[Component], indices: Indices) -> list[Component]:
        return [column[i] for i in indices]

    def join(self, columns: Sequence[list[Component]]) -> list[Component]:
        return [row for column in columns for row in column]

    def stack(self, column: list[Component], size: int, path: str) -> Column | str:
        from headrace.columns import column_of

        made = column_of(column)
        if not isinstance(made, list):
            return kind_of(made).stack(made, size, path)
        if any(isinstance(row, Ragged) for row in column):
            return _stack_ragged(column, size, path)
        if not any(isinstance(row, np.ndarray | np.generic) for row in column):
            return boxes(column).reshape(-1, size)
        specs = [leaf_spec(row) for row in column]
        other = next(i for i, spec in enumerate(specs) if not mismatch.alike(specs[0], spec))
        return mismatch.why_components_differ(path, specs[0], specs[other], other)

    def unstack(self, column: list[Component]) -> tuple[list[Component], Indices] | None:
        if any(not isinstance(row, Ragged) and not np.ndim(row) for row in column):
            return None
        return [inner for row in column for inner in row], np.array([len(row) for row in column], np.int64)

    def nbytes(self, column: list[Component]) -> int:
        return object_bytes(column)

    def spec(self, column: list[Component]) -> TensorSpec:
        # The first row decides: operations reject what is not text.
        text = column and isinstance(column[0], str | bytes)
        return TensorSpec((), type(column[0])) if text else TensorSpec(None, None)

    def lock(self, column: list[Component]) -> list[Component]:
        return [locked(row.view()) if isinstance(row, np.ndarray) else row for row in column]

    def copy(self, column: list[Component]) -> list[Component]:
        return [row.copy() if isinstance(row, np.ndarray) else row for row in column]

    def to_arrow(self, column: Sequence[object]) -> tuple[pa.Array, Notes]:
        import pyarrow as pa

        return pa.array([pack_value(row) for row in column], pa.large_binary()), {"kind": self.name}

    @override
    def from_arrow(self, array: pa.Array, notes: Notes) -> list[Component]:
        return [unpack_value(row) for row in array.to_pylist()]


def boxes(rows: Sequence[object]) -> Array:
    """Objects in an array, each as it is."""
    made = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        made[i] = row
    return made


def _stack_ragged(rows: list[Component], size: int, path: str) -> Column | str:
    try:
        whole = Ragged.from_rows(rows) if all(isinstance(row, Ragged) for row in rows) else None
    except ValueError:
        whole = None
    return mismatch.why_ragged_rows_differ(path, rows) if whole is None else group_rows(whole, size)


def object_bytes(rows: Sequence[object] | Array) -> int:
    """Return the memory of objects, judged by some of them: arrays and strings."""
    some = rows[:: len(rows) // SAMPLED_ROWS | 1]  # an odd distance: rows of two kinds may take turns
    size = sum([_size(row) for row in some])
    return size * len(rows) // max(1, len(some))


def _size(value: object) -> int:
    return len(value) if isinstance(value, bytes | str) else getattr(value, "nbytes", 0) or 64


def boxes_to_arrow(column: Array) -> tuple[pa.Array, Notes]:
    """Return arrays of objects: of texts as such, of anything else row by row."""
    from headrace.columns.stacked import Stacked
    from headrace.columns.text import text_column

    texts = text_column(column.reshape(-1).tolist()) if column.ndim > 1 and 0 not in column.shape[1:] else []
    if isinstance(texts, list):
        return kind_of([]).to_arrow(column)
    stacked = Stacked(texts, column.shape[1:])
    return kind_of(stacked).to_arrow(stacked)


def pack_value(value: object) -> bytes:
    """Return one component as bytes: a letter for its kind, then the rest."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, Ragged):
        return b"r" + _join([pack_value(value.offsets), pack_value(value.values)])
    if isinstance(value, np.ndarray) and value.dtype == object:
        return b"o" + _join([json.dumps(value.shape).encode(), *(pack_value(v) for v in value.reshape(-1))])
    if isinstance(value, np.ndarray | np.generic):
        if not is_number(value.dtype):
            raise StorageError(f"values of dtype {value.dtype} cannot be stored; map them to plain numbers or text")
        head = json.dumps([dtype_code(value.dtype), list(value.shape)]).encode()
        return (b"a" if isinstance(value, np.ndarray) else b"g") + _join([head, value.tobytes()])
    raise StorageError(f"a {type(value).__name__} cannot be stored; map it to arrays, numbers, str or bytes first")


def unpack_value(data: bytes) -> Component:
    """Return what `pack_value` was given; ValueError for other bytes."""
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if kind == b"b":
        return rest
    if kind == b"r":
        offsets, values = map(unpack_value, _split(rest))
        if not isinstance(offsets, np.ndarray) or not isinstance(values, np.ndarray | Ragged):
            raise ValueError("rows of different lengths without their offsets")
        return Ragged(values, offsets)
    if kind == b"o":
        shape, *items = _split(rest)
        return boxes([unpack_value(item) for item in items]).reshape(json.loads(shape.decode()))
    if kind not in (b"a", b"g"):
        raise ValueError(f"a value of kind {kind!r}")
    array = _array(rest)
    return array if kind == b"a" else array[()]


def _array(data: bytes) -> Array:
    """Load an array; its declared size is accepted if there are as many bytes."""
    head, content = _split(data)
    name, shape = json.loads(head.decode())
    dtype = dtype_of(name)
    if not is_number(dtype) or not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of {dtype} and shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes for an array of {dtype} and shape {shape}")
    array = np.frombuffer(content, dtype) if content else np.empty(0, dtype)
    return array.reshape(shape).copy()


def _join(parts: list[bytes]) -> bytes:
    lengths = np.array([len(p) for p in parts], "<i8").tobytes()
    return len(parts).to_bytes(8, "little") + lengths + b"".join(parts)


def _split(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[:8], "little")
    start = 8 + 8 * count
    if start > len(data):
        raise ValueError(f"{count} values in {len(data)} bytes")
    lengths = np.frombuffer(data, "<i8", count, 8).tolist()
    if any(n < 0 for n in lengths) or start + sum(lengths) != len(data):
        raise ValueError(f"values of {sum(lengths)} bytes in {len(data) - start}")
    cuts = [start, *accumulate(lengths, initial=start)][1:]
    return [data[a:b] for a, b in pairwise(cuts)]


register_kind(ObjectKind(), list)
