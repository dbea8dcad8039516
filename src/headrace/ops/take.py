"""The first elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.execute.context import OBJECTS, Context
from headrace.execute.registry import fetches, opens
from headrace.execute.row_by_row import IsLast
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.plan.capabilities import is_endless
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def take(self: Dataset[Element], count: int, name: str | None = None) -> Dataset[Element]:
    """Keep at most the first `count` elements; all of them if `count` is negative.

    Args:
        count: Largest number of elements; -1 takes all.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(10).take(2))
    [np.int64(0), np.int64(1)]
    """
    return self._then(Take, max(-1, integer("count", count)), name=name)


@dataclass(frozen=True, eq=False)
class Take(MovedRows):
    """Rows 0 to `count`, -1 for all."""

    count: int

    takes = 1
    follows_device = True

    @property
    def endless(self) -> bool:
        """Whether a pass never ends."""
        return self.count < 0 and is_endless(self.input)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.count < 0 else self.input.cardinality.at_most(self.count)


@fetches(Take)
def fetch_taken(node: Take, ctx: Context, indices: Indices) -> Block:
    """Return the input's rows."""
    return ctx.fetch(node.input, indices)


@opens(Take)
class TakeStream(Stream):
    """Request no more than is left, computed from the input's ordinal."""

    def __init__(self, node: Take, ctx: Context, at: At) -> None:
        self._input = ctx.open(node.input, at.inputs, any_order=True, form=OBJECTS)
        self._stop = node.count if node.count >= 0 else None

    def _at_most(self, rows: int) -> int:
        return rows if self._stop is None else min(rows, self._stop - self._input.ordinal)

    def pull(self, want: int) -> Made:
        allowed = self._at_most(want)
        return self._input.pull(allowed) if allowed > 0 else END

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        allowed = self._at_most(want)
        return self._input.pull_until(allowed, is_last) if allowed > 0 else END

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(self._at_most(count), replay=replay)
