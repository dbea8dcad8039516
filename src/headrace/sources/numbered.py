"""Sources whose rows are found by number: a counter is all the state there is."""

from __future__ import annotations

from typing import Protocol

from headrace.block import Block
from headrace.execute.context import Context
from headrace.execute.stream import END, Pulled, Stream


class Numbered(Protocol):
    """A node that can give any run of its rows."""

    def between(self, ctx: Context, start: int, stop: int) -> Block:
        """Rows from `start` to `stop`, or as many of them as lie together."""
        ...


class NumberedStream(Stream):
    """Rows 0 to `rows` of a numbered source."""

    def __init__(self, node: Numbered, ctx: Context, rows: int) -> None:
        self._node = node
        self._ctx = ctx
        self._rows = rows
        self._next = 0

    def pull(self, want: int) -> Pulled:
        start = self._next
        if start >= self._rows:
            return END
        block = self._node.between(self._ctx, start, min(self._rows, start + want))
        self._next = start + block.rows
        return block

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        start = self._next
        self._next = min(self._rows, start + count)
        return self._next - start
