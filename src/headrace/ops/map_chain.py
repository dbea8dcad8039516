"""Functions one after another on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.block import Block, Indices, Item
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.execute.unordered import Unordered
from headrace.ops.calls import CallStream
from headrace.ops.combined import Combined, apply_map, open_as_written
from headrace.plan.marks import At


@dataclass(frozen=True, eq=False)
class MapChain(Combined):
    """Every row through all functions; a row that fails in one of them goes no further."""

    one_to_one = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def maps(self) -> Any:
        return self.combines[-1].maps


@opens(MapChain, own=Unordered)
def open_map_chain(node: MapChain, ctx: Context, at: At) -> Stream:
    """Rows through all functions, a block at a time."""

    def apply(block: Block) -> list[Item]:
        items: list[Item] = [block]
        for part in node.combines:
            made: list[Item] = []
            for item in items:
                made += apply_map(part, ctx, node, item) if isinstance(item, Block) else [item]
            items = made
        return items

    return open_as_written(node, ctx, at) or CallStream(ctx, node.input, at, apply, unseen=True)


@fetches(MapChain)
def fetch_map_chain(node: MapChain, ctx: Context, indices: Indices) -> Block:
    """What the functions make of these rows."""
    return ctx.fetch(node.as_written, indices)
