"""Strands: sources that are read in order, by one thread at a time, and whose rows are processed in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.columns.block import Item
from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.unchanged_rows import PassThrough, PassThroughStream
from headrace.physical.cuts import Cut, CutAim, cuts
from headrace.plan.marks import At


@dataclass(frozen=True, eq=False)
class Strand(PassThrough):
    """The rows of a source that has no cuts. A scan takes them as they come, some at a time."""

    @property
    def operation(self) -> str:
        return "strand"


@opens(Strand)
class StrandStream(PassThroughStream):
    """The source's rows, until it is handed over to a scan."""

    def __init__(self, node: Strand, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._opened = ctx.opened
        self._halted = False

    def pull(self, want: int) -> Made:
        return END if self._halted else super().pull(want)

    def halt(self) -> Input:
        self._halted = True
        self._opened.discard(self._input)  # it is closed by its next owner
        return self._input


@dataclass(frozen=True, eq=False)
class RowsInHand(PassThrough):
    """Some rows of a strand, which were read already."""

    rows: Item = field(repr=False, kw_only=True)


@opens(RowsInHand)
class RowsInHandStream(Stream):
    """These rows, with the marks that they have."""

    @override
    def __init__(self, node: RowsInHand, ctx: Context, at: At) -> None:
        mark = node.rows.mark
        here = at.inputs.get(mark.number)
        self._rest: Item | None = node.rows
        if here is not None:
            self._pass_over(here.ordinal - mark.ordinal)

    def _pass_over(self, rows: int) -> None:
        assert self._rest is not None
        self._rest = self._rest.slice(rows, self._rest.rows) if rows < self._rest.rows else None

    def pull(self, want: int) -> Made:
        item = self._rest
        if item is None:
            return END
        first = item.slice(0, min(want, item.rows))
        self._pass_over(first.rows)
        return first


@cuts(Strand)
def cut_strand(node: Strand, _ctx: Context, place: Input, size: CutAim) -> Iterator[Cut]:
    """Yield what the source gives, as much at a time as is worth a worker's while."""
    try:
        while (item := place.pull(size.rows)) is not END:
            yield Cut(RowsInHand(node.input, rows=item), rows=item.rows)
    finally:
        place.close()
