"""Rows kept from one pass for the next: in memory, or in memory until they fill a file."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headrace.columns import owned
from headrace.columns.block import Block, Item, concat
from headrace.errors import StorageError
from headrace.plan.marks import Marked, SavedMark, from_json, to_json
from headrace.plan.node import Node
from headrace.plan.structure import Structure
from headrace.storage.parts import StoredPart
from headrace.storage.plans import Maker
from headrace.storage.shelf import Shelf, log
from headrace.storage.structures import Types

SEALED_BYTES = 1 << 20
SEALED_ROWS = 1 << 12
BATCH_BYTES = 8 << 20
BATCH_ROWS = 1 << 16
PART_BYTES = 32 << 20


class Kept(NamedTuple):
    """The first `blocks` items with the numbers of their first rows; the last `loose` of them are still small.

    `mark` is where the input continues after the last row.
    """

    items: list[Item]
    starts: list[int]
    blocks: int = 0
    rows: int = 0
    nbytes: int = 0
    mark: Marked | None = None
    loose: int = 0
    loose_bytes: int = 0


class KeptRows:
    """Items in the order they were read. A reader that reads on holds `lock`.

    The state changes by one assignment: passes read without the lock, and an interrupt may hit any line.
    """

    def __init__(self, sealed_bytes: int = SEALED_BYTES, sealed_rows: int = SEALED_ROWS) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.complete: bool = False
        self.writable = True
        self._sealed_bytes = sealed_bytes
        self._sealed_rows = sealed_rows
        self._kept = Kept([], [])
        _all_rows.add(self)

    @property
    def count(self) -> int:
        """Return how many rows are kept."""
        return self._kept.rows

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self._kept.nbytes

    @property
    def mark(self) -> Marked | None:
        """Return where the input continues after the last row."""
        return self._kept.mark

    @property
    def stored(self) -> tuple[int, Marked | None]:
        """Return how many rows are stored permanently, and where the input continues after them."""
        kept = self._kept
        return kept.rows, kept.mark

    def plan(self, node: Node) -> Node:
        """Return the plan whose rows these are: the one to continue."""
        return node

    def begin(self, writer: object) -> bool:  # noqa: ARG002
        """Return whether `writer` may add rows; if so, it calls `end` after the last."""
        return True

    def end(self, writer: object) -> None:
        """Note that `writer` adds no more, if it ever did."""

    def add(self, item: Item, mark: Marked | None = None) -> None:
        """Keep an item; `mark` is where the input continues after it."""
        kept = self._kept
        items, starts = kept.items, kept.starts
        del items[kept.blocks :], starts[kept.blocks :]  # of a call that was interrupted
        items.append(_own(item))
        starts.append(kept.rows)
        self._kept = kept = Kept(
            items,
            starts,
            len(items),
            kept.rows + item.rows,
            kept.nbytes + item.nbytes,
            mark,
            kept.loose + 1,
            kept.loose_bytes + item.nbytes,
        )
        if kept.rows - starts[-kept.loose] >= self._sealed_rows or kept.loose_bytes >= self._sealed_bytes:
            self._seal()

    def _seal(self) -> None:
        """Join the small blocks at the end into large ones, which are replayed as such."""
        kept = self._kept
        sealed = kept.blocks - kept.loose
        items, starts = kept.items[:sealed], kept.starts[:sealed]
        start = kept.starts[sealed]
        for item in _merge_runs(kept.items[sealed : kept.blocks]):
            items.append(item)
            starts.append(start)
            start += item.rows
        self._kept = kept._replace(items=items, starts=starts, blocks=len(items), loose=0, loose_bytes=0)

    def items(self) -> list[Item]:
        """Return everything in large blocks."""
        if self._kept.loose:
            self._seal()
        return self._kept.items

    def finish(self) -> None:
        """There are no more rows."""
        self.items()
        self.complete = True

    def pull(self, start: int, want: int) -> Item | None:
        """Return rows from `start` on, at most `want`, at least one; None if they have not been read."""
        kept = self._kept
        if start >= kept.rows:
            return None
        index = bisect_right(kept.starts, start, 0, kept.blocks) - 1
        offset, item = start - kept.starts[index], kept.items[index]
        return item.slice(offset, min(item.rows, offset + want))

    def after_fork(self) -> None:
        """In the child of a fork: the thread that held the lock is not here."""
        self.lock = threading.Lock()


def saved_mark(notes: object) -> Marked | None:
    """Return where the input continues, as noted in a part of a shelf."""
    return None if notes is None else SavedMark(from_json(notes))


class StoredRows:
    """Rows on a shelf, and after them those that are still to be written."""

    def __init__(self, path: Path, maker: Maker, types: Types, compression: str | None = None) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.writable: bool = True
        self._compression = compression
        self._shelf = Shelf(path, types, maker)
        self._admitted: set[Structure] = set()
        self._maker = maker
        self._writers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stored: tuple[list[StoredPart], list[int], KeptRows] = ([], [], unwritten())
        self._show()
        _all_rows.add(self)

    def _show(self) -> None:
        """Serve what the shelf has now, and nothing of what was to be written before."""
        parts = self._shelf.parts
        self._stored = (parts, [p.start for p in parts], unwritten())

    @property
    def complete(self) -> bool:
        """Whether there are no more rows than these."""
        return self._shelf.complete

    @property
    def parts(self) -> list[StoredPart]:
        """What is on the shelf."""
        return self._shelf.parts

    @property
    def count(self) -> int:
        """Return how many rows are available."""
        parts, _, fresh = self._stored
        return (parts[-1].start + parts[-1].rows if parts else 0) + fresh.count

    @property
    def mark(self) -> Marked | None:
        """Return where the input continues after the last row."""
        parts, _, fresh = self._stored
        return fresh.mark if fresh.count else saved_mark(parts[-1].notes) if parts else None

    @property
    def stored(self) -> tuple[int, Marked | None]:
        """Return how many rows are on the shelf, and where the input continues after them."""
        return self._shelf.rows, saved_mark(self._shelf.notes)

    def plan(self, node: Node) -> Node:
        """Return the plan with the seeds that the first of these rows were drawn with."""
        header = self._shelf.header
        return node if header is None else self._maker.with_stored_seeds(header["maker"])

    def look(self) -> None:
        """Another process may have written in the meantime."""
        with self.lock:
            if not self._writers and not self.complete:
                self.writable = True
                self._shelf.refresh()
                self._show()

    def begin(self, writer: object) -> bool:
        """Return whether `writer` may add rows: one process at a time does. Called under the lock."""
        if not self._writers:
            if not self.writable or not self._acquired():
                return False
            self._show()
        self._writers.add(writer)
        return True

    def _acquired(self) -> bool:
        try:
            if self._shelf.acquire():
                return True
            log.warning("%s is being written by another process; this pass reads its input itself", self._shelf.path)
        except StorageError:
            raise
        except OSError as error:
            if self._shelf.header is None:
                raise StorageError(f"{self._shelf.path} cannot be written: {error.strerror}") from error
            self._give_up(error)
        return False

    def end(self, writer: object) -> None:
        """Note that `writer` adds no more, if it ever did. After the last one the rest becomes a part of the shelf."""
        with self.lock:
            if list(self._writers) == [writer]:
                self._flush()
                self._shelf.release()
            self._writers.discard(writer)

    def add(self, item: Item, mark: Marked | None = None) -> None:
        """Keep an item; `mark` is where the input continues after it."""
        if isinstance(item, Block) and item.structure not in self._admitted:
            self._shelf.types.check(item.structure)
            self._admitted.add(item.structure)
        self._settle()
        fresh = self._stored[2]
        fresh.add(item, mark)
        if fresh.nbytes >= PART_BYTES:
            self._flush()

    def finish(self) -> None:
        """There are no more rows."""
        self._flush()
        if self.writable:
            self._attempt(self._shelf.finish)

    def _settle(self) -> None:
        """Drop pending rows that are on the shelf already, which an interrupt may leave."""
        if self._stored[0] is not self._shelf.parts:
            self._show()

    def _flush(self) -> None:
        self._settle()
        fresh = self._stored[2]
        if fresh.count and self.writable:
            self._attempt(
                lambda: self._shelf.add(
                    fresh.items(), self._compression, to_json(fresh.mark.marks()) if fresh.mark else None
                )
            )
            self._show()

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except StorageError:  # not an error of the disk: retrying would not help
            raise
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Continue the pass without storing, for example if the disk is full."""
        self.writable = False
        log.warning(
            "%s cannot be written (%s): %d rows are stored, the rest is read from the input until there is room",
            self._shelf.path, error.strerror or error, self._shelf.rows,
        )  # fmt: skip

    def pull(self, start: int, want: int) -> Item | None:
        """Return rows from `start` on, at most `want`, at least one; None if they are not here."""
        parts, starts, fresh = self._stored
        index = bisect_right(starts, start) - 1
        end = parts[-1].start + parts[-1].rows if parts else 0
        if start >= end:
            return fresh.pull(start - end, want)
        try:
            return parts[index].pull(start - starts[index], want)
        except StorageError as error:
            raise StorageError(f"{error}. Delete {self._shelf.path} to have it made again") from error

    def after_fork(self) -> None:
        """Stop writing in a forked child: the parent writes."""
        self.lock = threading.Lock()
        self._writers = weakref.WeakSet()
        self._shelf.after_fork()


