"""Which row goes into which file: a matter of its number alone, so that the same rows give the same files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.block import Block
from headrace.io.writer import plan_shards
from headrace.plan.cardinality import Cardinality

PROBED = 64
"""So many rows tell how large one is."""
SHARD_BYTES = 128 << 20
"""The size of a file where nobody can tell how many there will be."""


class Dealing(NamedTuple):
    """`shards` files, None if that is not known yet; `rows` rows each, 0 where they are dealt out in turn."""

    shards: int | None
    rows: int
    total: int | None


def dealing(shards: int | None, count: Cardinality, row_bytes: float) -> Dealing:
    """Runs of rows where it is known how many there are, or files may be as many as it takes; else one row each."""
    if not count.known:
        return Dealing(shards, 0 if shards else max(1, int(SHARD_BYTES / row_bytes)), None)
    if shards is None:
        shards = min(plan_shards(int(row_bytes * count)).shards, max(1, count))
    return Dealing(shards, -(-count // shards), int(count))


class RowRuns:
    """The rows of a pass, taken in runs of about so many bytes, or of an exact number of rows."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._ready: deque[Block] = deque()

    def take(self, most: int, most_bytes: int) -> list[Block]:
        """The next rows; none at the end."""
        taken: list[Block] = []
        while most > 0 and most_bytes > 0:
            block = self._ready.popleft() if self._ready else next(self._blocks, None)
            if block is None:
                break
            if block.rows > most:
                self._ready.appendleft(block.slice(most, block.rows))
                block = block.slice(0, most)
            most -= block.rows
            most_bytes -= block.nbytes
            taken.append(block)
        return taken

    def put_back(self, blocks: list[Block]) -> None:
        """Have these first."""
        self._ready.extendleft(reversed(blocks))


def dealt(rows: RowRuns, how: Dealing, run_bytes: int) -> Iterator[tuple[int, list[Block]]]:
    """Runs of rows, each with the number of its file."""
    number = 0
    while True:
        most = 1 << 60
        if how.rows:
            shard, most = _contiguous(number, how)
        blocks = rows.take(most, run_bytes if how.rows else run_bytes * (how.shards or 1))
        if not blocks:
            return
        if how.rows:
            yield shard, blocks
        else:
            yield from _in_turn(blocks, number, how.shards or 1)
        number += sum(block.rows for block in blocks)


def _contiguous(number: int, how: Dealing) -> tuple[int, int]:
    """The file of this row, and how many rows from it on go there. Of two files none has two rows more."""
    if how.shards is None or how.total is None:
        return number // how.rows, how.rows - number % how.rows
    shard = ((number + 1) * how.shards - 1) // how.total
    return shard, (shard + 1) * how.total // how.shards - number


def _in_turn(blocks: list[Block], number: int, shards: int) -> Iterator[tuple[int, list[Block]]]:
    parts: list[list[Block]] = [[] for _ in range(shards)]
    for block in blocks:
        for shard in range(shards):
            chosen = np.arange((shard - number) % shards, block.rows, shards)
            if len(chosen):
                parts[shard].append(block.take(chosen))
        number += block.rows
    yield from ((shard, part) for shard, part in enumerate(parts) if part)
