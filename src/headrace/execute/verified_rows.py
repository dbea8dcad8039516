"""Materialize lazily read rows, and re-read them eagerly if they prove corrupt."""

from __future__ import annotations

from headrace.columns.lazy_block import look_at
from headrace.columns.refs import CorruptRecordsError
from headrace.errors import StateError
from headrace.execute.context import Context, Form
from headrace.execute.inputs import Input
from headrace.execute.stream import END, Pulled
from headrace.plan.marks import Mark, Marks
from headrace.plan.node import Node


def open_late(ctx: Context, node: Node, marks: Marks) -> Input:
    """Open an input lazily, unless rows that are skipped at the start prove corrupt."""
    try:
        return ctx.open(node, marks, form=Form(late=True))
    except CorruptRecordsError:
        return ctx.open(node, marks)


def open_again(ctx: Context, node: Node, mark: Mark, corrupt: CorruptRecordsError) -> Input:
    """Open a node eagerly from a mark on, after lazily read rows proved corrupt."""
    try:
        return ctx.open(node, mark.marks())
    except StateError as error:  # the input changed, and there is no way to continue
        raise StateError(f"the input was changed while it was being read{corrupt.where()}: {error}") from error


class SoundRows:
    """Make a lazy input look like an eager one."""

    def __init__(self, ctx: Context, node: Node, marks: Marks) -> None:
        self._ctx = ctx
        self._node = node
        self._rows = open_late(ctx, node, marks)

    @property
    def ordinal(self) -> int:
        """Return the ordinal of the next row."""
        return self._rows.ordinal

    def pull(self, want: int) -> Pulled:
        """Return the next rows, materialized."""
        mark = self._rows.mark()
        try:
            item = self._rows.pull(want)
            if item is not END:
                look_at(item)
            return item
        except CorruptRecordsError as error:
            return self._again(mark, error).pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows. Return how many there were."""
        mark = self._rows.mark()
        try:
            return self._rows.skip(count, replay=replay)
        except CorruptRecordsError as error:
            return self._again(mark, error).skip(count, replay=replay)

    def _again(self, mark: Mark, error: CorruptRecordsError) -> Input:
        self._rows.close()
        self._rows = open_again(self._ctx, self._node, mark, error)
        return self._rows

    def mark(self) -> Mark:
        """Return the mark of the next row."""
        return self._rows.mark()

    def close(self) -> None:
        """Free the input."""
        self._rows.close()
