"""Keep the elements of the first pass for the next ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, concat, folded
from headrace.core.keys import Seed
from headrace.core.override import override
from headrace.core.paths import local_only
from headrace.core.types import Reduced
from headrace.errors import StorageError, may_pass, refuse_arguments
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Pulled, RowRange, Stream
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import VALUE_WIDTH, cut_to_width
from headrace.plan.marks import At
from headrace.plan.node import Node, walk
from headrace.storage.plans import Maker
from headrace.storage.rows import SEALED_ROWS, KeptRows, StoredRows
from headrace.storage.shelf import plan_folder
from headrace.storage.structures import Types

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element

CACHE_REMEDY = (
    "give a local folder; Options(remote_cache=FOLDER) keeps what is read of remote files, and write_tfrecord writes "
    "to stores"
)


def cache(
    self: Dataset[Element],
    filename: str | os.PathLike[str] = "",
    name: str | None = None,
    *,
    types: Iterable[type] = (),
    **unknown: object,
) -> Dataset[Element]:
    """Keep the elements as they are read, in memory or in the directory `filename`; later passes take them from there.

    The next pass continues where one stopped early, even after a crash if there is a `filename`. Every pass sees the
    same order, shuffled or not. An element that failed fails again: put `ignore_errors()` first to drop such elements.

    Files belong to this pipeline: to its operations and their parameters, to the code of its functions and all that
    they hold (but not to what they change themselves), to the contents of arrays and files. Files of another pipeline
    are rejected with the difference; input files that are gone are assumed to be unchanged. Elements may be of classes
    that the functions name, or else `types`: no class is imported because a file names it.

    Args:
        filename: Folder for the elements; empty to keep them in memory.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        types: Further classes that elements of the stored rows may have.
        **unknown: Other names are refused with an error that says what to write.

    Returns:
        A new dataset.

    >>> calls = []
    >>> ds = hr.Dataset.range(2).map(lambda x: calls.append(int(x)) or x).cache()
    >>> list(ds) == list(ds), calls
    (True, [0, 1])
    """
    refuse_arguments("cache", unknown, {"file_name": "it is filename="})
    if not os.fspath(filename):
        return self._then(Cache, MemoryStore(), name=name)
    path = local_only(filename, "cache", CACHE_REMEDY).absolute()
    store = FileStore(path, types=tuple(types))
    return self._then(Cache, store, name=name)


@dataclass(frozen=True, eq=False)
class Cache(UnchangedRows):
    """Store the input: in memory as long as the dataset lives, in files until they are deleted."""

    store: RowStore = field(repr=False)

    positional = True
    outlives = True

    def label(self, *, for_state: bool = False) -> str:
        path = getattr(self.store, "path", None)
        if for_state or path is None:
            return super().label(for_state=for_state)
        here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f'{self.operation}("{cut_to_width(str(here), VALUE_WIDTH)}")'

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable or self.cardinality.known

    @property
    def addressable(self) -> bool:
        """See the class. Rows are put into files in turn."""
        return self.input.addressable and self.pure and isinstance(self.store, MemoryStore)


def is_in_memory(node: Node) -> bool:
    """Return whether the rows of a node are in memory and stay there."""
    return isinstance(node, Cache) and isinstance(node.store, MemoryStore)


@dataclass(frozen=True, eq=False)
class CountedCache(Cache):
    """A cache that was filled to count its rows."""

    rows: int = field(kw_only=True)

    indexable = True

    @property
    def operation(self) -> str:
        return "cache"

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)


class RowStore(Protocol):
    """Storage for the rows of a plan."""

    def rows(self, plan: Node) -> KeptRows | StoredRows:
        """Return those that are kept already, and room for more."""
        ...


class MemoryStore:
    """The memory of one `cache()`."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], KeptRows] = {}

    def __reduce__(self) -> Reduced:
        return MemoryStore, ()  # another process fills its own

    def rows(self, plan: Node) -> KeptRows:
        """Return the rows kept for this plan: other seeds make other rows."""
        seeds = [getattr(n, f.name) for n in walk(plan) for f in fields(n)]
        return self._rows.setdefault(tuple(s.value for s in seeds if isinstance(s, Seed)), KeptRows())


class FileStore:
    """The directory of one `cache(filename)`. It keeps the seeds of the run that began it, not those of this one.

    `per_plan`: each pipeline has its own subdirectory.
    """

    def __init__(
        self, path: Path, compression: str | None = None, per_plan: bool = False, types: tuple[type, ...] = ()
    ) -> None:
        self.path = path
        self.compression = compression
        self.per_plan = per_plan
        self.types = types
        self._rows: StoredRows | None = None

    def __reduce__(self) -> Reduced:
        return FileStore, (self.path, self.compression, self.per_plan, self.types)

    def rows(self, plan: Node) -> StoredRows:
        """Return the rows stored so far, by this process or another."""
        if self._rows is None:
            maker = Maker(plan)
            path = plan_folder(self.path, maker) if self.per_plan else self.path
            self._rows = StoredRows(path, maker, Types([*maker.types, *self.types]), self.compression)
        self._rows.look()
        return self._rows


