"""Plans that are ready to run, and the number of each node in marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from headrace.core.types import Reduced
from headrace.plan.node import Node, rebuild, walk


@dataclass(frozen=True)
class Prepared:
    """A plan that can be run, and the numbers that its nodes have in marks and states.

    A node that leaves a trace in states has as its number the line it has in the description of the plan as written.
    One that was put into the plan in place of another has the number of that one.
    """

    plan: Node
    _numbers: dict[int, int] = field(repr=False)
    _written: Node = field(repr=False)
    """Numbers are keyed by node identity, so the nodes must stay alive."""

    @classmethod
    def of(cls, plan: Node, optimise: Callable[[Node], Node] | None = None) -> Prepared:
        """Number the plan and, with an optimizer, optimize it."""
        if not plan.inputs:  # as for most children, of which there may be many
            return cls(plan if optimise is None else optimise(plan), {id(plan): 0}, plan)
        nodes = list(walk(plan))
        if len({id(node) for node in nodes}) < len(nodes):  # one that stands in two places gets a number in each
            plan = rebuild(plan, replace)
            nodes = list(walk(plan))
        numbers = {id(node): number for number, node in enumerate(n for n in nodes if not n.transparent)}
        return cls(plan if optimise is None else optimise(plan), numbers, plan)

    def number(self, node: Node) -> int:
        """Return the number of the node's marks; negative if it has none."""
        stand_in: Node | None = node
        while stand_in is not None:
            number = self._numbers.get(id(stand_in))
            if number is not None:
                return number
            stand_in = stand_in.stands_for
        return -1

    def as_written(self, node: Node) -> Node:
        """Return the node of the plan as written that this one stands for: with inputs that no rule has touched."""
        stand_in: Node | None = node
        while stand_in is not None and id(stand_in) not in self._numbers:
            stand_in = stand_in.stands_for
        return node if stand_in is None else stand_in

    def cut_out(self, node: Node) -> Prepared:
        """Return a part of the plan by itself, with the same numbers."""
        numbers = [self.number(n) for n in _all_nodes(node)]
        return _of_numbers(rebuild(node, lambda n: replace(n, stands_for=None)), numbers)

    def __reduce__(self) -> Reduced:
        part = self.cut_out(self.plan)
        return _of_numbers, (part.plan, [part.number(n) for n in _all_nodes(part.plan)])


def _all_nodes(plan: Node) -> Iterator[Node]:
    """Yield the nodes of a plan, and those whose work they do."""
    for node in walk(plan):
        yield from node.combines
        yield node


def _of_numbers(plan: Node, numbers: list[int]) -> Prepared:
    return Prepared(plan, {id(node): number for node, number in zip(_all_nodes(plan), numbers, strict=True)}, plan)
