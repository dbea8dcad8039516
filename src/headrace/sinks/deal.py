"""Assign rows to files by their numbers alone, so that the same rows give the same files.

The boundaries of runs that are encoded together also depend only on the rows, never on their blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, RaggedText, Stacked, Varied, in_own_kinds, values
from headrace.columns.arrow_text import parts
from headrace.columns.block import Block
from headrace.columns.text import holds_text
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component
from headrace.io.writer import plan_shards
from headrace.ops.shared.arguments import positive
from headrace.plan.cardinality import Cardinality

SAMPLED_ROWS = 64
"""How many rows determine the size estimate."""
SHARD_BYTES = 128 << 20
"""The size of a file if the number of files is unknown."""
ROW_OVERHEAD_BYTES = 8
"""Bytes counted per row besides its values."""


class Dealing(NamedTuple):
    """`shards` files, None if not known yet; `rows` rows each, 0 if they are dealt out in turn."""

    shards: int | None
    rows: int
    total: int | None

    def bounds(self, count: int) -> list[tuple[int, int, int]]:
        """Return which of `count` rows each file has: the first, how many, and how far apart."""
        if self.rows and self.shards and self.total:
            ends = [i * self.total // self.shards for i in range(self.shards + 1)]
            return [(start, stop - start, 1) for start, stop in pairwise(ends)]
        if self.rows:
            shards = max(1, -(-count // self.rows))
            return [(i * self.rows, min(self.rows, count - i * self.rows), 1) for i in range(shards)]
        shards = self.shards or 1
        return [(i, max(0, -(-(count - i) // shards)), shards) for i in range(shards)]


class Sharding(NamedTuple):
    """How many files the user wants: a number, or as many as `plan_shards` proposes for `servers` and `shard_bytes`."""

    shards: int | None = None
    servers: int = 1
    shard_bytes: int | None = None

    @classmethod
    def of(cls, shards: int | Literal["auto"] | None, servers: int | None, shard_bytes: int | None) -> Sharding:
        """Of the arguments of a writer."""
        if shards in (None, "auto"):
            most = None if shard_bytes is None else positive("shard_bytes", shard_bytes)
            return cls(None, 1 if servers is None else positive("servers", servers), most)
        if servers is not None or shard_bytes is not None:
            raise ValueError(
                f'shards={shards} says how many files there are: write shards="auto" if servers= and shard_bytes= are '
                "to say it"
            )
        return cls(positive("shards", shards))


def dealing(wanted: Sharding, count: Cardinality, row_bytes: float) -> Dealing:
    """Choose runs of rows if their number is known, or the number of files is free; else deal them out one by one."""
    shards = wanted.shards
    if not count.known:
        file_bytes = wanted.shard_bytes or SHARD_BYTES
        return Dealing(shards, 0 if shards else max(1, int(file_bytes / row_bytes)), None)
    if shards is None:
        planned = plan_shards(int(row_bytes * count), wanted.servers, wanted.shard_bytes)
        shards = min(planned.shards, max(1, count))
    return Dealing(shards, -(-count // shards), int(count))


class FirstRows:
    """The rows of a pass, the first of which can be peeked at."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._ready: deque[Block] = deque()

    def peek(self, most: int) -> list[Block]:
        """Return the first `most` rows, or all there are; they come again."""
        taken: list[Block] = []
        for block in self._blocks:
            taken.append(block.slice(0, min(most, block.rows)))
            self._ready.append(block)
            most -= taken[-1].rows
            if most <= 0:
                break
        return taken

    def __iter__(self) -> Iterator[Block]:
        while self._ready:
            yield self._ready.popleft()
        yield from self._blocks