@fetches(Cache)
def fetch_cached(node: Cache, ctx: Context, indices: Indices) -> Block:
    """Return rows that are kept, or would be."""
    if not node.addressable:  # what was kept is what counts
        return CacheStream(node, ctx).fetch(indices)
    block = ctx.shared_path().fetch(node.input, indices)
    block.ids = folded(block.ids, ctx.path)
    return block


@opens(Cache)
class CacheStream(Stream):
    """Read stored rows; beyond them, read the input and store its rows, or only read it if they cannot be stored."""

    @override
    def __init__(self, node: Cache, ctx: Context, at: At = At()) -> None:  # noqa: B008 - a place is a number
        self._node = node
        self._ctx = ctx
        self._rows = node.store.rows(node.input)
        self._input: Input | None = None
        self._alone: Input | None = None
        self._passing: Failure | None = None
        self._writing = False
        self._next = 0
        self._halted = False

    def pull(self, want: int) -> Made:
        if self._halted:
            return END
        item: Pulled | None = None
        if self._read_on(self._next + 1, want):
            item = self._rows.pull(self._next, want)
        if item is None:
            item = self._apart().pull(want) if self._alone or not self._rows.complete else END
        if item is END:
            return END
        self._next += item.rows
        if isinstance(item, Block):  # the same rows, but in every pass with randomness of their own
            item.ids = folded(item.ids, self._ctx.path) if self._ctx.with_ids else None
        return item

    def halt(self) -> RowRange | None:
        if self._alone is not None or not self._rows.complete:
            return None
        self._halted = True
        return RowRange(self._next, self._rows.count)

    def fetch(self, indices: Indices) -> Block:
        """Return rows by number, read and kept as far as need be."""
        until = int(indices.max()) + 1
        while self._rows.count < until and self._read_on(self._rows.count + 1, self._unseen(until)):
            pass
        self.close()
        blocks = []
        for number in indices.tolist():
            item = self._rows.pull(number, 1)
            if item is None and self._passing is not None:
                raise self._passing.error
            if item is None and self._rows.complete:
                raise IndexError(f"element {number} of a dataset of {self._rows.count}")
            if item is None:
                raise StorageError(f"row {number} cannot be read by number while the cache cannot be written")
            if isinstance(item, Failure):
                raise item.error
            item.ids = folded(item.ids, self._ctx.path) if self._ctx.with_ids else None
            blocks.append(item)
        return concat(blocks)

    def fill(self) -> int:
        """Keep all rows there are, and count them."""
        while self._read_on(self._rows.count + 1, SEALED_ROWS):
            pass
        self.close()
        if not self._rows.complete:
            raise self._passing.error if self._passing else StorageError("the cache cannot be written")
        return self._rows.count

    def _unseen(self, until: int) -> int:
        """Return how many rows may be read ahead if `until` is needed: no more than that if reading is observable."""
        return SEALED_ROWS if self._node.input.pure else until - self._rows.count

    def _read_on(self, until: int, want: int) -> bool:
        """Store at least `until` rows. Return False if there are fewer, or they cannot be stored."""
        rows = self._rows
        while self._alone is None and self._passing is None and rows.count < until and not rows.complete:
            with rows.lock:
                if not self._begun():
                    return False
                if rows.count >= until or rows.complete:
                    break
                if self._input is None:
                    plan = rows.plan(self._node.input)
                    self._input = self._ctx.shared_path().open_plan(plan, rows.mark, with_ids=True)
                behind = rows.count - self._input.ordinal
                if behind:  # another pass has read on in the meantime, and made these rows
                    self._input.skip(behind, replay=True)
                item = self._input.pull(want)
                if item is END:
                    rows.finish()
                    self._input.close()
                    self._input = None
                elif isinstance(item, Failure) and may_pass(item.error):
                    self._passing = item  # the row may be available at another time: a later reader then stores it
                else:
                    rows.add(item, self._input.mark())
        return rows.count >= until

    def _begun(self) -> bool:
        self._writing = self._writing or self._rows.begin(self)
        return self._writing and self._rows.writable

    def _apart(self) -> Input:
        """Return the input from the next row on, for this pass alone."""
        if self._alone is None:
            _, mark = self._rows.stored
            if self._input is not None:
                self._input.close()
                self._input = None
            plan = self._rows.plan(self._node.input)
            self._alone = self._ctx.shared_path().open_plan(plan, mark, with_ids=True)
        behind = self._next - self._alone.ordinal
        if behind:  # rows that are stored, possibly by another pass in the meantime
            self._alone.skip(behind, replay=True)
        return self._alone

    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._read_on(self._next + count, count) or self._rows.complete:  # rows skipped are kept too
            done = min(count, max(0, self._rows.count - self._next))
        else:
            done = self._apart().skip(count, replay=replay)
        self._next += done
        return done

    def close(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None
        self._rows.end(self)
