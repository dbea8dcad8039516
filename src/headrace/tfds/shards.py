"""The records of a dataset's files by number: counts are known, offsets are found when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.core.types import LibraryObject, Reduced, SharedValues
from headrace.errors import StorageError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.formats.shared.files import local_path
from headrace.formats.shared.format import Format, Offsets
from headrace.formats.shared.index import Index, index_file
from headrace.formats.tables.source import ParquetDataset
from headrace.formats.tfrecord.source import TFRecordDataset
from headrace.indexed.numbered import Numbered
from headrace.io.binary import bytes_column
from headrace.ops.shared.gather import NumberStream
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import TUNING, AnyNode, user_site
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.remote.identity import Identity
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

if TYPE_CHECKING:
    from headrace.dataset import Dataset

RECORDS = Spec.of_signature(TensorSpec((), bytes))


def shard_records(
    paths: Sequence[str], lengths: Sequence[int], file_format: str, storage_options: Mapping[str, object] | None
) -> Dataset:
    """Return the records of these files one after another, found by number."""
    if file_format == "tfrecord":
        node: AnyNode = TFRecordDataset(list(paths), index=False, storage_options=storage_options)._node
        via = ALONE.using(storage_options)
        known = tuple(
            PromisedIndex(path, length, node.format, via) for path, length in zip(paths, lengths, strict=True)
        )
        return dataset_of(replace(node, indexes=known, reader="tfds"))
    if file_format == "array_record":
        return dataset_of(ArrayRecords(tuple(paths), tuple(lengths), site=user_site()))
    return _parquet(paths, lengths, storage_options)


def _parquet(paths: Sequence[str], lengths: Sequence[int], storage_options: Mapping[str, object] | None) -> Dataset:
    ds = ParquetDataset(list(paths), storage_options=storage_options)
    node: AnyNode = ds._node
    counts = [each.count for each in node.counts.all] if paths else []
    for path, promised, count in zip(paths, lengths, counts, strict=True):
        check_length(path, promised, count)
    return ds.map(lambda row: row["data"]) if paths else ds


def check_length(path: str, promised: int, count: int) -> None:
    """Refuse a file that has another number of rows than the info says."""
    if promised != count:
        raise StorageError(
            f"{show_path(path)} has {count} rows, but dataset_info.json promises {promised}: "
            "it is damaged, or of another version of the dataset"
        )


class PromisedIndex:
    """The index of a file whose number of records is known beforehand; built on first use."""

    terminator = b""
    place: str | None = None

    def __init__(self, path: str, count: int, form: Format, via: Transport) -> None:
        self.count = count
        self._path, self._form, self._via = path, form, via
        self._made: Index | None = None
        self._lock = Lock()

    def __reduce__(self) -> Reduced:
        return PromisedIndex, (self._path, self.count, self._form, self._via)

    @property
    def _index(self) -> Index:
        with self._lock:
            if self._made is None:
                found = index_file(self._path, self._form, self._via)
                check_length(self._path, self.count, found.count)
                self._made = found
            return self._made

    def starts(self, numbers: Offsets) -> Offsets:
        """See Index."""
        return self._index.starts(numbers)

    def belongs_to(self, found: Identity) -> bool:
        """See Index."""
        return self._index.belongs_to(found)


@dataclass(frozen=True, eq=False)
class ArrayRecords(Numbered):
    """The records of ArrayRecord files, which contain their own index."""

    paths: tuple[str, ...] = field(repr=False)
    lengths: tuple[int, ...] = field(repr=False)
    stamp: str = field(default="", metadata=TUNING)

    @property
    def operation(self) -> str:
        return "tfds"

    @property
    def spec(self) -> Spec:
        return RECORDS

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(sum(self.lengths))

    @cached_property
    def first_rows(self) -> Indices:
        """The number of each file's first record."""
        return np.cumsum([0, *self.lengths], dtype=np.int64)[:-1]


@fetches(ArrayRecords)
def fetch_array_records(node: ArrayRecords, ctx: Context, indices: Indices) -> Block:
    """Fetch records from the files that contain them."""
    which = np.searchsorted(node.first_rows, indices, side="right") - 1
    made: list[bytes] = [b""] * len(indices)
    for number in np.unique(which).tolist():
        places = np.flatnonzero(which == number)
        reader = _reader(node.paths[number], node.lengths[number], ctx.run.shared)
        rows = (indices[places] - node.first_rows[number]).tolist()
        for place, record in zip(places.tolist(), reader.read(rows), strict=True):
            made[place] = record
    return Block(LEAF, [bytes_column(made)], len(indices), None, ctx.ids(indices))


def _reader(path: str, promised: int, shared: SharedValues) -> LibraryObject:
    """Return the file, opened once a pass."""
    found = shared.get(("array_record", path))
    if found is None:
        try:
            from array_record.python.array_record_module import ArrayRecordReader
        except ImportError as error:
            raise ImportError(
                f"{show_path(path)} is read by the package array_record: pip install 'headrace[array_record]'"
            ) from error
        local = local_path(path)
        if local is None:
            raise StorageError(f"{show_path(path)}: ArrayRecord files are read on this machine only; copy it here")
        found = ArrayRecordReader(local)
        check_length(path, promised, found.num_records())
        shared["array_record", path] = found
    return found


@opens(ArrayRecords)
def open_array_records(node: ArrayRecords, ctx: Context, _at: At) -> Stream:
    """Return the records by number."""
    return NumberStream(ctx, node, int(node.cardinality), np.arange)


def all_records(node: ArrayRecords) -> list[bytes]:
    """Return every record, in order."""
    shared: SharedValues = {}
    return [
        record
        for path, length in zip(node.paths, node.lengths, strict=True)
        for record in _reader(path, length, shared).read(list(range(length)))
    ]
