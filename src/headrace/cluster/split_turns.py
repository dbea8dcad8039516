"""Run `distribute_over`: interleaved splits, of which a trainer may keep only some rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from headrace.cluster.parcels import with_own_arrays
from headrace.cluster.session import Session, SplitStart
from headrace.cluster.split_share import SplitShare, TurnsAhead
from headrace.cluster.thin_block import ExpectedFailure, ThinBlock, merge_thin
from headrace.columns.block import Item, pick_rows
from headrace.core.keys import Seed
from headrace.core.override import override
from headrace.core.types import AnyFunction
from headrace.errors import ElementError, StateError
from headrace.execute.context import Context
from headrace.execute.inputs import close_all
from headrace.execute.registry import opens
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import END, Made, Pulled, Stream, Wanted
from headrace.ops.interleave import InterleaveStream, TurnsMark
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import NOWHERE, START, At, Marked, Marks, OwnMark
from headrace.plan.node import TUNING, AnyNode, Node
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.cluster.distribute_over import DistributeOver

WORTH_SECONDS = 5.0
"""If the prediction of turns held for less time than this, all rows of all splits are requested: repeated
requests cost time.
"""


class SplitTurns:
    """The splits as InterleaveStream sees them: datasets built from their numbers."""

    seed: Seed = Seed(0, explicit=True)
    pure = True
    num_parallel_calls = None
    deterministic = None

    def __init__(self, node: DistributeOver, session: Session) -> None:
        self.input: Node = node.numbers
        self.cycle_length: int | None = node.cycle_length
        self.block_length: int = node.block_length
        self.error: Callable[[BaseException | str, int], ElementError] = node.error
        self.site: str | None = node.site
        self._make = lambda number: RemoteSplit(node.spec, int(number), session, site=node.site)

    @property
    def fn(self) -> AnyFunction:
        """Makes the rows of a split of its number."""
        return self._make


@dataclass(frozen=True, eq=False)
class RemoteSplit(Node):
    """The rows of one split, which a worker makes."""

    elements: Spec = field(repr=False)
    number: int
    session: Session = field(repr=False, metadata=TUNING)

    pure = True

    @property
    def operation(self) -> str:
        return "distribute_over"

    @property
    def spec(self) -> Spec:
        return self.elements

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@dataclass(slots=True)
class SplitMark(OwnMark):
    """The position in the split's plan, and the number of that row in the split."""

    inner: Marked
    row: int


