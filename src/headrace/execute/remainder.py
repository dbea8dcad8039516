"""The rows that an operation drops at its end because they do not fill a group. Their failures are not lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headrace.columns.block import Failure, Item
from headrace.execute.context import Context
from headrace.execute.stream import END, DroppedFailure, End
from headrace.plan.marks import Mark
from headrace.plan.node import Node


def end_of_rows(dropped: Iterable[Item]) -> DroppedFailure | Literal[End.END]:
    """Return what ends a stream that drops these rows: their first failure, or END if there is none."""
    error = next((item.error for item in dropped if isinstance(item, Failure)), None)
    return END if error is None else DroppedFailure(error)


def read_again(ctx: Context, node: Node, mark: Mark, *, skip: int, rows: int) -> list[Item]:
    """Return up to `rows` rows of a pure input that were skipped: those that come `skip` rows after `mark`."""
    source = ctx.open(node, mark.marks(), slot=1)
    items: list[Item] = []
    if source.skip(skip, replay=True) == skip:
        while rows > 0 and (item := source.pull(rows)) is not END:
            items.append(item)
            rows -= item.rows
    source.close()
    return items
