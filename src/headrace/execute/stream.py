"""Streams of blocks, and small tools to build them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Indices
from headrace.columns.block import Block, Item
from headrace.columns.lazy_block import join_late
from headrace.core.override import override
from headrace.errors import ElementError
from headrace.execute.row_by_row import IsLast
from headrace.execute.stages.run_delay import RunDelay
from headrace.plan.marks import Mark
from headrace.plan.structure import Structure


class End(Enum):
    """The end of the rows."""

    END = "end"


END: Final = End.END
Pulled: TypeAlias = Item | Literal[End.END]


class DroppedFailure:
    """The end of a stream that dropped its last rows because they did not fill a group, and one of them failed.

    A stream returns it in place of END. Its `Input` reports the end, and passes the failure on: see `Opened`.
    """

    __slots__ = ("error",)

    def __init__(self, error: ElementError) -> None:
        self.error: ElementError = error


Made: TypeAlias = Item | list[Item] | DroppedFailure | Literal[End.END]


class Wanted(Protocol):
    """Which rows of a stream will be read. It can be sent to another process."""

    def mask(self, ordinals: Indices) -> NDArray[np.bool_]:
        """Return for each of these rows whether it is wanted."""
        ...


class RowRange(NamedTuple):
    """Rows of a stream by their ordinals: those from `first` to before `stop`."""

    first: int
    stop: int


class Stream(ABC):
    """The rows of one node, from some position on.

    An operation implements `pull`, and `skip` and `close` if there is something to do. Each item carries the position
    from which it can be made again: its `mark` is that of the input's row (as it is in a block of the input that is
    passed on), its `own` what the operation needs besides.
    """

    @property
    def handed_over(self) -> bool:
        """Whether other threads make its rows or their parts, so that a larger request costs no more."""
        return False

    @abstractmethod
    def pull(self, want: int) -> Made:
        """Return the next rows, or END, repeatedly; first a DroppedFailure if failed rows were dropped at the end.

        `want` rows are enough; more may come if that is unobservable. An empty list means: pull again.
        """

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:  # noqa: ARG002
        """Return the next rows, at most `want`, ending with the first that `is_last` accepts, or with a failure.

        `is_last` is called for each of them, in order, before the next one is made: see `row_by_row`. Return None if
        this stream does not support it: then `unseen_rows` are pulled at a time.
        """
        return None

    @property
    def unseen_rows(self) -> int:
        """Return how many rows a consumer may pull at a time if it does not know how many it needs."""
        return 1

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        """Skip up to `count` rows without making them. Return how many; the others are pulled and dropped.

        With `replay` an earlier run has made these rows already: user functions that keep their number need no call.
        """
        return 0

    def halt(self) -> object:
        """End soon, at a position where another reader can begin, and return it. Return None if there is none.

        Only sources that can be cut have one. Rows that were read are still returned, and so is the rest of what cannot
        be cut.
        """
        return None

    def voids(self) -> Hashable | None:
        """Return the unit whose later cuts must not be read: this stream has ended, and found the unit's end before
        them.
        """
        return None

    @property
    def restates_marks(self) -> bool:
        """Whether the next row may have another mark than the one it was restored with: see `Input.settle`."""
        return False

    def announce(self, wanted: Wanted) -> None:  # noqa: B027 - most streams make all their rows in any case
        """Announce that only these rows will be read from here on. A hint, which may be ignored.

        Items that hold only their row count may replace the other rows.
        """

    def close(self) -> None:  # noqa: B027 - most streams hold nothing but their inputs, which the executor closes
        """Free what the stream holds besides its inputs. May be called from another thread, and more than once."""


class Source(Protocol):
    """An operation's view of its input: exact row counts, and marks."""

    @property
    def ordinal(self) -> int: ...
    def pull(self, want: int) -> Pulled: ...
    def skip(self, count: int, *, replay: bool = False) -> int: ...
    def mark(self) -> Mark: ...
    def close(self) -> None: ...


FRESH_FRACTION = 4
"""A pass begins with 1/FRESH_FRACTION of the rows per pull that suited the last pass."""
ASSUMED_READER_THREADS = 2
"""The number of threads to assume for readers of several inputs at a time: there is memory for all of them."""


