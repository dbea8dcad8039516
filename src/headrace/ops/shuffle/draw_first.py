"""A shuffle after a threaded map: draw rows first, then map them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.columns.lazy_block import RecordBlock
from headrace.columns.refs import CorruptRecordsError
from headrace.execute.context import Context
from headrace.execute.origin import Origin, attach_origin
from headrace.execute.registry import fetches, opens
from headrace.execute.stages.parallel import work_in_parallel
from headrace.execute.stages.workers import Task
from headrace.execute.stream import Stream
from headrace.ops.map import Map, map_rows
from headrace.ops.shared.calls import place_results
from headrace.ops.shared.combined import Combined
from headrace.plan.marks import At
from headrace.plan.node import Ahead, Node


@dataclass(frozen=True, eq=False)
class DrawFirst(Combined):
    """A map and a shuffle in the opposite order: its input is the shuffle of the rows that the map gets.

    It replaces the map, whose rows have the marks of its input's rows. The rows are those of the shuffle.
    """

    one_to_one = True
    ahead = Ahead.RUNS

    def label(self, *, for_state: bool = False) -> str:
        label: str = self.combines[0].label(for_state=for_state)
        return label

    @cached_property
    def pure(self) -> bool:
        return self.input.pure

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @cached_property
    def as_written(self) -> Node:
        """Return the map, and the shuffle after it."""
        return self.input.with_inputs((self.combines[0].with_inputs(self.input.inputs),))


@opens(DrawFirst)
def open_draw_first(node: DrawFirst, ctx: Context, at: At) -> Stream:
    """Return rows that are drawn, through the function, on threads."""
    first: Map = node.combines[0]
    task = Task(partial(map_drawn, node, ctx), one_by_one=False, unseen=True, written=node.as_written)
    return work_in_parallel(ctx, node.input, at, task, width=first.num_parallel_calls or 1, ordered=True)


@fetches(DrawFirst)
def fetch_drawn(node: DrawFirst, ctx: Context, indices: Indices) -> Block:
    """Fetch rows as written: an error has the number that its row has there."""
    return ctx.fetch(node.as_written, indices)


def map_drawn(node: DrawFirst, ctx: Context, item: Item) -> list[Item]:
    """Map rows. If it is no longer known which row failed, they must be made as written."""
    if not isinstance(item, Block):
        return [item]
    first: Map = node.combines[0]
    numbers = item.numbers if isinstance(item, RecordBlock) else None
    items = place_results(first, partial(map_rows, first), ctx.with_ids, item, numbers)
    done = 0
    for made in items:
        if isinstance(made, Failure):
            if numbers is None:
                raise CorruptRecordsError
            attach_origin(made.error, Origin(node.input.inputs[0], ctx, int(numbers[done])), first)
        done += made.rows
    return items