def unwritten() -> KeptRows:
    """Return a buffer for rows that will be a part: in large batches, because a block never spans two."""
    return KeptRows(BATCH_BYTES, BATCH_ROWS)


def in_parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield as many items at a time as make a part, in large blocks."""
    fresh = unwritten()
    for item in items:
        fresh.add(item)
        if fresh.nbytes >= PART_BYTES:
            yield fresh.items()
            fresh = unwritten()
    if fresh.count:
        yield fresh.items()


_all_rows: weakref.WeakSet[KeptRows | StoredRows] = weakref.WeakSet()


def _after_fork() -> None:
    for rows in _all_rows:
        rows.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _own(item: Item) -> Item:
    """Return a private copy if the item shares memory."""
    if not isinstance(item, Block):
        return item
    return Block(item.structure, [owned(c) for c in item.columns], item.rows, None, item.ids)


def _merge_runs(items: list[Item]) -> list[Item]:
    runs: list[list[Item]] = []
    for item in items:
        last = runs[-1][-1] if runs else None
        if isinstance(item, Block) and isinstance(last, Block) and item.structure == last.structure:
            runs[-1].append(item)
        else:
            runs.append([item])
    return [_own(concat([b for b in run if isinstance(b, Block)])) if len(run) > 1 else run[0] for run in runs]
