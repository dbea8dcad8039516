"""Rows of anything else, in a list: the last resort."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns.kind import Column, Indices, Kind, register_kind
from headrace.plan.spec import LeafSpec, TensorSpec, leaf_spec
from headrace.ragged import Ragged

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED = 8


class Objects(Kind):
    """A list."""

    name = "objects"

    def rows(self, column: list[Any]) -> Iterator[Any]:
        return iter(column)

    def take(self, column: list[Any], indices: Indices) -> list[Any]:
        return [column[i] for i in indices]

    def join(self, columns: Sequence[list[Any]]) -> list[Any]:
        return [row for column in columns for row in column]

    def stack(self, column: list[Any], size: int) -> Column | str:
        from headrace.columns import column_of

        if all(isinstance(row, Ragged) for row in column):
            from headrace.columns.stacked import Stacked

            return Stacked(Ragged.from_ragged(column), (size,)) if size else "are no rows"
        made = column_of(column)
        if not isinstance(made, list):
            from headrace.columns.kind import kind_of

            stacked: Column | str = kind_of(made).stack(made, size)
            return stacked
        if any(isinstance(row, np.ndarray | np.generic | Ragged) for row in column):
            return _difference(column)
        boxes = np.empty(len(column), dtype=object)
        for i, row in enumerate(column):
            boxes[i] = row
        return boxes.reshape(len(column) // size, size)

    def group(self, column: list[Any], size: int) -> Column | str:
        from headrace.columns import column_of
        from headrace.columns.kind import kind_of

        if not any(isinstance(row, np.ndarray | Ragged) for row in column):
            return self.stack(column, size)
        if all(isinstance(row, Ragged) for row in column):
            return self.stack(column, size)
        if len({np.shape(row)[1:] for row in column}) > 1 or not all(np.ndim(row) for row in column):
            return "elements that differ in more than their first axis cannot make a ragged batch"
        made = column_of(column)
        made = Ragged.from_rows(column) if isinstance(made, list) else made
        grouped: Column | str = kind_of(made).group(made, size)
        return grouped

    def unstack(self, column: list[Any]) -> tuple[list[Any], Indices] | None:
        if any(not isinstance(row, Ragged) and not np.ndim(row) for row in column):
            return None
        return [inner for row in column for inner in row], np.array([len(row) for row in column], np.int64)

    def nbytes(self, column: list[Any]) -> int:
        return object_bytes(column)

    def spec(self, column: list[Any]) -> LeafSpec:
        text = column and isinstance(column[0], str | bytes)  # the first row tells: operations refuse what is no text
        return TensorSpec((), type(column[0])) if text else TensorSpec(None, None)

    def lock(self, column: list[Any]) -> list[Any]:
        return [_locked(row.view()) if isinstance(row, np.ndarray) else row for row in column]

    def copy(self, column: list[Any]) -> list[Any]:
        return [row.copy() if isinstance(row, np.ndarray) else row for row in column]

    def to_arrow(self, column: list[Any]) -> tuple[pa.Array, dict[str, Any]]:
        import pyarrow as pa

        return pa.array([pack_value(row) for row in column], pa.large_binary()), {"kind": self.name}

    def from_arrow(self, array: pa.Array, notes: dict[str, Any]) -> list[Any]:  # noqa: ARG002
        return [unpack_value(row) for row in array.to_pylist()]


def object_bytes(rows: Sequence[Any] | NDArray[Any]) -> int:
    """The memory of objects, judged by some of them: arrays and strings."""
    some = rows[:: len(rows) // SAMPLED | 1]  # an odd distance: rows of two kinds may take turns
    size = sum([_size(row) for row in some])
    return size * len(rows) // max(1, len(some))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes | str) else getattr(value, "nbytes", 0) or 64


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _difference(rows: list[Any]) -> str:
    """Why rows cannot be stacked."""
    first = leaf_spec(rows[0])
    for i, row in enumerate(rows):
        other = leaf_spec(row)
        where = f"element {i} of those put together"
        if other.shape != first.shape:
            return f"differ: shape {first.shape} against {other.shape}, {where}"
        if other.dtype != first.dtype:
            return f"differ: dtype {first.dtype} against {other.dtype}, {where}"
    return f"differ: types {type(rows[0]).__name__} and {type(rows[-1]).__name__}"


def pack_value(value: Any) -> bytes:
    """One component as bytes: a letter for its kind, then the rest."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, Ragged):
        return b"r" + _join([pack_value(value.offsets), pack_value(value.values)])
    if isinstance(value, np.ndarray) and value.dtype == object:
        return b"o" + _join([json.dumps(value.shape).encode(), *(pack_value(v) for v in value.reshape(-1))])
    if isinstance(value, np.ndarray | np.generic):
        sink = io.BytesIO()
        np.lib.format.write_array(sink, np.asarray(value), allow_pickle=False)
        return (b"a" if isinstance(value, np.ndarray) else b"g") + sink.getvalue()
    raise TypeError(f"a {type(value).__name__} cannot be stored; map it to arrays, numbers, str or bytes first")


def unpack_value(data: bytes) -> Any:
    """What `pack_value` was given; raises ValueError for other bytes."""
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if kind == b"b":
        return rest
    if kind == b"r":
        offsets, values = _split(rest)
        return Ragged(unpack_value(values), unpack_value(offsets))
    if kind == b"o":
        shape, *items = _split(rest)
        made = np.empty(len(items), object)
        made[:] = [unpack_value(item) for item in items]
        return made.reshape(json.loads(shape))
    if kind not in (b"a", b"g"):
        raise ValueError(f"no stored value begins with {kind!r}")
    array = np.lib.format.read_array(io.BytesIO(rest), allow_pickle=False)
    return array if kind == b"a" else array[()]


def _join(parts: list[bytes]) -> bytes:
    lengths = np.array([len(p) for p in parts], "<i8").tobytes()
    return len(parts).to_bytes(8, "little") + lengths + b"".join(parts)


def _split(data: bytes) -> list[bytes]:
    count = int.from_bytes(data[:8], "little")
    if 8 + 8 * count > len(data):
        raise ValueError("a stored value is cut off")
    ends = 8 + 8 * count + np.cumsum(np.frombuffer(data, "<i8", count, 8))
    starts = [8 + 8 * count, *ends[:-1].tolist()]
    return [data[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]


register_kind(Objects(), list)
