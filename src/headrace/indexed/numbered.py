"""Sources whose rows are read by number: their whole state is a counter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.columns.block import Block, Failure, Item
from headrace.core.override import override
from headrace.errors import ElementError
from headrace.execute.stream import END, Made, RowRange, Stream
from headrace.plan.cardinality import ENDLESS, Cardinality
from headrace.plan.node import Node
from headrace.plan.spec import Spec


@dataclass(frozen=True, eq=False)
class Numbered(Node):
    """A source that can give any run of its rows."""

    numbered = True
    indexable = True


@dataclass(frozen=True, eq=False)
class Held(Numbered):
    """Rows in memory."""

    elements: Spec
    rows: int

    brief = True  # rows are views of what is there

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)


class NumberedStream(Stream):
    """Read rows by number; `read(start, stop)` returns those of a run, or as many as are contiguous."""

    def __init__(self, node: Node, read: Callable[[int, int], Block]) -> None:
        self._read = read
        self._rows = int(node.cardinality) if node.cardinality.known else ENDLESS
        self._next = 0

    def pull(self, want: int) -> Made:
        start = self._next
        if start >= self._rows:
            return END
        item = self._item(start, min(self._rows, start + want))
        self._next = start + item.rows
        return item

    def _item(self, start: int, stop: int) -> Item:
        """Return some of these rows; if one of them fails, those before it, or its failure."""
        try:
            return self._read(start, stop)
        except ElementError as error:
            return Failure(error) if stop - start == 1 else self._item(start, (start + stop) // 2)

    def halt(self) -> RowRange:
        rest = RowRange(self._next, self._rows)
        self._rows = self._next
        return rest

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        start = self._next
        self._next = min(self._rows, start + count)
        return self._next - start
