"""The first elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.block import Block, Indices, Mark
from headrace.execute.context import Context
from headrace.execute.stream import END, Pulled, Stream
from headrace.ops.arguments import integer
from headrace.ops.passing import Moving
from headrace.plan.cardinality import Cardinality

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def take(self: Dataset, count: int, name: str | None = None) -> Dataset:
    """At most the first `count` elements; all of them if `count` is negative.

    >>> list(hr.Dataset.range(10).take(2))
    [np.int64(0), np.int64(1)]
    """
    return self._then(Take, max(-1, integer("count", count)), name=name)


@dataclass(frozen=True, eq=False)
class Take(Moving):
    """Rows 0 to `count`, -1 for all."""

    count: int

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.count < 0 else self.input.cardinality.at_most(self.count)

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return TakeStream(self, ctx, mark)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return self.input.at(ctx, indices)


class TakeStream(Stream):
    """Asks for no more than is left: the input's ordinal tells how much that is."""

    def __init__(self, node: Take, ctx: Context, mark: Mark) -> None:
        self._input = ctx.open(node.input, mark, any_order=True)
        self._stop = node.count if node.count >= 0 else None

    def _at_most(self, rows: int) -> int:
        return rows if self._stop is None else min(rows, self._stop - self._input.ordinal)

    def pull(self, want: int) -> Pulled:
        allowed = self._at_most(want)
        return self._input.pull(allowed) if allowed > 0 else END

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(self._at_most(count), replay=replay)
