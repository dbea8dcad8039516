"""The base of nodes that replace several operations of the plan as written, and do their work at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from headrace.columns.block import Block, Failure, Item
from headrace.core.types import Nested
from headrace.execute.context import Context
from headrace.execute.origin import Origin
from headrace.execute.registry import opening
from headrace.execute.stream import Stream
from headrace.ops.map import Map, map_rows
from headrace.ops.shared.calls import place_results, rows_as_arguments
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Combined(Node):
    """Several operations on one input, in order. The node replaces the last one, and has the same rows and marks."""

    input: Node
    operations: tuple[Any, ...]

    @property
    def combines(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.operations

    @property
    def spec(self) -> Spec:
        spec: Spec = self.combines[-1].spec
        return spec

    @property
    def cardinality(self) -> Cardinality:
        count: Cardinality = self.combines[-1].cardinality
        return count

    @property
    def operation(self) -> str:
        operation: str = self.combines[-1].operation
        return operation

    @cached_property
    def pure(self) -> bool:
        return self.input.pure and all(part.traced for part in self.combines)

    @cached_property
    def as_written(self) -> Node:
        """Return the operations one by one, each with the previous one as its input."""
        node = self.input
        for part in self.combines:
            node = part.with_inputs((node,))
        return node

    def label(self, *, for_state: bool = False) -> str:
        return ".".join(part.label(for_state=for_state) for part in self.combines)

    def remark(self) -> str | None:
        return "; ".join(filter(None, (part.remark() for part in self.combines)))


def open_as_written(node: Combined, ctx: Context, at: At) -> Stream | None:
    """Open the parts one by one if a state contains them: it was taken while they ran separately. Else return None."""
    if at.own is None and not any(ctx.prepared.number(part) in at.inputs for part in node.combines[:-1]):
        return None
    written = node.as_written
    return opening(type(written)).open(written, ctx, at)


def apply_map(part: Map, ctx: Context, node: Combined, block: Block) -> list[Item]:
    """Return what one of the parts makes of a block, errors as it would have them by itself."""
    items = place_results(part, partial(map_rows, part), ctx.with_ids, block)
    for item in items:
        if isinstance(item, Failure) and item.error.find_origin is None:
            origin = Origin(node.input, ctx, item.mark)
            item.error.find_origin = origin.find
            item.error.run_again = partial(origin.replay, partial(_call_up_to, part, node))
    return items


def _call_up_to(part: Map, node: Combined, row: Block) -> Nested:
    """What one of the parts makes of a row that the maps before it have made; nothing is caught."""
    arguments = next(rows_as_arguments(row))
    for each in node.combines:
        if not isinstance(each, Map):
            continue
        value = each.fn(*arguments)
        if each is part:
            return value
        arguments = value if type(value) is tuple else (value,)
    raise AssertionError("the part is one of those that are combined")
