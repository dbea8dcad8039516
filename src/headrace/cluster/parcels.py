"""Rows in transit between worker and trainer: an Arrow record batch and a small label."""

from __future__ import annotations

import io
import pickle
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.cluster.split_share import SplitShare
from headrace.columns import Indices, Notes
from headrace.columns.block import Block, Failure, Item
from headrace.columns.kind import Column
from headrace.core.types import AnyFunction, Component
from headrace.errors import ElementError, StorageError
from headrace.execute.processes.shared_values import Packer
from headrace.execute.processes.worker import Raised
from headrace.plan.marks import Mark
from headrace.plan.structure import Structure
from headrace.storage.columns import decoded, encoded

if TYPE_CHECKING:
    import pyarrow as pa


class Label(NamedTuple):
    """The label of a parcel's rows.

    `layout` says how columns become rows again, None if there are no columns; `what` is "rows", "pickled" (rows that
    Arrow has no types for), "passed" (placeholders for rows that the trainer does not want), "failure", "over",
    "raised", "unknown" (the worker needs to know where to begin) or "opened" (it begins now). `kept` are the positions
    of the rows that are there, if some are not.
    """

    split: int
    what: str
    ordinal: int = 0
    rows: int = 0
    mark: Mark | None = None
    layout: bytes = b""
    value: Component = None
    sizes: dict[str, int] | None = None
    kept: Indices | None = None


class ParcelLayout(NamedTuple):
    """The layout of columns in a record batch."""

    structure: Structure
    notes: list[Notes]
    with_ids: bool


class Parcel(NamedTuple):
    """Ready to be sent: `data` has the rows, `label` the rest. Nothing comes after the `last` of a split."""

    label: bytes
    data: pa.RecordBatch | None = None
    nbytes: int = 0
    rows: int = 0
    last: bool = False


def pack_by_value(value: object) -> bytes:
    """Pickled for another process, functions that it could not import included."""
    file = io.BytesIO()
    Packer(file, protocol=5).dump(value)
    return file.getvalue()


class KeyPacker(Packer):
    """Record cloudpickle's names of classes that are pickled by value, which differ between processes."""

    class_ids: list[str]

    def reducer_override(self, obj: object) -> Any:
        made = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(made, tuple):
            self.class_ids += [arg for arg in made[1] if isinstance(arg, str) and _CLASS_ID.fullmatch(arg)]
        return made


_CLASS_ID = re.compile("[0-9a-f]{32}")


def pack_and_key(value: object) -> tuple[bytes, bytes]:
    """Like `pack_by_value`, and return bytes that are equal for equal values, whichever process packs them."""
    file = io.BytesIO()
    packer = KeyPacker(file, protocol=5)
    packer.class_ids = []
    packer.dump(value)
    key = data = file.getvalue()
    for number, name in enumerate(dict.fromkeys(packer.class_ids)):
        key = key.replace(name.encode(), b"class %d" % number)
    return data, key


def unpack_by_value(data: bytes) -> Any:
    """Return what `pack_by_value` was given, from a worker of ours."""
    return pickle.loads(data)


class Packing:
    """Make parcels from the items of one split; the layout of columns rarely changes."""

    def __init__(self, split: int) -> None:
        self._split = split
        self._last: ParcelLayout | None = None
        self._packed = b""

    def parcel(self, item: Item, ordinal: int, sizes: dict[str, int]) -> Parcel:
        """Return an item as a parcel."""
        what = Label(self._split, "rows", ordinal, item.rows, item.mark, sizes=sizes)
        if isinstance(item, Failure):
            label = what._replace(what="failure", value=Raised.of(item.error.copy()))
            return Parcel(pack_by_value(label), None, 0, 1)
        try:
            pairs = [encoded(column) for column in item.columns]
        except StorageError:
            value = pack_by_value((item.structure, item.columns, item.ids))
            return Parcel(pack_by_value(what._replace(what="pickled", value=value)), None, len(value), item.rows)
        import pyarrow as pa

        arrays = [_compact(array) for array, _ in pairs]
        if item.ids is not None:
            arrays.append(encoded(item.ids)[0])
        data = pa.record_batch(arrays, names=[str(i) for i in range(len(arrays))]) if arrays else None
        layout = self._layout(ParcelLayout(item.structure, [notes for _, notes in pairs], item.ids is not None))
        return Parcel(pickle.dumps(what._replace(layout=layout), protocol=5), data, item.nbytes, item.rows)

    def _layout(self, layout: ParcelLayout) -> bytes:
        last = self._last
        if last is None or last.structure is not layout.structure or last[1:] != layout[1:]:
            self._last, self._packed = layout, pack_by_value(layout)
        return self._packed


