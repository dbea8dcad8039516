"""A filter that uses only components that a map leaves unchanged: it runs before the map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from headrace.columns.block import Block, Item
from headrace.core.types import Array
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Stream
from headrace.ops.filter import FilterStream, keep_rows
from headrace.ops.shared.calls import single
from headrace.ops.shared.combined import Combined, apply_map, open_as_written
from headrace.plan.marks import At
from headrace.trace.function import Function
from headrace.trace.graph import Graph


@dataclass(frozen=True, eq=False)
class FilterFirst(Combined):
    """A map that cannot fail, and a filter that uses no result of the map."""

    @property
    def leading(self) -> int | None:
        size: int | None = self.combines[-1].leading
        return size


@opens(FilterFirst)
def open_filter_first(node: FilterFirst, ctx: Context, at: At) -> Stream:
    """Return rows that stay, and only these through the function."""
    return open_as_written(node, ctx, at) or FilterStream(node, ctx, at, partial(keep_and_map, node, ctx))


def keep_and_map(node: FilterFirst, ctx: Context, block: Block) -> list[Item]:
    """Return what the function makes of the rows that stay."""
    first, filter = node.combines
    stays = decide_early(first.function, filter.function, block)
    if stays is None:
        items = apply_map(first, ctx, node, block)
        return [kept for item in items for kept in (keep_rows(filter, item) if isinstance(item, Block) else [item])]
    if not stays.any():
        return []
    return apply_map(first, ctx, node, block if stays.all() else block.take(np.flatnonzero(stays)))


def decide_early(first: Function, filter: Function, block: Block) -> Array | None:
    """Decide which rows stay before the first function is called; None if that is impossible.

    It is possible once both functions are verified to give the same results on blocks and on rows.
    """
    graph = first.settled_graph(first.spec_of(block))
    decides = None if graph is None else filter.settled_graph(graph.spec)
    if graph is None or decides is None or not graph.infallible or not can_go_first(decides, graph):
        return None
    sources = enumerate(passed_on(graph))
    columns = [block.columns[source] if i in decides.reads else None for i, source in sources]
    try:
        return single((decides, decides.run(columns, block.rows)), "b")
    except Exception:  # some row failed: calling the predicate on each row, after the map, finds which
        return None


def passed_on(graph: Graph) -> list[int]:
    """Return for each component of a function's result which component of its argument it is; -1 if none."""
    return [o if isinstance(o, int) and o < graph.inputs else -1 for o in graph.outputs]


def can_go_first(decides: Graph, graph: Graph) -> bool:
    """Return whether a predicate can be asked before a function that cannot fail: it looks at nothing that is made
    there.
    """
    known = passed_on(graph)
    plain = not (graph.sizes or decides.sizes or graph.unbatched)
    return plain and all(known[i] >= 0 for i in decides.reads)
