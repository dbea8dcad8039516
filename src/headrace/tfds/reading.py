"""The rows of a part of a dataset, in TFDS's order or in that of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headrace import extend
from headrace.columns import Indices
from headrace.core.types import Array, Nested
from headrace.errors import StorageError
from headrace.image.codecs import MAX_PIXELS
from headrace.indexed.memory import from_tensor_slices
from headrace.ops.shared.gather import NumberStream, RowsByNumber
from headrace.options import AUTOTUNE
from headrace.remote.redact import show_path
from headrace.tfds.decode import (
    CustomDecoder,
    PartialDecoding,
    RecordDecoder,
    decode_record,
    record_decoder,
)
from headrace.tfds.feature import FeatureConnector, FeatureLike, SequenceFeature
from headrace.tfds.files import Folder
from headrace.tfds.info import DatasetInfo, SplitInfo
from headrace.tfds.order import BLOCK, CYCLE, FileOrder, Run, TurnsOrder
from headrace.tfds.shards import ArrayRecords, all_records, shard_records
from headrace.tfds.splits import AbstractSplit, as_split

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.tfds.feature import FeatureLike

ORDERS = ("tfds", "file")
MIN_RECORD_BYTES = 16  # of a TFRecord: its length and two checksums


@dataclass(frozen=True)
class Pieces:
    """Which files are read, and which rows of them, as runs of rows counted over these files."""

    paths: tuple[str, ...]
    lengths: tuple[int, ...]
    runs: tuple[Run, ...]

    @property
    def overlaps(self) -> bool:
        """Whether a row comes twice."""
        ordered = sorted(self.runs)
        return any(a.first + a.rows > b.first for a, b in pairwise(ordered))


def pieces_of(info: DatasetInfo, split: str | AbstractSplit) -> Pieces:
    """Return the files and rows of a part of a dataset."""
    paths: list[str] = []
    lengths: list[int] = []
    runs: list[Run] = []
    begins: dict[str, int] = {}
    total = 0
    folder = Folder(info.data_dir)
    for rows in as_split(split).ranges(info.splits.lengths):
        found: SplitInfo = info.splits[rows.split]
        first = 0
        for name, length in zip(found.filenames(info.name, info.file_format), found.shard_lengths, strict=True):
            start, stop = max(rows.start, first), min(rows.stop, first + length)
            if stop > start:
                path = folder.file(name)
                if path not in begins:
                    begins[path], total = total, total + length
                    paths.append(path)
                    lengths.append(length)
                runs.append(Run(begins[path] + start - first, stop - start))
            first += length
    return Pieces(tuple(paths), tuple(lengths), tuple(runs))


def read_part(
    info: DatasetInfo,
    split: str | AbstractSplit,
    *,
    decoders: Nested = None,
    keys: object = None,
    shuffle_files: bool = False,
    seed: int | None = None,
    order: str = "tfds",
    max_pixels: int | None = MAX_PIXELS,
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Return the elements of a part of a dataset."""
    if order not in ORDERS:
        raise ValueError(f'order is "tfds" or "file", not {order!r}')
    if shuffle_files and info.disable_shuffling:
        raise ValueError(f"{info.full_name} has an order of its own, which shuffle_files=True would destroy")
    pieces = pieces_of(info, split)
    check_files(info, pieces, storage_options)
    raw = shard_records(pieces.paths, pieces.lengths, info.file_format, storage_options)
    one_by_one = info.disable_shuffling or info.file_format == "array_record"  # which TFDS reads by number alone
    cycle = 1 if one_by_one else CYCLE
    if shuffle_files:
        ds = _in_random_turns(raw, pieces.runs, cycle, seed)
    else:
        ds = read_in_order(raw, pieces, cycle if order == "tfds" else 1)
    return decode_rows(ds, info.features, decoders, keys, max_pixels)


def check_files(info: DatasetInfo, pieces: Pieces, storage_options: Mapping[str, object] | None) -> None:
    """Refuse to begin if a file is missing, or cannot hold its rows: `list()` allocates for as many as there should be.

    In a store that cannot be listed that shows when the file is read.
    """
    folder = Folder(info.data_dir, storage_options)
    there = folder.names()
    if not there and folder.local is None:
        return
    missing = [name for name in (path.rsplit("/", 1)[-1] for path in pieces.paths) if name not in there]
    if missing:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        like = sorted(name for name in there if name.startswith(info.name))[:4]
        raise StorageError(
            f"{info.data_dir} lacks {missing[0]}{more}: the directory is damaged, or still being copied "
            f"(there are {', '.join(like) or 'no files of its own'})"
        )
    for path, rows in zip(pieces.paths, pieces.lengths, strict=True):
        size = there[path.rsplit("/", 1)[-1]]
        known = bool(size) or folder.local is not None  # some stores list files without their sizes
        if info.file_format == "tfrecord" and size is not None and known and rows * MIN_RECORD_BYTES > size:
            raise StorageError(
                f"{show_path(path)} has {size} bytes, too few for the {rows} rows that dataset_info.json promises: the "
                "directory is damaged, or still being copied"
            )


