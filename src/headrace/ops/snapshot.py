"""Store the elements of the first run for the next ones, one set of files per pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.core.paths import local_only
from headrace.core.types import Component, UserFunction
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.stored import PartList, ReaderFunc, Stored, read_shards
from headrace.ops.cache import CACHE_REMEDY, Cache, CacheStream, FileStore, RowStore
from headrace.ops.shared.arguments import bound_function, function
from headrace.ops.shared.calls import CallOutcome, CallStream, call_each_row, with_failures
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import NOWHERE, At, Marked, OwnMark
from headrace.plan.node import Node
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, tuple_of
from headrace.storage.parts import StoredPart
from headrace.storage.rows import StoredRows

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element

CODECS = {"": None, "NONE": None, "AUTO": "lz4", "LZ4": "lz4", "SNAPPY": "lz4", "ZSTD": "zstd", "GZIP": "zstd"}


def snapshot(
    self: Dataset[Element],
    path: str | os.PathLike[str],
    compression: str | None = "AUTO",
    reader_func: ReaderFunc | None = None,
    shard_func: Callable[..., object] | None = None,
    name: str | None = None,
    *,
    types: Iterable[type] = (),
) -> Dataset[Element]:
    """Keep the elements in files under `path` as they are read; later runs of the same pipeline take them from there.

    As `cache(filename)`, but another pipeline makes a snapshot of its own beside the first, and files are compressed.
    A complete snapshot no longer needs its input files.
    `shard_func` gives each element the number of its shard; once all is written, `reader_func` gets a dataset of
    datasets, one for each shard, and makes one of them. Without a `reader_func` shards take turns, and `ds[i]` writes
    the files first. An element that failed is in the shard of the element before it.

    Args:
        path: Folder for the elements.
        compression: Compression of the files; None writes them uncompressed.
        reader_func: Function that turns a dataset of shards into a dataset of elements.
        shard_func: Function of one element that returns the number of its shard.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        types: Further classes that elements of the stored rows may have.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(3).map(lambda x: x * x).snapshot(folder / "squares")
    >>> list(ds) == list(ds)
    True
    """
    place = local_only(path, "snapshot", CACHE_REMEDY).absolute()
    store = FileStore(place, arrow_codec(compression), per_plan=True, types=tuple(types))
    if shard_func is None and reader_func is None:
        return self._then(Cache, store, name=name)
    kept = tagging(self, shard_func or _one_shard)._then(Cache, store)
    reader = None if reader_func is None else bound_function("snapshot", reader_func)
    return kept._then(Snapshot, store, self._node.spec, reader, name=name)


def arrow_codec(compression: str | None) -> str | None:
    """Arrow's name for a compression."""
    try:
        return CODECS[(compression or "").upper()]
    except KeyError:
        raise ValueError(f"compression must be None, 'LZ4' or 'ZSTD', not {compression!r}") from None


def tagging(dataset: Dataset, shard_func: Callable[..., object]) -> Dataset:
    """Return the elements with the numbers of their shards, as pairs."""
    return dataset._then(Tag, function("shard_func", shard_func, dataset._node.spec, mode="eager"))


def _one_shard(*components: object) -> int:  # noqa: ARG001
    return 0


@dataclass(frozen=True, eq=False)
class Tag(Node):
    """Pair each row with the function's result."""

    input: Node
    shard_func: UserFunction

    one_to_one = True
    pure = False
    live = True

    @property
    def spec(self) -> Spec:
        return Spec.tuple_of([self.input.spec, Spec.of(np.int64(0))])

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


@opens(Tag)
def open_tagged(node: Tag, ctx: Context, at: At) -> Stream:
    """Return rows with their numbers."""
    return CallStream(ctx, node.input, at, partial(tag_rows, node))


def tag_rows(node: Tag, block: Block) -> list[Item]:
    """Return rows with their numbers, and failures for rows whose function raised."""
    results = [_number(outcome) for outcome in call_each_row(node.shard_func, block, keep=True)]

    def good(start: int, stop: int) -> list[Item]:
        part = block.slice(start, stop)
        tags = np.array([value for _, value in results[start:stop]], np.int64)
        pair = tuple_of([part.structure, LEAF])
        return [Block(pair, [*part.columns, tags], part.rows, part.mark, part.ids)]

    return with_failures(node, block, results, good)


def _number(outcome: CallOutcome) -> CallOutcome:
    fine, value = outcome
    try:
        return fine, tag_of(value) if fine else value
    except TypeError as error:
        return False, error


def tag_of(value: Component) -> int:
    """Return the number of a shard, as a function gave it."""
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iub":
        raise TypeError(f"shard_func must return an integer, not {value!r}")
    return int(value)


@dataclass(frozen=True, eq=False)
class Snapshot(Node):
    """The elements without shard numbers while they are written; then the reader's result for the shards."""

    input: Node
    store: RowStore = field(repr=False)
    elements: Spec = field(repr=False)
    reader_func: ReaderFunc | None

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.reader_func is None else UNKNOWN

    @property
    def indexable(self) -> bool:
        return self.reader_func is None and self.cardinality.known

    def is_written(self) -> bool:
        """Whether all elements are in the files."""
        return self._kept.complete

    @property
    def _kept(self) -> StoredRows:
        rows = self.store.rows(self.input.inputs[0])
        assert isinstance(rows, StoredRows)
        return rows

    @property
    def shards(self) -> Node:
        """The plan that reads the complete files, kept as long as these are the same."""
        parts = tuple(self._kept.parts)
        known = self._plan_of_parts.get(parts)
        if known is None:
            stored = Stored(self.elements, PartList(parts), "snapshot", tagged=True)
            known = read_shards(stored, self.reader_func)._node
            self._plan_of_parts.clear()
            self._plan_of_parts[parts] = known
        return known

    @cached_property
    def _plan_of_parts(self) -> dict[tuple[StoredPart, ...], Node]:
        return {}


@dataclass(slots=True)
class SnapshotMark(OwnMark):
    """The position in the files, if rows come from these: they are then read in the files' order."""

    stored: Marked | None


@opens(Snapshot, own=SnapshotMark)
class SnapshotStream(Stream):
    """Write rows to the files, or return the reader's result once they are complete."""

    def __init__(self, node: Snapshot, ctx: Context, at: At) -> None:
        own: SnapshotMark | None = at.own
        self._reads = node.is_written() if own is None else own.stored is not None
        if self._reads:
            self._input = ctx.open_plan(node.shards, None if own is None else own.stored)
        else:
            self._input = ctx.open(node.input, at.inputs)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if item is END:
            return END
        if self._reads:
            item.own = SnapshotMark(item.mark)
            item.mark = NOWHERE  # nothing of the input is read again
            return item
        if isinstance(item, Block):
            item = Block(item.structure.children[0], item.columns[:-1], item.rows, item.mark, item.ids)
        item.own = SnapshotMark(None)
        return item


@fetches(Snapshot)
def fetch_snapshot(node: Snapshot, ctx: Context, indices: Indices) -> Block:
    """Rows by number in the order of the shards, as every pass after the first gives them."""
    if not node.is_written():
        assert isinstance(node.input, Cache)
        CacheStream(node.input, ctx).fill()
    return ctx.fetch(node.shards, indices)
