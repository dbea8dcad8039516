"""A filter that decides by what a map leaves as it is: the map is spared the rows that go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from headrace.block import Block, Item
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Stream
from headrace.ops.calls import single
from headrace.ops.combined import Combined, apply_map, open_as_written
from headrace.ops.filter import FilterStream, keep_rows
from headrace.plan.marks import At
from headrace.trace.function import Function
from headrace.trace.graph import Graph


@dataclass(frozen=True, eq=False)
class FilterFirst(Combined):
    """A map, which cannot fail, and a filter, which looks at nothing that the map makes."""

    @property
    def leading(self) -> int | None:
        size: int | None = self.combines[-1].leading
        return size


@opens(FilterFirst)
def open_filter_first(node: FilterFirst, ctx: Context, at: At) -> Stream:
    """Rows that stay, and only these through the function."""
    return open_as_written(node, ctx, at) or FilterStream(node, ctx, at, partial(keep_and_map, node, ctx))


def keep_and_map(node: FilterFirst, ctx: Context, block: Block) -> list[Item]:
    """What the function makes of the rows that stay."""
    first, filter = node.combines
    stays = decide_early(first.function, filter.function, block)
    if stays is None:
        items = apply_map(first, ctx, node, block)
        return [kept for item in items for kept in (keep_rows(filter, item) if isinstance(item, Block) else [item])]
    if not stays.any():
        return []
    return apply_map(first, ctx, node, block if stays.all() else block.take(np.flatnonzero(stays)))


def decide_early(first: Function, filter: Function, block: Block) -> np.ndarray[Any, Any] | None:
    """Which rows stay, before the first function is called; None where that is not to be said.

    That is once both are seen to do on blocks what they do on rows.
    """
    graph = first.settled_graph(first.spec_of(block))
    decides = None if graph is None else filter.settled_graph(graph.spec)
    if graph is None or decides is None or not graph.infallible or not can_go_first(decides, graph):
        return None
    sources = enumerate(passed_on(graph))
    columns = [block.columns[source] if i in decides.reads else None for i, source in sources]
    try:
        return single((decides, decides.run(columns, block.rows)), "b")
    except Exception:  # of some row: calling it on each, after the map, finds out which
        return None


def passed_on(graph: Graph) -> list[int]:
    """For each component of what a function gives, which one of its argument it is; -1 where it is another."""
    return [o if isinstance(o, int) and o < graph.inputs else -1 for o in graph.outputs]


def can_go_first(decides: Graph, graph: Graph) -> bool:
    """Whether a predicate can be asked before a function that cannot fail: it looks at nothing that is made there."""
    known = passed_on(graph)
    plain = not (graph.sizes or decides.sizes or graph.unbatched)
    return plain and all(known[i] >= 0 for i in decides.reads)
