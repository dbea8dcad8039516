"""The rows of a source of batches: its parts one after another, or several in turn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.core import keys
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, DroppedFailure, Made, Stream
from headrace.formats.tables.tables import table_spec
from headrace.indexed.range import Range
from headrace.ops.flat_map import Child, FlatMapStream
from headrace.ops.interleave import InterleaveStream, TurnsMark
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At, Mark, Marked, OwnMark, SavedMark
from headrace.plan.node import TUNING, Divides, Node, user_site
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.remote.transport import TIMEOUT, Transport
from headrace.sources.batches import BatchSource
from headrace.sources.part_stream import PartStream
from headrace.sources.seen_rows import PartMark

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SEED = keys.Seed(0, explicit=True)
TURN_ROWS = 4096
"""How many rows of a part come before those of the next, if parts are interleaved."""


def parts_dataset(reader: str, source: BatchSource, name: str | None) -> Dataset:
    """A dataset of the rows of a source, once its columns are known to be such as elements have."""
    return dataset_of(parts_node(reader, source, name))


def parts_node(reader: str, source: BatchSource, name: str | None) -> Node:
    """Return the node of such a dataset."""
    source.choice.check(source.schema)
    spec = table_spec(source.schema, source.choice)
    spec = spec if source.structure is None else Spec(source.structure, spec.leaves)
    kind = Parts if source.turns is None else PartsInTurn
    return kind(Range(0, source.parts), source, reader, spec, site=user_site(), name=name)


@dataclass(frozen=True, eq=False)
class Parts(Node):
    """Open each part of a source; `source` is the user's, or that of one pass, whose parts are known."""

    input: Node
    source: BatchSource
    reader: str = field(repr=False)
    elements: Spec = field(repr=False)

    divides = Divides.RUNS

    seed = SEED
    block_length = TURN_ROWS
    deterministic = None

    @property
    def operation(self) -> str:
        return self.reader

    @property
    def shown_inputs(self) -> tuple[Node, ...]:
        return ()

    tells_inputs = True

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def label(self, *, for_state: bool = False) -> str:
        said = super().label(for_state=for_state).removesuffix(")")
        chosen = [str(self.source.choice), str(self.elements) if for_state else ""]
        return ", ".join([said, *filter(None, chosen)]) + ")"

    def remark(self) -> str | None:
        return self.source.remark()

    @property
    def cycle_length(self) -> int:
        """Return how many parts are interleaved."""
        return self.source.turns or 1

    @property
    def num_parallel_calls(self) -> int | None:
        """Return how many of them are read ahead."""
        return self.source.turns

    @property
    def fn(self) -> Callable[[Any], Node]:
        """Makes the rows of one part of its number."""
        return lambda part: PartRows(self.source, int(part), self.reader, self.elements, site=self.site, name=self.name)

    def laid_out(self, layout: str | None, timeout: float = TIMEOUT) -> Parts:
        """Return the node for one pass, whose layout a state may know."""
        source = copy.copy(self.source)
        source.timeout = timeout
        return replace(self, source=copy.copy(source.lay_out(layout)))


@dataclass(frozen=True, eq=False)
class PartsInTurn(Parts):
    """Parts of which several take turns."""

    divides = Divides.ROWS


@dataclass(frozen=True, eq=False)
class PartRows(Node):
    """The rows of one part, in order."""

    source: BatchSource
    part: int
    reader: str = field(repr=False)
    elements: Spec = field(repr=False, metadata=TUNING)

    @property
    def operation(self) -> str:
        return self.reader

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    @cached_property
    def structures(self) -> tuple[Structure, Structure]:
        """How components make an element, and how columns are named."""
        columns = table_spec(self.source.schema, self.source.choice).structure
        assert self.elements.structure is not None and columns is not None
        return self.elements.structure, columns


opens(PartRows, own=PartMark)(PartStream)


@dataclass(slots=True)
class LaidOut(OwnMark):
    """The layout of the parts, and the position in them."""

    layout: str
    inner: Child

    def advance(self, rows: int) -> LaidOut | None:
        later = _advanced(self.inner.mark, rows)
        return None if later is None else LaidOut(self.layout, Child(later))

    def witness(self) -> LaidOut:
        return LaidOut(self.layout, Child(_witnessed(self.inner.mark)))


@dataclass(slots=True)
class LaidOutTurns(OwnMark):
    """The layout of the parts, and the position in their interleaving."""

    layout: str
    inner: TurnsMark

    def advance(self, rows: int) -> LaidOutTurns | None:
        turns = self.inner
        if turns.given + rows >= TURN_ROWS:  # some come from the next part
            return None
        live = []
        for index, number, mark in turns.live:
            later = _advanced(mark, rows) if index == turns.turn else mark
            if later is None:
                return None
            live.append((index, number, later))
        if turns.turn not in {index for index, _, _ in live}:
            return None
        return LaidOutTurns(self.layout, replace(turns, given=turns.given + rows, live=tuple(live)))

    def witness(self) -> LaidOutTurns:
        live = tuple((index, number, _witnessed(mark)) for index, number, mark in self.inner.live)
        return LaidOutTurns(self.layout, replace(self.inner, live=live))


def _advanced(mark: Marked, rows: int) -> Mark | None:
    """Return the mark of a later row of a part; None if it can only be found by reading."""
    if not isinstance(mark, Mark) or not isinstance(mark.own, PartMark):
        return None
    own = mark.own.advance(mark.offset + rows)
    return None if own is None else Mark(mark.number, mark.ordinal + rows, 0, own, mark.inputs)


def _witnessed(mark: Marked) -> Marked:
    return SavedMark(mark.marks(again=True))


class PartsStream(Stream):
    """The parts of one pass; every mark contains their layout."""

    def __init__(self, node: Parts, ctx: Context, at: At) -> None:
        own: LaidOut | LaidOutTurns | None = at.own
        fixed = node.laid_out(None if own is None else own.layout, Transport.of(ctx.run).timeout)
        inner = At(None if own is None else own.inner, at.inputs)
        in_turn = isinstance(node, PartsInTurn)
        self._source = fixed.source
        self._rows = (InterleaveStream if in_turn else FlatMapStream)(fixed, ctx, inner)
        self._mark: Any = LaidOutTurns if in_turn else LaidOut

    def pull(self, want: int) -> Made:
        made = self._rows.pull(want)
        if made is END or isinstance(made, DroppedFailure):
            return made
        for item in made if isinstance(made, list) else [made]:
            if item.own is not None:
                item.own = self._mark(self._source.layout, item.own)
        return made

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._rows.skip(count, replay=replay)

    def close(self) -> None:
        self._rows.close()
        self._source.close()


opens(Parts, own=LaidOut)(PartsStream)
opens(PartsInTurn, own=LaidOutTurns)(PartsStream)
