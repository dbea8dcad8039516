"""Keep the elements of the first pass for the next ones."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from headrace.block import Block, Failure, Indices, Item, Mark, concat, folded, owned
from headrace.execute.context import Context, Input
from headrace.execute.stream import END, Pulled, Stream
from headrace.keys import Seed
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import Node, walk
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SEALED_BYTES = 1 << 20
SEALED_ROWS = 1 << 12


def cache(self: Dataset, *, name: str | None = None) -> Dataset:
    """Keep the elements in memory as they are read; later passes take them from there.

    What one pass left unread the next one reads on. Every pass sees the same order, shuffled or not.

    >>> calls = []
    >>> ds = hr.Dataset.range(2).map(lambda x: calls.append(int(x)) or x).cache()
    >>> list(ds) == list(ds), calls
    (True, [0, 1])
    """
    return self._then(Cache, Store(), name=name)


@dataclass(frozen=True, eq=False)
class Cache(Node):
    """The input, remembered. The rows live as long as the dataset."""

    input: Node
    store: Store = field(repr=False)

    positional = True
    outlives = True

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    def open(self, ctx: Context, mark: Mark) -> Stream:  # noqa: ARG002
        return CacheStream(self, ctx)

    def at(self, ctx: Context, indices: Indices) -> Block:
        if not self.input.pure:  # what was kept is what counts
            return CacheStream(self, ctx).at(indices)
        block = self.input.at(ctx.fixed(), indices)
        block.ids = folded(block.ids, ctx.path)
        return block

    def rows(self) -> Rows:
        """The rows kept for this plan: other seeds below make other rows."""
        seeds = [getattr(n, f.name) for n in walk(self.input) for f in fields(n)]
        return self.store.rows(tuple(s.value for s in seeds if isinstance(s, Seed)))


class Store:
    """The memory behind one `cache()`."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], Rows] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, ()  # another process fills its own

    def rows(self, seeds: tuple[int, ...]) -> Rows:
        """The rows read under these seeds."""
        return self._rows.setdefault(seeds, Rows())


class Rows:
    """Items in the order they were read. `lock` is held while somebody reads on."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.complete = False
        self.count = 0
        self.mark: Mark = None
        self._kept: tuple[list[Item], list[int]] = ([], [])  # swapped as one: passes read without the lock
        self._loose = 0
        self._loose_bytes = 0
        _all_rows.add(self)

    def add(self, item: Item, mark: Mark) -> None:
        """Keep an item; `mark` is where the input goes on after it."""
        items, starts = self._kept
        items.append(_own(item))
        starts.append(self.count)
        self.count += item.rows
        self.mark = mark
        self._loose += 1
        self._loose_bytes += item.nbytes
        if self.count - starts[-self._loose] >= SEALED_ROWS or self._loose_bytes >= SEALED_BYTES:
            self.seal()

    def seal(self) -> None:
        """Join the small blocks at the end into large ones, so that they are replayed as such."""
        old_items, old_starts = self._kept
        loose = old_items[-self._loose :]
        items, starts = old_items[: -self._loose], old_starts[: -self._loose]
        self._loose = self._loose_bytes = 0
        start = self.count - sum(item.rows for item in loose)
        for item in _merged(loose):
            items.append(item)
            starts.append(start)
            start += item.rows
        self._kept = (items, starts)

    def finish(self) -> None:
        """There are no more rows."""
        if self._loose:
            self.seal()
        self.complete = True

    def pull(self, start: int, want: int) -> Item:
        """Rows from `start` on, at most `want`, at least one; they must have been read."""
        items, starts = self._kept
        index = bisect_right(starts, start) - 1
        item = items[index]
        offset = start - starts[index]
        return item.slice(offset, min(item.rows, offset + want))


_all_rows: weakref.WeakSet[Rows] = weakref.WeakSet()


def _unlock_after_fork() -> None:
    for rows in _all_rows:  # the thread that held the lock is not in the child
        rows.lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_after_fork)


def _own(item: Item) -> Item:
    """A copy that nobody else can write to, where the item shares memory."""
    if not isinstance(item, Block):
        return item
    return Block(item.structure, [owned(c) for c in item.columns], item.rows, None, item.ids)


def _merged(items: list[Item]) -> list[Item]:
    runs: list[list[Item]] = []
    for item in items:
        last = runs[-1][-1] if runs else None
        if isinstance(item, Block) and isinstance(last, Block) and item.structure == last.structure:
            runs[-1].append(item)
        else:
            runs.append([item])
    return [_own(concat([b for b in run if isinstance(b, Block)])) if len(run) > 1 else run[0] for run in runs]


class CacheStream(Stream):
    """Reads what is kept; beyond it, the input, which is then kept."""

    def __init__(self, node: Cache, ctx: Context) -> None:
        self._node = node
        self._ctx = ctx
        self._rows = node.rows()
        self._input: Input | None = None
        self._next = 0

    def pull(self, want: int) -> Pulled:
        if not self._read_on(self._next + 1, want):
            return END
        item = self._rows.pull(self._next, want)
        self._next += item.rows
        if isinstance(item, Block):  # the same rows, but in every pass with randomness of their own
            item.ids = folded(item.ids, self._ctx.path) if self._ctx.with_ids else None
        return item

    def at(self, indices: Indices) -> Block:
        """Rows by number, read and kept as far as need be."""
        self._read_on(int(indices.max()) + 1, SEALED_ROWS)
        if self._input is not None:
            self._input.close()
            self._input = None
        blocks = []
        for number in indices.tolist():
            item = self._rows.pull(number, 1)
            if isinstance(item, Failure):
                raise item.error
            item.ids = folded(item.ids, self._ctx.path) if self._ctx.with_ids else None
            blocks.append(item)
        return concat(blocks)

    def _read_on(self, until: int, want: int) -> bool:
        """Have at least `until` rows kept; False if there are not so many."""
        rows = self._rows
        while rows.count < until and not rows.complete:
            with rows.lock:
                if rows.count >= until or rows.complete:
                    break
                if self._input is None:
                    self._input = self._ctx.fixed().open(self._node.input, rows.mark, with_ids=True)
                behind = rows.count - self._input.ordinal
                if behind:  # another pass has read on in the meantime, and made these rows
                    self._input.skip(behind, replay=True)
                item = self._input.pull(want)
                if item is END:
                    rows.finish()
                    self._input.close()
                    self._input = None
                else:
                    rows.add(item, self._input.mark())
        return rows.count >= until

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002 - rows passed over are kept too
        self._read_on(self._next + count, count)
        done = min(count, max(0, self._rows.count - self._next))
        self._next += done
        return done