def read_in_order(raw: Dataset, pieces: Pieces, cycle: int) -> Dataset:
    """Return rows of the files by number."""
    order = FileOrder(pieces.runs) if cycle == 1 else TurnsOrder(pieces.runs, cycle, BLOCK)
    if pieces.overlaps:
        return raw[order(np.arange(order.count))]  # type: ignore[no-any-return]
    return extend.add_operation(raw, ReadInOrder, RowOrder(pieces.runs, cycle, order))


class RowOrder:
    """Which row comes when, as a value: the same runs in the same turns are the same order."""

    def __init__(self, runs: Sequence[Run], cycle: int, order: FileOrder | TurnsOrder) -> None:
        self._runs, self._cycle, self._order = tuple(runs), cycle, order
        self.count: int = order.count

    def __str__(self) -> str:
        from hashlib import blake2b

        rows = ",".join(f"{run.first}+{run.rows}" for run in self._runs)
        shown = rows if len(rows) < 60 else blake2b(rows.encode(), digest_size=8).hexdigest()
        return f"{self._cycle} in turn of {shown}" if self._cycle > 1 else shown

    def numbers(self, places: Indices) -> Indices:
        """Return the numbers of the rows at these places."""
        return self._order(places)


@dataclass(frozen=True, eq=False)
class ReadInOrder(RowsByNumber):
    """Rows of the input by their numbers, no one twice."""

    order: RowOrder = field()

    indexable = True

    @property
    def operation(self) -> str:
        return "tfds.load"

    @property
    def cardinality(self) -> extend.Cardinality:
        return extend.Cardinality(self.order.count)


@extend.opens(ReadInOrder)
def open_in_order(node: ReadInOrder, ctx: extend.Context, _at: extend.At) -> extend.Stream:
    """Return the rows by number: a place is all the state there is."""
    return NumberStream(ctx, node.input, node.order.count, lambda a, b: node.order.numbers(np.arange(a, b)))


@extend.fetches(ReadInOrder)
def fetch_in_order(node: ReadInOrder, ctx: extend.Context, indices: Indices) -> extend.Block:
    """Return the rows at these places."""
    return ctx.fetch(node.input, node.order.numbers(indices))


@extend.means(ReadInOrder)
def rows_in_order(node: ReadInOrder, at: extend.Place) -> Iterator[extend.Row]:
    """Yield the rows in order."""
    everything = list(extend.rows(node.input, at))
    for number in node.order.numbers(np.arange(node.order.count)).tolist():
        yield everything[number]


@extend.means(ArrayRecords)
def rows_of_array_records(node: ArrayRecords, at: extend.Place) -> Iterator[extend.Row]:
    """Yield one record after another."""
    for number, record in enumerate(all_records(node)):
        yield extend.Row((at.path, number), record)


def _in_random_turns(raw: Dataset, runs: Sequence[Run], cycle: int, seed: int | None) -> Dataset:
    """Return the files in a random order, which is another one in each epoch."""
    if not runs:
        return raw
    table = np.array([(run.first, run.rows) for run in runs], np.int64)
    order = from_tensor_slices(table).shuffle(len(table), seed=seed)

    def piece(run: Array) -> Dataset:
        return raw[int(run[0]) : int(run[0] + run[1])]  # type: ignore[no-any-return]

    return order.interleave(piece, cycle_length=cycle, block_length=BLOCK)


def decode_rows(
    ds: Dataset, features: FeatureConnector, decoders: Nested, keys: object, max_pixels: int | None
) -> Dataset:
    """Return elements of records."""
    partial = decoders.decoders if isinstance(decoders, PartialDecoding) else decoders
    custom = dict(_custom(partial))
    decoder = record_decoder(features, decoders, keys, max_pixels)
    ds = _apply(ds, decoder)
    if not custom:
        return ds
    if keys is not None:
        raise ValueError("as_supervised and decoders made by make_decoder do not go together: choose the keys in map")
    return ds.map(lambda element: _customised(element, features, custom), mode="eager")


def _apply(ds: Dataset, decoder: RecordDecoder) -> Dataset:
    if not decoder.layouts:
        raise ValueError("no feature is left to be read")
    if decoder.nests:
        return ds.map(decoder.element, num_parallel_calls=AUTOTUNE, mode="eager", output_signature=decoder.spec)
    calls = AUTOTUNE if decoder.costly else None
    return ds.map(lambda record: decode_record(record, decoder), num_parallel_calls=calls)


def _custom(decoders: Nested, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CustomDecoder]]:
    if isinstance(decoders, CustomDecoder):
        yield path, decoders
    elif isinstance(decoders, Mapping):
        for name, inner in decoders.items():
            yield from _custom(inner, (*path, name))


def _customised(element: Nested, features: FeatureLike, custom: Mapping[tuple[str, ...], CustomDecoder]) -> Nested:
    """Return an element with what users' functions make of its parts."""
    made = dict(element)
    for path, decoder in custom.items():
        parent, feature = made, features
        for part in path[:-1]:
            parent[part] = dict(parent[part])
            parent, feature = parent[part], feature[part]
        name = path[-1]
        feature = feature[name]
        inner = feature
        while isinstance(inner, SequenceFeature):
            inner = inner.feature
        parent[name] = decoder.fn(parent[name], inner, *decoder.args, **dict(decoder.kwargs))
    return made