class RunCutter:
    """Cut the rows of one file into runs of about this many bytes that are encoded together."""

    def __init__(self, run_bytes: int) -> None:
        self._run_bytes = run_bytes
        self._blocks: list[Block] = []
        self._left = run_bytes

    def add(self, block: Block) -> Iterator[list[Block]]:
        """Yield the runs that are whole with these rows."""
        sizes = row_sizes(block)
        ends = np.cumsum(sizes) if isinstance(sizes, np.ndarray) else None
        start = 0
        while start < block.rows:
            if ends is None:
                stop = start + -(-self._left // int(sizes))
                taken = int(sizes) * (block.rows - start)
            else:
                before = int(ends[start - 1]) if start else 0
                stop = int(np.searchsorted(ends, before + self._left)) + 1
                taken = int(ends[-1]) - before
            self._blocks.append(block.slice(start, min(stop, block.rows)))
            if stop <= block.rows:
                yield from self.end()
            else:
                self._left -= taken
            start = stop

    def end(self) -> Iterator[list[Block]]:
        """Yield what is left, as the last run."""
        if self._blocks:
            blocks, self._blocks = self._blocks, []
            yield blocks
        self._left = self._run_bytes


def cut_runs(blocks: Iterable[Block], run_bytes: int) -> Iterator[list[Block]]:
    """Yield all rows of one file in such runs."""
    cutter = RunCutter(run_bytes)
    for block in blocks:
        yield from cutter.add(block)
    yield from cutter.end()


def dealt(rows: Iterator[Block], how: Dealing, run_bytes: int) -> Iterator[tuple[int, list[Block]]]:
    """Runs of rows, each with the number of its file."""
    if how.rows:
        yield from _contiguous(rows, how, run_bytes)
        return
    cutters = [RunCutter(run_bytes) for _ in range(how.shards or 1)]
    number = 0
    for block in rows:
        for shard, cutter in enumerate(cutters):
            chosen = np.arange((shard - number) % len(cutters), block.rows, len(cutters))
            if len(chosen):
                yield from ((shard, run) for run in cutter.add(block.take(chosen)))
        number += block.rows
    for shard, cutter in enumerate(cutters):
        yield from ((shard, run) for run in cutter.end())


def _contiguous(rows: Iterator[Block], how: Dealing, run_bytes: int) -> Iterator[tuple[int, list[Block]]]:
    cutter, number, shard = RunCutter(run_bytes), 0, 0
    for block in rows:
        start = 0
        while start < block.rows:
            shard, most = _file_of(number, how)
            part = block.slice(start, min(block.rows, start + most))
            yield from ((shard, run) for run in cutter.add(part))
            start += part.rows
            number += part.rows
            if part.rows == most:
                yield from ((shard, run) for run in cutter.end())
    yield from ((shard, run) for run in cutter.end())


def _file_of(number: int, how: Dealing) -> tuple[int, int]:
    """Return the file of this row, and how many rows from it on go there. File sizes differ by at most one row."""
    if how.shards is None or how.total is None:
        return number // how.rows, how.rows - number % how.rows
    shard = ((number + 1) * how.shards - 1) // how.total
    return shard, (shard + 1) * how.total // how.shards - number


def row_sizes(block: Block) -> int | NDArray[np.int64]:
    """Return the bytes of each row's values, or one number if all are alike, independent of the column layout."""
    total: Component = ROW_OVERHEAD_BYTES
    for column in block.columns:
        total = total + _sizes(in_own_kinds(column))
    return total if isinstance(total, int) else np.asarray(total, np.int64)


def _sizes(column: Column) -> Column:
    if isinstance(column, np.ndarray) and column.dtype != object:
        return int(column.dtype.itemsize * np.prod(column.shape[1:], dtype=np.int64))
    if isinstance(column, Varied) and column.dtype != object:
        return np.asarray(column.sizes, np.int64) * column.dtype.itemsize
    if isinstance(column, Ragged):
        return _sums(_sizes(column.values), column.offsets)
    if isinstance(column, RaggedText):
        return _sums(_sizes(column.inner), column.offsets)
    if isinstance(column, Stacked):
        return _sizes(column.inner).reshape(len(column), -1).sum(axis=1)
    if not isinstance(column, list | np.ndarray | Varied) and holds_text(column):
        return np.diff(parts(column)[1])
    return np.array([_object_size(value) for value in values(column)], np.int64)


def _sums(sizes: Array | int, offsets: object) -> NDArray[np.int64]:
    cuts = np.asarray(offsets, np.int64)
    if isinstance(sizes, int):
        return np.diff(cuts) * sizes
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return np.diff(ends[cuts])


def _object_size(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, bytes):
        return len(value)
    while isinstance(value, Ragged):
        value = value.values
    if isinstance(value, np.ndarray) and value.dtype == object:
        return sum(map(_object_size, value.ravel().tolist()))
    return int(getattr(value, "nbytes", 8))