class Pace:
    """Choose how many rows to request: about a millisecond of work, and blocks that stay in cache.

    The time that a thread waited for a CPU does not count.

    Between threads blocks may be larger: a hand-over costs tens of microseconds. If several `threads` work, the Python
    code of all blocks shares the GIL, so the work of each must be many times that. A hand-over to another process costs
    a hundred microseconds or more, and is worth several milliseconds of work. A pull of rows that workers make whether
    they are requested or not only waits: its duration is reported as 0.
    """

    BYTES = 2 << 20
    HANDOVER_BYTES = 1 << 20
    MAX_THREADED_BLOCK_BYTES = 8 << 20
    """The largest block, however many threads there are: each has one or two, and all should stay in cache."""
    NANOSECONDS = 1_000_000
    REMOTE_NANOSECONDS = 10_000_000
    ROWS = 1 << 15
    MIN_FUNCTION_ROWS = 4
    """How many rows to request even if one takes a millisecond, so that a function can show its speed on a block."""

    SINGLE_CALLS = 64
    """How many calls of a user's function run alone before several run together: functions of few rows may wait for
    others.
    """

    _delay = RunDelay()

    def __init__(
        self,
        fixed: int | None = None,
        *,
        threads: int = 0,
        remote: bool = False,
        most: int | None = None,
    ) -> None:
        self.rows: int = fixed or 1
        self._most = most
        self._alone = 0 if most is None else self.SINGLE_CALLS
        self._fixed = fixed is not None
        self._leaps = threads > 0 and most is None  # a state returns to where a reader's block begins
        crowd = 2 * threads if threads > 1 else 1
        between = self.MAX_THREADED_BLOCK_BYTES if threads > 1 else self.HANDOVER_BYTES
        self._bytes = between if threads or remote else self.BYTES
        self._nanoseconds = max(crowd * self.NANOSECONDS, self.REMOTE_NANOSECONDS if remote else 0)

    def request(self, want: int) -> None:
        """Note how many rows the consumer requests next."""

    def observe(self, item: Item, nanoseconds: int) -> None:
        """Learn from the result and the duration of the last pull."""
        self.learn(item.rows, item.nbytes, nanoseconds)

    def grow_to(self, want: int) -> int:
        """Return how many rows to request for a consumer that wants `want` and can take twice as many."""
        if not self._fixed and self._most is None:
            self.rows = max(self.rows, min(want, self.ROWS))
        return max(want, self.rows)

    def learn(self, rows: int, nbytes: int, nanoseconds: int) -> None:
        """Learn from a pull of `rows` rows with `nbytes` bytes that took `nanoseconds`."""
        if self._fixed:
            return
        if self._alone > 0:
            self._alone -= rows
            return
        if nanoseconds > 4 * self._nanoseconds:  # other threads may have had the CPU
            nanoseconds = max(0, nanoseconds - self._delay.since_last())
        some = self.rows <= self.MIN_FUNCTION_ROWS and nanoseconds < 2 * rows * self._nanoseconds
        if (nanoseconds > 4 * self._nanoseconds and not some) or nbytes > 4 * self._bytes:
            self.rows = max(1, self.rows // 2)
            return
        quick = nanoseconds < self._nanoseconds or (some and self.rows < self.MIN_FUNCTION_ROWS)
        if quick and rows >= self.rows < self.ROWS and nbytes < self._bytes:
            far = self._leaps and 8 * nanoseconds < self._nanoseconds and 8 * nbytes < self._bytes
            self.rows = min((4 if far else 2) * self.rows, self._most or self.ROWS)

    def begin_with(self, rows: int | None) -> None:
        """Begin with the number that another Pace found for the same work, but smaller, because the consumer waits."""
        if rows is not None and not self._fixed and self._most is None:
            self.rows = max(1, rows // FRESH_FRACTION)


class WholeRequests(Pace):
    """Request as many rows as the consumer does: it works on all of them at once, such as a device."""

    @override
    def request(self, want: int) -> None:
        """Request as many from now on."""
        self.rows = want

    @override
    def learn(self, rows: int, nbytes: int, nanoseconds: int) -> None:
        """Learn nothing: the consumer knows how many rows it can take."""


MIN_BLOCK_ROWS = 64
"""Blocks of fewer rows are joined with the rows after them, because a block costs as much as this many rows."""
ENOUGH_BLOCK_BYTES = 1 << 20
"""Blocks of this size are not joined: copying their rows costs more than another block."""


def with_more(item: Pulled, want: int, pull: Callable[[int], Pulled]) -> Made:
    """Join an item of few rows with the rows after it. Call this only if the time of making rows is unobservable."""
    if not isinstance(item, Block) or item.rows >= min(want, MIN_BLOCK_ROWS):
        return item
    parts, rows, nbytes = [item], item.rows, item.nbytes
    rest: list[Item] = []
    while (
        rows < min(want, MIN_BLOCK_ROWS)
        and nbytes < ENOUGH_BLOCK_BYTES
        and not rest
        and (other := pull(want - rows)) is not END
    ):
        if isinstance(other, Block) and other.rows < MIN_BLOCK_ROWS and other.structure == item.structure:
            parts.append(other)
            rows += other.rows
            nbytes += other.nbytes
        else:
            rest.append(other)
    made = item if len(parts) == 1 else join_late(parts)
    made.own, made.offset = item.own, item.offset
    return [made, *rest]


class Pending:
    """A queue of input items, consumed some rows at a time."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: deque[Item] = deque(items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def block(self) -> Block | None:
        """Return the first item if it is a block."""
        head = self._items[0] if self._items else None
        return head if isinstance(head, Block) else None

    def run_of(self, structure: Structure | None) -> tuple[int, bool]:
        """Return how many rows come before a failure or a block of another structure, and whether these are all."""
        rows = 0
        for item in self._items:
            if not isinstance(item, Block) or (item.structure is not structure and item.structure != structure):
                return rows, False
            rows += item.rows
        return rows, True

    def first(self) -> Item:
        """Return the first item; there must be one."""
        return self._items[0]

    def mark(self) -> Mark:
        """Return the mark of the first row; there must be one."""
        return self._items[0].mark

    def add(self, items: Iterable[Item]) -> None:
        """Append these items."""
        self._items.extend(items)

    def put_back(self, item: Item) -> None:
        """Put this item back to the front."""
        self._items.appendleft(item)

    def pull(self, want: int) -> Item:
        """Return the next rows; there must be some."""
        head = self._items.popleft()
        if head.rows > want:
            self._items.appendleft(head.slice(want, head.rows))
            head = head.slice(0, want)
        return head

    def drop(self, count: int) -> int:
        """Drop up to `count` rows. Return how many."""
        done = 0
        while done < count and self._items:
            done += self.pull(count - done).rows
        return done
