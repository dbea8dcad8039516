"""Apply several functions to the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.core.types import Nested
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stages.unordered import Unordered
from headrace.execute.stream import Stream
from headrace.ops.map import map_one
from headrace.ops.shared.calls import CallStream, call_each_row
from headrace.ops.shared.combined import Combined, apply_map, open_as_written
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.trace.function import Function
from headrace.trace.graph import Graph


@dataclass(frozen=True, eq=False)
class MapChain(Combined):
    """Apply all functions to every row; a row that fails in one of them goes no further."""

    one_to_one = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def maps(self) -> Any:
        """The graph of the last function."""
        return self.combines[-1].maps

    @cached_property
    def function(self) -> Function:
        """All of them as one."""
        plain = all(part.mode == "auto" and part.signature is None for part in self.combines)
        first, *others = [part.fn for part in self.combines]
        return Function(first, "auto" if plain else "eager", then=tuple(others))

    def with_inputs(self, inputs: tuple[Node, ...]) -> Self:
        made = super().with_inputs(inputs)
        vars(made)["function"] = self.function  # whose graphs are known: each cut of a scan has a copy of this node
        return made

    def remark(self) -> str | None:
        graph = self.function.graph(self.input.spec)
        return graph.summary if isinstance(graph, Graph) else super().remark()

    def call(self, *args: object) -> Nested:
        """Return the result of all functions for one row."""
        *others, last = self.combines
        for part in others:
            structure, leaves = map_one(part, *args)
            element = structure.pack(leaves)
            args = element if structure.unpacks else (element,)
        return last.fn(*args)


@opens(MapChain, own=Unordered)
def open_map_chain(node: MapChain, ctx: Context, at: At) -> Stream:
    """Return rows through all functions, a block at a time."""
    apply = partial(apply_chain, node, ctx)
    return open_as_written(node, ctx, at) or CallStream(ctx, node.input, at, apply, unseen=True)


def apply_chain(node: MapChain, ctx: Context, block: Block) -> list[Item]:
    """Return what the functions make of a block: as one graph, or else one after another."""
    found = node.function.columns(block, partial(call_each_row, node.call, keep=True))
    if found is not None:
        return [Block(found[0].structure, found[1], block.rows, block.mark, block.ids if ctx.with_ids else None)]
    items: list[Item] = [block]
    for part in node.combines:
        made: list[Item] = []
        for item in items:
            made += apply_map(part, ctx, node, item) if isinstance(item, Block) else [item]
        items = made
    return items


@fetches(MapChain)
def fetch_map_chain(node: MapChain, ctx: Context, indices: Indices) -> Block:
    """Return what the functions make of these rows."""
    return ctx.fetch(node.as_written, indices)
