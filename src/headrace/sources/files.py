"""The records of many files, one file after another or several in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import keys
from headrace.block import Block, Indices, Item, Mark, gathered
from headrace.execute.context import AUTOTUNE, CYCLE, Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import positive
from headrace.ops.flat_map import FlatMapStream
from headrace.ops.gather import all_good, gathered_items
from headrace.ops.interleave import InterleaveStream
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.node import TUNING, Node, user_site
from headrace.plan.spec import Spec
from headrace.records.counts import Counts
from headrace.records.files import FileList, as_path
from headrace.records.format import Format
from headrace.records.index import Index, indexes
from headrace.records.quarantine import Quarantine, Skip, policy
from headrace.sources.memory import from_tensor_slices
from headrace.sources.records import Records

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SEED = keys.Seed(0, explicit=True)


def read_files(
    reader: str,
    filenames: Any,
    form: Format | Any,
    *,
    buffer_size: int | None,
    num_parallel_reads: int | None,
    on_error: Any,
    index: bool | str = False,
    counts: Counts | None = None,
    name: str | None,
    child: Callable[..., Node] = Records,
) -> Dataset:
    """A dataset of the records of these files: what all readers come down to."""
    from headrace.dataset import Dataset

    names, files = file_names(reader, filenames)
    turns = None if num_parallel_reads is None else CYCLE
    if num_parallel_reads not in (None, AUTOTUNE):
        turns = positive("num_parallel_reads", num_parallel_reads)
    chunk = None if not buffer_size else positive("buffer_size", buffer_size)
    plain = turns is None and files is not None
    known = indexes(files.names, form, index) if index and plain and files is not None else None
    if index is True and known is None:
        raise ValueError(
            f"{reader}: index=True needs the names of files that are read one after another, not "
            + ("a dataset of them" if files is None else "several in turn")
        )
    errors = policy(on_error)
    return Dataset(
        Files(
            names, form, reader, files, turns, errors, known, num_parallel_reads, chunk, child,
            counts if errors is None else None, site=user_site(), name=name,
        )
    )  # fmt: skip


def file_names(reader: str, filenames: Any) -> tuple[Node, FileList | None]:
    """The dataset of the names, and the names themselves where they are known in advance."""
    node = getattr(filenames, "_node", None)
    if isinstance(node, Node):
        _check_names(reader, node.spec)
        if node.inputs or not node.addressable or not node.cardinality.known:
            return node, None
        from headrace.execute.context import Run

        rows = node.at(Context(Run()), np.arange(node.cardinality)).elements() if node.cardinality else ()
        return node, FileList(as_path(row) for row in rows)
    names = [as_path(value) for value in _flat(filenames)]
    source = from_tensor_slices(np.array(names, dtype=object))
    return source._node, FileList(names)


def _flat(filenames: Any) -> Iterable[Any]:
    if isinstance(filenames, str | bytes | PurePath) or not hasattr(filenames, "__iter__"):
        return [filenames]
    return [name for part in filenames for name in _flat(part)]


def _check_names(reader: str, spec: Spec) -> None:
    if not spec.known:
        return
    kinds = [s for s in spec.leaves if (s.dtype is None or s.dtype.kind in "USO") and s.shape in (None, ())]
    if spec.structure is None or spec.structure.kind is not None or not kinds:
        raise TypeError(f"{reader} takes names of files, or a dataset of them, one string an element, not {spec}")


@dataclass(frozen=True, eq=False)
class Files(Node):
    """Opens one file for each row of the input; `cycle_length` of them in turn, if that is given."""

    input: Node
    format: Format | Any
    reader: str = field(repr=False)
    files: FileList | None
    cycle_length: int | None = None
    on_error: Quarantine | Skip | None = None
    indexes: tuple[Index, ...] | None = field(default=None, repr=False, metadata=TUNING)
    num_parallel_calls: int | None = field(default=None, repr=False, metadata=TUNING)
    buffer_size: int | None = field(default=None, repr=False, metadata=TUNING)
    child: Callable[..., Node] = field(default=Records, repr=False, metadata=TUNING)
    counts: Counts | None = field(default=None, repr=False, metadata=TUNING)
    """How many rows each file has, where the files tell; then rows are found by number too, group by group."""

    seed = SEED
    block_length = 1
    deterministic = None

    @property
    def operation(self) -> str:
        return self.reader

    @property
    def spec(self) -> Spec:
        known: Spec = self.format.spec
        return known

    @property
    def cardinality(self) -> Cardinality:
        if self.files is not None and not self.files.names:
            return Cardinality(0)
        return UNKNOWN if self.indexes is None and self.counts is None else Cardinality(int(self._first[-1]))

    @property
    def indexable(self) -> bool:
        return self.indexes is not None or self.coarse

    @property
    def coarse(self) -> bool:
        return self.counts is not None and self.cycle_length is None

    @property
    def fn(self) -> Callable[[Any], Node]:
        """Makes the records of one file of its name."""
        return self._records

    def _records(self, name: Any) -> Node:
        path = as_path(name)
        return self.child(
            path, self.format, self.reader, self.on_error, self._index.get(path), self.buffer_size,
            site=self.site, name=self.name,
        )  # fmt: skip

    @cached_property
    def _index(self) -> dict[str, Index]:
        return dict(zip(self.files.names, self.indexes, strict=True)) if self.files and self.indexes else {}

    @cached_property
    def _first(self) -> Indices:
        """The number of each file's first record, and of them all."""
        known = self.counts.all if self.counts is not None else self.indexes or ()
        return np.cumsum([0, *(each.count for each in known)], dtype=np.int64)

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return FlatMapStream(self, ctx, mark) if self.cycle_length is None else InterleaveStream(self, ctx, mark)

    def at(self, ctx: Context, indices: Indices) -> Block:
        assert self.files is not None
        if self.fetch is not None:
            return all_good(self.fetch(ctx, indices))
        names = self.files.names

        def read(number: int, rows: Indices) -> Block:
            return self._records(names[number]).at(ctx.branch(ctx.path, number), rows)

        return gathered(self._first[:-1], indices, read)

    @property
    def fetch(self) -> Callable[[Context, Indices], list[Item]] | None:
        """Gives rows by number with the failures among them, where reading one row costs a group of them."""
        return self._fetch if self.coarse else None

    def _fetch(self, ctx: Context, numbers: Indices) -> list[Item]:
        assert self.files is not None and self.counts is not None
        names, counts = self.files.names, self.counts.all

        def read(number: int, rows: Indices) -> list[Item]:
            child: Any = self._records(names[number])
            made: list[Item] = child.fetch(ctx.branch(ctx.path, number), rows, counts[number])
            return made

        return gathered_items(self._first[:-1], numbers, read)
