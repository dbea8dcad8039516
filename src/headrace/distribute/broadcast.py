"""Rows that one process of a group reads, and sends to the others."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from headrace.columns.block import Block, Failure
from headrace.core.override import override
from headrace.core.types import Reduced
from headrace.errors import HeadraceError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark, Marks, from_json, to_json
from headrace.plan.node import TUNING


class ProcessGroup:
    """The processes of torch.distributed that get the same rows; the first of them reads.

    It is made in all processes of the run at once, with a group of its own for each, so that other collective
    operations of the user's are not in the way.
    """

    def __init__(self, groups: tuple[tuple[int, ...], ...]) -> None:
        from torch import distributed

        if not distributed.is_available() or not distributed.is_initialized():
            raise HeadraceError("broadcast=True needs torch.distributed: call init_process_group before distribute")
        self._distributed = distributed
        rank = distributed.get_rank()
        made = [(ranks, distributed.new_group(list(ranks), backend="gloo")) for ranks in groups]
        self._ranks, self._group = next((ranks, group) for ranks, group in made if rank in ranks)
        self.reads: bool = rank == self._ranks[0]

    def send(self, message: object) -> None:
        """Send a message to the others."""
        self._distributed.broadcast_object_list([pickle.dumps(message)], src=self._ranks[0], group=self._group)

    def receive(self) -> Any:
        """The next message of the process that reads."""
        box: list[Any] = [None]
        self._distributed.broadcast_object_list(box, src=self._ranks[0], group=self._group)
        return pickle.loads(box[0])

    def __str__(self) -> str:
        return "a group"


@dataclass(frozen=True, eq=False)
class Broadcast(UnchangedRows):
    """The rows of the input, read by one process of a group."""

    group: ProcessGroup = field(repr=False, metadata=TUNING)

    one_to_one = True
    pure = False
    """Every process asks for one row after another, or they would wait for each other."""
    live = True

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def operation(self) -> str:
        return "distribute"


class SentMark(Mark):
    """The mark of one row as the process that reads it knows it, and that of the row after it."""

    __slots__ = ("_after", "_at")

    def __init__(self, ordinal: int, at: Marks, after: Marks) -> None:
        super().__init__(-1, ordinal, 0)
        self._at = at
        self._after = after

    def later(self, rows: int) -> Mark:
        """The mark of this row or of the next one; there are no others."""
        return SentMark(self.ordinal + rows, self._after, self._after) if rows else self

    @override
    def marks(self, *, again: bool = False) -> Marks:  # the process that reads has been asked
        """The positions of all nodes."""
        return self._at

    def __reduce__(self) -> Reduced:
        return SentMark, (self.ordinal, self._at, self._after)


@opens(Broadcast)
def open_broadcast(node: Broadcast, ctx: Context, at: At) -> Stream:
    """The process that reads opens the input; the others do not."""
    return SendingStream(node, ctx, at) if node.group.reads else ReceivingStream(node)


class SendingStream(Stream):
    """Reads rows one by one, and sends each to the others with its place."""

    def __init__(self, node: Broadcast, ctx: Context, at: At) -> None:
        self._group = node.group
        self._input = ctx.open(node.input, at.inputs)
        self._ended = False

    @override
    def pull(self, want: int) -> Made:  # one row at a time, as in all processes of the group
        if self._ended:
            return END
        try:
            item = self._input.pull(1)
        except Exception as error:
            self._group.send(("raise", f"{type(error).__name__}: {error}"))
            raise
        if item is END:
            self._ended = True
            self._group.send(("end",))
            return END
        places = item.mark.ordinal, to_json(item.mark.marks()), to_json(item.mark.later(1).marks())
        if isinstance(item, Failure):
            self._group.send(("failure", item.error, *places))
        else:
            whole = item.whole()
            self._group.send(("row", (whole.structure, whole.columns, whole.ids), *places))
            whole.mark = item.mark
            return whole
        return item


class ReceivingStream(Stream):
    """Takes the rows that another process has read."""

    def __init__(self, node: Broadcast) -> None:
        self._group = node.group
        self._ended = False

    @override
    def pull(self, want: int) -> Made:  # one row at a time, as in all processes of the group
        if self._ended:
            return END
        kind, *message = self._group.receive()
        if kind == "end":
            self._ended = True
            return END
        if kind == "raise":
            raise HeadraceError(f"the process of the group that reads has failed: {message[0]}")
        content, ordinal, at, after = message
        mark = SentMark(ordinal, from_json(at), from_json(after))
        if kind == "failure":
            return Failure(content, mark)
        structure, columns, ids = content
        return Block(structure, columns, 1, mark, ids)
