"""All but the first elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.execute.context import OBJECTS, Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def skip(self: Dataset[Element], count: int, name: str | None = None) -> Dataset[Element]:
    """Leave out the first `count` elements; all of them if `count` is negative.

    Args:
        count: Number of elements to leave out; -1 leaves out all.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(4).skip(2))
    [np.int64(2), np.int64(3)]
    """
    return self._then(Skip, max(-1, integer("count", count)), name=name)


@dataclass(frozen=True, eq=False)
class Skip(MovedRows):
    """Rows from `count` on, -1 for none."""

    count: int

    takes = 1

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(0) if self.count < 0 else self.input.cardinality.less(self.count)


@fetches(Skip)
def fetch_after(node: Skip, ctx: Context, indices: Indices) -> Block:
    """Return rows further on."""
    return ctx.fetch(node.input, indices + node.count)


@opens(Skip)
class SkipStream(Stream):
    """Skip the first rows, then pass the input on."""

    def __init__(self, node: Skip, ctx: Context, at: At) -> None:
        self._nothing = node.count < 0
        self._count = node.count
        self._input = ctx.open(node.input, at.inputs, form=OBJECTS)

    def _ready(self) -> bool:
        front = self._count - self._input.ordinal
        return not self._nothing and (front <= 0 or self._input.skip(front) == front)

    def pull(self, want: int) -> Made:
        return self._input.pull(want) if self._ready() else END

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay) if self._ready() else 0