@opens(RemoteSplit, own=SplitMark)
class RemoteStream(Stream):
    """The rows of a split that the session has received."""

    @override
    def __init__(self, node: RemoteSplit, ctx: Context, at: At) -> None:
        self._node = node
        own: SplitMark | None = at.own
        self._start: SplitStart | None = SplitStart(START, 0) if own is None else _start_of(own)
        self._row = self._start.row

    def pull(self, want: int) -> Made:
        session, number = self._node.session, self._node.number
        if self._start is not None:
            session.begin(number, self._start)
            self._start = None
        item = session.take(number, want)
        if item is END:
            return END
        item.own, item.mark = SplitMark(item.mark, self._row), NOWHERE
        self._row += item.rows
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Before the first row, let the worker skip; it reports if there are fewer rows."""
        if self._start is None or not replay:
            return 0
        self._start = self._start._replace(skip=self._start.skip + count)
        self._row += count
        return count


class DistributeOverStream(Stream):
    """The splits in turn. All that are interleaved are begun at once, on any workers.

    If a consumer has announced which rows are wanted, workers leave out the others. Which rows of a split these are
    depends on the turns, and those on which split ends when: if that is unknown, it is assumed that none ends, and
    every row comes with the number that it should have. From the first row with another number on, splits are requested
    again.
    """

    def __init__(self, node: DistributeOver, ctx: Context, at: At) -> None:
        self._node = node
        self._ctx = ctx
        self._at = at
        self._wanted: Wanted | None = None
        self._thin = False
        self._passed = 0
        position = None if at.own is None else at.inputs[ctx.prepared.number(node)]
        self._number = 0 if position is None else position.ordinal - position.offset
        self._offset = 0 if position is None else position.offset
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._lengths = node.lengths

    def announce(self, wanted: Wanted) -> None:
        if self._session is None:
            self._wanted = wanted

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows after the mark of a state with the first pull: they existed once."""
        if self._session is not None or not replay:
            return 0
        passed = min(count, self._offset)
        self._offset -= passed
        self._passed += passed
        return passed

    def _begin(self) -> None:
        """Let workers make rows from the start position on."""
        node, ctx, own = self._node, self._ctx, self._at.own
        written: AnyNode = ctx.prepared.as_written(node)
        starts, upcoming = _starts_of(own)
        shares = self._shares(own, starts, upcoming) if self._wanted is not None else None
        how = (written.fragment, written.mode, node.cluster, ctx, node, node.cycle_length)
        session = Session(*how, shared=node.shared, shares=shares)
        with self._lock:
            closed, self._session = self._closed, session
        if closed:
            session.close()
            raise Cancelled
        self._expect(session, starts, upcoming)
        merge = pick_rows if shares is None else merge_thin
        self._thin, self._began = shares is not None, monotonic()
        self._rows = InterleaveStream(SplitTurns(node, session), ctx, self._at, merge)

    def _expect(self, session: Session, starts: dict[int, SplitStart], upcoming: int | None) -> None:
        """Begin the splits that were open when the state was taken, and those that come next."""
        for number, start in starts.items():
            session.expect(number, start)
        if upcoming is not None:
            last = min(self._node.splits, upcoming + self._node.cycle_length - len(starts))
            for number in range(upcoming, last):
                session.expect(number, SplitStart(START, 0))

    def _shares(
        self, own: TurnsMark | None, starts: dict[int, SplitStart], upcoming: int | None
    ) -> dict[int, SplitShare] | None:
        """Return which rows of each split are wanted, by the turns that are expected."""
        node, wanted = self._node, self._wanted
        if wanted is None or upcoming is None:
            return None
        turns = TurnsAhead(node.cycle_length, node.block_length, node.splits, self._lengths, upcoming=upcoming)
        if own is not None:
            live = [(slot, number, starts[number].row + starts[number].skip) for slot, number, _ in own.live]
            turns = turns._replace(turn=own.turn, given=own.given, live=tuple(live))
        expected = turns.expected(self._number)
        return {i: SplitShare(wanted, node.block_length, expected.get(i, ())) for i in range(node.splits)}

    def pull(self, want: int) -> Made:
        while True:
            if self._session is None:
                self._begin()
            made = self._checked(self._rows.pull_item(want + self._passed))
            if made is END:
                if self._passed:
                    raise StateError(
                        "distribute_over ended before the element at which the state was taken: its input has changed"
                    )
                return END
            if made is None:
                continue
            if not self._passed:
                return made if self._thin else with_own_arrays(made)
            dropped = min(made.rows, self._passed)
            self._passed -= dropped
            if dropped < made.rows:
                rest = made.cut(dropped, made.rows)
                return rest if self._thin else with_own_arrays(rest)

    def _checked(self, made: Pulled) -> Pulled | None:
        """Return the rows if they have the expected numbers; None if splits must be requested again first."""
        if made is END or not self._thin:
            return made
        if self._right(made):
            self._number += made.rows
            return made.whole() if isinstance(made, ExpectedFailure) else made
        self._at = At(made.own, made.mark.marks())
        self._lengths = None
        if monotonic() - self._began < WORTH_SECONDS:
            self._wanted = None
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()
        close_all(self._ctx.opened)
        return None

    def _right(self, made: Item) -> bool:
        if isinstance(made, ExpectedFailure):
            return made.number == self._number
        assert isinstance(made, ThinBlock)
        return bool((made.numbers == np.arange(self._number, self._number + made.rows)).all())

    def close(self) -> None:
        with self._lock:
            self._closed, session = True, self._session
        if session is not None:
            session.close()


def _starts_of(own: TurnsMark | None) -> tuple[dict[int, SplitStart], int | None]:
    """Return where the open splits continue, and which is begun next; None if only its input knows."""
    if own is None:
        return {}, 0
    starts = {number: split_start(mark.marks()) for _, number, mark in own.live}
    return starts, min(starts) + own.read if starts else None


def split_start(marks: Marks) -> SplitStart:
    """Return where a split continues, according to a state."""
    position = marks.get(0)
    if position is None:
        return SplitStart(START, 0)
    own = position.own
    if own is None:
        return SplitStart(START, position.ordinal)
    mark = SplitMark.from_json(own) if isinstance(own, list) else own
    assert isinstance(mark, SplitMark)
    return _start_of(mark)._replace(skip=position.offset)


def _start_of(mark: SplitMark) -> SplitStart:
    return SplitStart(mark.inner.marks(), 0, mark.row)
