"""A uniform shuffle of everything, by row numbers: `shuffle()` without a buffer size."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.core import keys
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.ops.shared.gather import NumberStream, RowsByNumber
from headrace.ops.shuffle.order import UniformOrder, draw_key, numbers_at
from headrace.plan.access import is_coarse
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING


@dataclass(frozen=True, eq=False)
class Permute(RowsByNumber):
    """Row i is row p(i) of the input, p a permutation given by the key."""

    seed: keys.Seed
    reshuffle: bool = True
    window: int | None = field(default=None, metadata=TUNING)

    moves_rows = True

    @property
    def operation(self) -> str:
        return "shuffle"

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def in_large_lots(self) -> bool:
        return self.window is not None or is_coarse(self.input)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


@opens(Permute)
def open_permute(node: Permute, ctx: Context, _at: At) -> Stream:
    """Return the rows by number."""
    order = UniformOrder(draw_key(node, ctx), int(node.cardinality))
    return NumberStream(
        ctx,
        node.input,
        order.count,
        order,
        lot=node.window,
        scattered=is_coarse(node.input),
        distinct=True,
        read_to_end=node.input.has_extra_failures,
    )


@fetches(Permute)
def fetch_permute(node: Permute, ctx: Context, indices: Indices) -> Block:
    """Return rows by their new numbers."""
    return ctx.fetch(node.input, numbers_at(draw_key(node, ctx), int(node.cardinality), indices))