def passed_rows(split: int, ordinal: int, rows: int, mark: Mark, nbytes: int) -> Parcel:
    """Return a parcel in place of rows that the trainer does not want, counted with the bytes they would have."""
    return Parcel(pickle.dumps(Label(split, "passed", ordinal, rows, mark), protocol=5), None, nbytes, rows)


MAX_COPIED_RUNS = 64
"""Up to this many runs of rows are copied run by run; more, row by row."""


def thin_parcel(parcel: Parcel, share: SplitShare) -> Parcel:
    """Return the parcel with only the rows that the trainer wants."""
    if parcel.last or not parcel.rows:
        return parcel
    label = read_label(parcel.label)
    kept = share.kept(label.ordinal, parcel.rows)
    if len(kept) == parcel.rows:
        return parcel
    if not len(kept):
        label = label._replace(what="passed", layout=b"", value=None)
        return parcel._replace(label=pickle.dumps(label, protocol=5), data=None)
    if parcel.data is None:
        return parcel
    import pyarrow as pa

    starts = np.flatnonzero(np.diff(kept, prepend=-2) != 1)
    if len(starts) > MAX_COPIED_RUNS:
        data = parcel.data.take(pa.array(kept))
    else:
        runs = [(int(run[0]), len(run)) for run in np.split(kept, starts[1:])]
        arrays = [pa.concat_arrays([column.slice(*run) for run in runs]) for column in parcel.data.columns]
        data = pa.record_batch(arrays, schema=parcel.data.schema)
    return parcel._replace(label=pickle.dumps(label._replace(kept=kept), protocol=5), data=data)


def _compact(array: pa.Array) -> pa.Array:
    """Without the rows around it, which Arrow would send along with lists and text."""
    if array.offset == 0 and array.nbytes >= array.get_total_buffer_size():
        return array
    import pyarrow as pa

    return pa.concat_arrays([array])


@lru_cache(256)
def _layout(data: bytes) -> ParcelLayout:
    made: ParcelLayout = pickle.loads(data)
    return made


def read_label(data: bytes) -> Label:
    """Return what `pack_item` wrote beside the rows."""
    label: Label = pickle.loads(data)
    return label


def unpack_item(label: Label, data: pa.RecordBatch | None, error_of: AnyFunction) -> Item:
    """Return the item of a parcel. Its arrays are what was received, and read-only; `with_own_arrays` makes others.

    `error_of` makes of an exception that is no ElementError one that is, and has it say which worker it came from.
    """
    mark = label.mark
    if label.what == "failure":
        error = error_of(label.value, mark)
        assert isinstance(error, ElementError)
        return Failure(error, mark)
    if label.what == "pickled":
        structure, columns, ids = pickle.loads(label.value)
        return Block(structure, columns, label.rows, mark, ids)
    rows = label.rows if label.kept is None else len(label.kept)
    layout = _layout(label.layout)
    arrays = [] if data is None else data.columns
    columns = [_aligned(decoded(array, notes)) for array, notes in zip(arrays, layout.notes, strict=False)]
    made = None
    if layout.with_ids:
        made = np.ascontiguousarray(arrays[-1].flatten().to_numpy(zero_copy_only=False)).reshape(-1, 2).copy()
    return Block(layout.structure, columns, rows, mark, made)


def _aligned(column: object) -> Column:
    return np.array(column) if type(column) is np.ndarray and not column.flags.aligned else column


def with_own_arrays(item: Item) -> Item:
    """Return the item with arrays that may be kept, and written to; those that are so already stay."""
    if isinstance(item, Block):
        shared = [type(column) is np.ndarray and not column.flags.writeable for column in item.columns]
        if any(shared):
            item.columns = [np.array(c) if copy else c for c, copy in zip(item.columns, shared, strict=True)]
    return item
