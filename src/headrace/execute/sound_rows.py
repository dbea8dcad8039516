"""Rows that may be made late, made where they are read, and read again where they prove unsound."""

from __future__ import annotations

from headrace.columns.refs import UnsoundError
from headrace.errors import StateError
from headrace.execute.context import Context, Form
from headrace.execute.inputs import Input
from headrace.execute.stream import END, Pulled
from headrace.late_block import look_at
from headrace.plan.marks import Mark, Marks
from headrace.plan.node import Node


def open_late(ctx: Context, node: Node, marks: Marks) -> Input:
    """Rows that may be made late, unless some that are passed over to begin with prove unsound."""
    try:
        return ctx.open(node, marks, form=Form(late=True))
    except UnsoundError:
        return ctx.open(node, marks)


def open_again(ctx: Context, node: Node, mark: Mark, unsound: UnsoundError) -> Input:
    """The rows of a node from a mark on, none of them late, where some that were have proved unsound."""
    try:
        return ctx.open(node, mark.marks())
    except StateError as error:  # it is not what it was, and there is no way to go on
        raise StateError(f"what was being read has been changed under way{unsound.where()}: {error}") from error


class SoundRows:
    """An input whose rows come late, as one that knows nothing of it."""

    def __init__(self, ctx: Context, node: Node, marks: Marks) -> None:
        self._ctx = ctx
        self._node = node
        self._rows = open_late(ctx, node, marks)

    @property
    def ordinal(self) -> int:
        """Where the rows stand that come next."""
        return self._rows.ordinal

    def pull(self, want: int) -> Pulled:
        """The next rows, made."""
        mark = self._rows.mark()
        try:
            item = self._rows.pull(want)
            if item is not END:
                look_at(item)
            return item
        except UnsoundError as error:
            return self._again(mark, error).pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Pass over rows; returns how many there were."""
        mark = self._rows.mark()
        try:
            return self._rows.skip(count, replay=replay)
        except UnsoundError as error:
            return self._again(mark, error).skip(count, replay=replay)

    def _again(self, mark: Mark, error: UnsoundError) -> Input:
        self._rows.close()
        self._rows = open_again(self._ctx, self._node, mark, error)
        return self._rows

    def mark(self) -> Mark:
        """Of the row that comes next."""
        return self._rows.mark()

    def close(self) -> None:
        """Free the input."""
        self._rows.close()
