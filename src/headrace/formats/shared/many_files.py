"""The records of many files, one file after another or interleaved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Ids, Item, gathered
from headrace.columns.lazy_block import RecordBlock
from headrace.columns.refs import RecordRefs
from headrace.core import keys
from headrace.core.types import FilePatterns
from headrace.execute.context import DEFAULT_CYCLE_LENGTH, Context
from headrace.execute.registry import fetches, opens
from headrace.execute.run import Pass
from headrace.execute.stream import Stream
from headrace.formats.shared.access import locate_records
from headrace.formats.shared.counts import Counts
from headrace.formats.shared.file_names import NAME, FileNames, listing
from headrace.formats.shared.files import FileList, as_path, file_identity, head_of, local_path
from headrace.formats.shared.format import Format
from headrace.formats.shared.index import Index, indexes
from headrace.formats.shared.one_file import Missing, OneFile, by_pattern, looks_like_pattern, small_size
from headrace.formats.shared.quarantine import Quarantine, SkipPolicy, policy
from headrace.formats.shared.records import Records, picked_block
from headrace.formats.shared.sidecar import is_sidecar
from headrace.formats.shared.small_files import SmallFiles
from headrace.indexed.memory import Memory
from headrace.ops.flat_map import Child, FlatMapStream
from headrace.ops.interleave import InterleaveStream, TurnsMark
from headrace.ops.shared.arguments import MAX_OPEN_DATASETS, one_of, positive
from headrace.ops.shared.gather import gathered_items
from headrace.options import AUTOTUNE, Options
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import TUNING, AnyNode, Divides, Node, user_site
from headrace.plan.prepared import Prepared
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.remote.transport import ALONE, StorageOptions
from headrace.storage.swaps import finish_swaps

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SEED = keys.Seed(0, explicit=True)


def read_files(
    reader: str,
    filenames: FilePatterns,
    form: Format | Any,
    *,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = False,
    counts: Counts | None = None,
    name: str | None = None,
    storage_options: StorageOptions | None = None,
    child: Callable[..., Node] = Records,
) -> Dataset:
    """Return a dataset of the records of these files: the common end of all readers."""
    names, files = file_names(reader, filenames, storage_options)
    turns = None if num_parallel_reads is None else DEFAULT_CYCLE_LENGTH
    if num_parallel_reads not in (None, AUTOTUNE):
        turns = positive("num_parallel_reads", num_parallel_reads, most=MAX_OPEN_DATASETS)
    chunk = None if not buffer_size else positive("buffer_size", buffer_size)
    bad = policy(on_error)
    one_of("missing", missing, Missing)
    losing = f"on_error={str(bad)!r}" if bad is not None else "missing='skip'" if missing == "skip" else None
    by_number = index is True or index == "beside"
    if by_number and losing is not None:
        raise ValueError(
            f"{reader}: index={index!r} gives every record its number, {losing} leaves some of them out; "
            "choose one of the two"
        )
    plain = turns is None and losing is None
    via = ALONE.using(storage_options)
    known = indexes(files.names, form, index, via) if index and plain and files is not None else None
    if by_number and known is None:
        raise ValueError(
            f"{reader}: index={index!r} needs the names of files that are read one after another, not "
            + ("a dataset of them" if files is None else "several in turn")
        )
    known_counts = counts if losing is None else None
    kind = FilesInTurn if turns is not None else Files if known_counts is None else CountedFiles
    return dataset_of(
        kind(
            names, form, reader, files, turns, bad, known, num_parallel_reads, chunk, child,
            known_counts, storage_options, missing, site=user_site(), name=name,
        )
    )  # fmt: skip


def file_names(
    reader: str, filenames: FilePatterns, storage_options: StorageOptions | None = None
) -> tuple[Node, FileList | None]:
    """Return the dataset of the names, and the names themselves if they are known in advance."""
    node = getattr(filenames, "_node", None)
    if not isinstance(node, Node):
        names = [as_path(value) for value in _flat(filenames)]
    else:
        _check_names(reader, node.spec)
        if node.inputs or not node.addressable or not node.cardinality.known:
            return node, None
        context = Pass().context(Prepared.of(node))
        rows = context.fetch(node, np.arange(node.cardinality)).elements() if node.cardinality else ()
        names = [as_path(row) for row in rows]
    local = [path for path in map(local_path, names) if path is not None]
    finish_swaps(local)
    for path in local:
        if looks_like_pattern(path) and not os.path.lexists(path):
            raise FileNotFoundError(f"{reader}: there is no file {path!r}; {by_pattern(path)}")
    via = ALONE.using(storage_options)
    names = [name for name in names if not is_sidecar(name, via)]
    return FileNames(NAME, len(names), names), FileList(names, storage_options)


def _flat(filenames: FilePatterns) -> Iterable[Any]:
    if isinstance(filenames, str | bytes | PurePath) or not hasattr(filenames, "__iter__"):
        return [filenames]
    return [name for part in filenames for name in _flat(part)]


def _check_names(reader: str, spec: Spec) -> None:
    if not spec.known:
        return
    kinds = [s for s in spec.leaves if (s.dtype is None or s.dtype.kind in "USO") and s.shape in (None, ())]
    if spec.structure is None or spec.structure.kind is not None or not kinds:
        raise TypeError(f"{reader} takes names of files, or a dataset of them, one string an element, not {spec}")


class _Names(FileList):
    """Files that are identified by their names below their directory alone."""

    def __str__(self) -> str:
        return f"{len(self.names)} called #{listing(self.names)}"


def _is_gone(name: str) -> bool:
    local = local_path(name)
    return local is not None and not Path(local).exists()


@dataclass(frozen=True, eq=False)
class Files(Node):
    """Opens one file for each row of the input; `cycle_length` of them in turn, if that is given."""

    input: Node
    format: Format | Any
    reader: str = field(repr=False)
    files: FileList | None
    cycle_length: int | None = None
    on_error: Quarantine | SkipPolicy | None = None
    indexes: tuple[Index, ...] | None = field(default=None, repr=False, metadata=TUNING)
    num_parallel_calls: int | None = field(default=None, repr=False, metadata=TUNING)
    buffer_size: int | None = field(default=None, repr=False, metadata=TUNING)
    child: Callable[..., Node] = field(default=Records, repr=False, metadata=TUNING)
    counts: Counts | None = field(default=None, repr=False, metadata=TUNING)
    """How many rows each file has, if the files say; then rows can be fetched by number too, group by group."""
    storage_options: StorageOptions | None = field(default=None, repr=False, metadata=TUNING)
    missing: Missing = "raise"

    divides = Divides.RUNS

    seed = SEED
    block_length = 1
    deterministic = None

    @property
    def operation(self) -> str:
        return self.reader

    def remedy(self) -> str | None:
        return "give it num_parallel_reads=hr.AUTOTUNE" if self.num_parallel_calls is None else None

    def index_remedy(self) -> str:
        form = self.format
        if not isinstance(form, Format) or not form.indexed:
            return "files of this format cannot be indexed" if isinstance(form, Format) else "give it index=True"
        if form.compression:
            return f"write the files without {form.compression} and run `headrace index` on them"
        if self.files is None or self.cycle_length is not None or self.on_error is not None:
            return "give it the names of its files, index=True, and neither num_parallel_reads nor on_error"
        if self.missing == "skip":
            return "leave out missing='skip', and give it index=True"
        return "run `headrace index` on its files, or give it index=True"

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        return self.inputs if self.files is None else ()

    @property
    def tells_inputs(self) -> bool:  # type: ignore[override]
        return self.files is not None

    def file_names(self) -> str | None:
        if self.files is None:
            return None
        return replace(self, files=_Names(self.files.names)).label(for_state=True)

    def rows_of_files(self) -> tuple[int, ...] | str | None:
        if self.files is None:
            return None
        if self.on_error is not None:
            return f"on_error={str(self.on_error)!r} leaves some out"
        if self.missing == "skip":
            return "missing='skip' leaves some out"
        known: Sequence[Any] | None = self.indexes
        if self.counts is not None:
            known = self.counts.all
        elif known is None and isinstance(self.format, Format) and self.format.indexed:
            known = indexes(self.files.names, self.format, "auto", ALONE.using(self.storage_options))
        if known is None:
            return "files of this format do not tell" if not self._can_be_indexed else "run `headrace index` on them"
        return tuple(each.count for each in known)

    @property
    def _can_be_indexed(self) -> bool:
        return isinstance(self.format, Format) and self.format.indexed and not self.format.compression

    def with_files(self, part: slice) -> Node:
        assert self.files is not None, "known by name"
        names = self.files.names[part]
        return replace(
            self,
            input=FileNames(NAME, len(names), names),
            files=FileList(names, self.storage_options),
            indexes=None if self.indexes is None else self.indexes[part],
            counts=None if self.counts is None else self.counts.of(names),
        )

    def files_gone(self) -> bool:
        return self.files is not None and any(map(_is_gone, self.files.names))

    @property
    def spec(self) -> Spec:
        known: Spec = self.format.spec
        return known

    @property
    def cardinality(self) -> Cardinality:
        if self.files is not None and not self.files.names:
            return Cardinality(0)
        return UNKNOWN if self.indexes is None and self.counts is None else Cardinality(int(self.first_rows[-1]))

    @property
    def indexable(self) -> bool:
        return self.indexes is not None

    @property
    def brief(self) -> bool:
        if self.files is None or len(self.files.names) != 1 or not isinstance(self.format, Format):
            return False
        return not self.format.compression and small_size(self.files.names[0]) is not None

    @property
    def at_hand(self) -> bool:
        return self.cycle_length is None and self._on_this_machine

    @property
    def comes_late(self) -> bool:
        return self._on_this_machine and self.format.pointed and self.on_error is None

    @property
    def late_bytes(self) -> int:
        names = self.files.names if self.files is not None and self.comes_late else []
        return self.format.first_size(head_of(names[0])) if names else 0

    @cached_property
    def _on_this_machine(self) -> bool:
        if self.files is None or self.child is not Records or self.format.compression:
            return False
        return all(local_path(name) is not None for name in self.files.names)

    @cached_property
    def in_store(self) -> bool:
        """Whether one of the files is not on this machine."""
        return self.files is not None and any(local_path(name) is None for name in self.files.names)

    @property
    def fn(self) -> Callable[[Any], Node]:
        """Make the node of one file from its name."""
        return self._records

    def _records(self, name: object) -> Node:
        path = as_path(name)
        if is_sidecar(path):  # which a pattern for data has picked up
            return Memory(self.spec, 0, LEAF, [], self.reader)
        return self.child(
            path, self.format, self.reader, self.on_error, self._index.get(path), self.buffer_size,
            self.storage_options, self.files, self.missing, site=self.site, name=self.name,
        )  # fmt: skip

    def for_pass(self, options: Options) -> Node:
        files = self.files and self.files.for_pass(options, self.cycle_length or 1)
        return self if files is self.files else replace(self, files=files)

    @cached_property
    def _index(self) -> dict[str, Index]:
        return dict(zip(self.files.names, self.indexes, strict=True)) if self.files and self.indexes else {}

    @cached_property
    def first_rows(self) -> Indices:
        """The number of each file's first record, and of them all."""
        known = self.counts.all if self.counts is not None else self.indexes or ()
        return np.cumsum([0, *(each.count for each in known)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FilesInTurn(Files):
    """Files of which several take turns."""

    divides = Divides.ROWS

    def _records(self, name: object) -> Node:
        child = super()._records(name)
        return replace(child, in_turn=True) if isinstance(child, OneFile) else child


@dataclass(frozen=True, eq=False)
class CountedFiles(Files):
    """Files that store their row counts, and that must decode a group to read one row."""

    @property
    def indexable(self) -> bool:
        return True

    @property
    def coarse(self) -> bool:
        return True


@opens(Files, own=Child)
def open_files(node: Files, ctx: Context, at: At) -> Stream:
    """Open the records of one file after the other; many small files at a time, if their names and states are known."""
    return FlatMapStream(node, ctx, at, small_files(node, ctx))


def small_files(node: Files, ctx: Context) -> SmallFiles | None:
    """Return the reader of many small files at once. None if each must be opened by itself."""
    form = node.format
    joinable = isinstance(form, Format) and form.joinable and not form.compression and node.child is Records
    plain = node.on_error is None and node.indexes is None and node.buffer_size is None
    if not joinable or not plain or node.files is None or len(node.files) < 2 or ctx.run.origins is not None:
        return None
    return SmallFiles(form)


@opens(FilesInTurn, own=TurnsMark)
def open_files_in_turn(node: FilesInTurn, ctx: Context, at: At) -> Stream:
    """Open the records of several files in turn; many small files are read at a time, if their names are known."""
    return InterleaveStream(node, ctx, at, many=small_files(node, ctx))


def point_into_files(node: Files, ctx: Context, indices: Indices) -> RecordBlock | None:
    """Return references to records, according to the indexes."""
    if node.indexes is None or node.files is None or not node.comes_late:
        return None
    which, rows = _within_files(node, indices)
    try:
        found = locate_records(node.files.names, node.indexes, which, rows, ctx.run.shared)
    except OSError:  # the reader of the file raises it
        return None
    if found is None:
        return None
    files = [(number, file) for number, file in enumerate(found.files) if file is not None]
    places = np.empty((len(indices), 4), np.int64)
    places[:, 0] = np.searchsorted([number for number, _ in files], which)
    places[:, 1:3], places[:, 3] = found.bounds, indices
    return RecordBlock(RecordRefs([file for _, file in files], places), _ids_in_files(ctx, which, rows))


@fetches(Files, point=point_into_files)
def fetch_from_files(node: Files, ctx: Context, indices: Indices) -> Block:
    """Fetch records from the files that contain them."""
    assert node.indexes is not None and node.files is not None
    names, starts = node.files.names, node.first_rows[:-1]
    if len(names) > 1 and ctx.run.origins is None:
        at_once = _at_once(node, ctx, names, *_within_files(node, indices))
        if at_once is not None:
            return at_once

    def read(number: int, rows: Indices) -> Block:
        return ctx.branch(ctx.path, number).fetch(node.fn(names[number]), rows)

    return gathered(starts, indices, read)


def _within_files(node: Files, indices: Indices) -> tuple[Indices, Indices]:
    """Return which file each of these rows is in, and its number there."""
    which = np.searchsorted(node.first_rows[:-1], indices, side="right") - 1
    return which, indices - node.first_rows[which]


def _at_once(node: Files, ctx: Context, names: Sequence[str], which: Indices, rows: Indices) -> Block | None:
    """Return records of several local files; None if one of them is bad, which is then located file by file."""
    assert node.indexes is not None
    try:
        found = picked_block(node.format, names, node.indexes, which, rows, ctx)
    except OSError:
        return None
    if found is not None:
        found.ids = _ids_in_files(ctx, which, rows)
    return found


def _ids_in_files(ctx: Context, which: Indices, rows: Indices) -> Ids | None:
    """Return the ids of rows with these numbers in these files, if they are needed."""
    if not ctx.with_ids:
        return None
    paths = {number: ctx.branch(ctx.path, number).path for number in np.unique(which).tolist()}
    return np.stack([np.array([paths[w] for w in which.tolist()], np.uint64), rows.astype(np.uint64)], 1)


def check_counted(node: CountedFiles, ctx: Context) -> bool:
    """Return whether all files are those whose rows were counted."""
    assert node.files is not None and node.counts is not None
    for name, count in zip(node.files.names, node.counts.all, strict=True):
        file: AnyNode = node.fn(name)
        if not isinstance(file, OneFile) or count.identity is None:
            return False
        try:
            if file_identity(name, file.via(ctx)) != count.identity:
                return False
        except OSError:  # the reader of the file raises it
            return False
    return True


@fetches(CountedFiles, items=True, check=check_counted)
def fetch_from_counted(node: CountedFiles, ctx: Context, indices: Indices) -> list[Item]:
    """Fetch rows from the files that contain them, with failures in their places."""
    assert node.files is not None and node.counts is not None
    names, counts = node.files.names, node.counts.all

    def read(number: int, rows: Indices) -> list[Item]:
        file: AnyNode = node.fn(names[number])
        return ctx.branch(ctx.path, number).fetch_items(replace(file, index=counts[number]), rows)

    return gathered_items(node.first_rows[:-1], indices, read)
