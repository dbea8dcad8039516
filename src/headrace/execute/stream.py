"""Streams of blocks, and the small tools that operations build theirs from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.block import Block, Item
from headrace.columns import Indices
from headrace.errors import ElementError
from headrace.execute.row_by_row import IsLast
from headrace.execute.run_delay import RunDelay
from headrace.late_block import join_late
from headrace.plan.marks import Mark
from headrace.plan.structure import Structure


class End(Enum):
    """There are no more rows."""

    END = "end"


END: Final = End.END
Pulled: TypeAlias = Item | Literal[End.END]


class DroppedFailure:
    """The end of a stream whose last rows were dropped because they did not fill a group, and one of them failed.

    A stream returns it in place of END. Its `Input` reports the end, and passes the failure on: see `Opened`.
    """

    __slots__ = ("error",)

    def __init__(self, error: ElementError) -> None:
        self.error = error


Made: TypeAlias = Item | list[Item] | DroppedFailure | Literal[End.END]


class Wanted(Protocol):
    """Which rows of a stream somebody will look at. It can be sent elsewhere."""

    def mask(self, ordinals: Indices) -> NDArray[np.bool_]:
        """Of each of these rows, whether it is wanted."""
        ...


class RowRange(NamedTuple):
    """Rows of a stream by their ordinals: those from `first` to before `stop`."""

    first: int
    stop: int


class Stream(ABC):
    """The rows of one node, from some place on.

    What an operation writes: `pull`, and `skip` and `close` where there is something to do. Each item it gives says
    where to read on in order to make it again: its `mark` is that of the input's row (as it is in a block of the input
    that is passed on), its `own` what the operation must know besides.
    """

    @property
    def handed_over(self) -> bool:
        """Whether other threads make its rows, or what they are put together of: to ask for many costs no more."""
        return False

    @abstractmethod
    def pull(self, want: int) -> Made:
        """The next rows, or END, again and again; a DroppedFailure the first time if the last rows were dropped.

        `want` rows are enough; more may come where nobody can tell. An empty list says: ask again.
        """

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:  # noqa: ARG002
        """The next rows, at most `want`, ending with the first that `is_last` is true of, or with a failure.

        `is_last` has been asked of each of them, in order, before the next one was made: see `row_by_row`. None if this
        stream cannot: then `unseen_rows` are pulled at a time.
        """
        return None

    @property
    def unseen_rows(self) -> int:
        """How many rows may be pulled at a time by a consumer that does not know how many it needs."""
        return 1

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        """Pass over up to `count` rows without making them; how many. The others are pulled and dropped.

        With `replay` an earlier run has made these rows already: user functions that keep their number need no call.
        """
        return 0

    def halt(self) -> Any | None:
        """End soon, at a place where another reader can begin: returns that place. None if there is no such place.

        Only sources that can be cut have one. Rows that were read are still given, and the rest of what cannot be cut.
        """
        return None

    def voids(self) -> Hashable | None:
        """The unit whose later cuts must not be read: this stream has ended, and found the unit's end before them."""
        return None

    def announce(self, wanted: Wanted) -> None:  # noqa: B027 - most streams make all their rows in any case
        """From here on only these rows will be looked at, all others are dropped: a hint, which may be ignored.

        In the place of others may come items that hold nothing but their number.
        """

    def close(self) -> None:  # noqa: B027 - most streams hold nothing but their inputs, which the executor closes
        """Free what the stream holds beside its inputs; may come from another thread, and more than once."""


class Source(Protocol):
    """What an operation sees of its input: rows in exact numbers, and where they lie."""

    @property
    def ordinal(self) -> int: ...
    def pull(self, want: int) -> Pulled: ...
    def skip(self, count: int, *, replay: bool = False) -> int: ...
    def mark(self) -> Mark: ...
    def close(self) -> None: ...


FRESH = 4
"""A pass begins with this part of the rows at a time that were right in the last one."""
CROWD = 2
"""Readers of several inputs at a time hand over as if there were so many threads: there is memory for all of them."""


class Pace:
    """How many rows to ask for when the choice is ours: about a millisecond of work, and blocks that stay in cache.

    The time that a thread waited for a processor, which is others' time, does not count.

    Between threads blocks may be larger: a hand-over costs tens of microseconds. Where several `threads` work, the
    Python of all their blocks takes turns, so the work of each must be many times that. To another process a hand-over
    costs a hundred microseconds or more, and is worth several milliseconds of work.
    """

    BYTES = 2 << 20
    HANDOVER_BYTES = 1 << 20
    CROWD_BYTES = 8 << 20
    """Of a block, however many threads there are: each has one or two, and all of them are to stay in cache."""
    NANOSECONDS = 1_000_000
    REMOTE_NANOSECONDS = 10_000_000
    ROWS = 1 << 15
    SOME = 4
    """So many rows that a function can show what it makes of a block are asked for even if one takes a millisecond."""

    ALONE = 64
    """So many calls of a user's function go alone before several go together: those of few rows may wait for others."""

    _delay = RunDelay()

    def __init__(
        self, fixed: int | None = None, *, threads: int = 0, remote: bool = False, most: int | None = None
    ) -> None:
        self.rows = fixed or 1
        self._most = most
        self._alone = 0 if most is None else self.ALONE
        self._fixed = fixed is not None
        self._leaps = threads > 0 and most is None  # a state goes back to where a block of a reader begins
        crowd = 2 * threads if threads > 1 else 1
        between = self.CROWD_BYTES if threads > 1 else self.HANDOVER_BYTES
        self._bytes = between if threads or remote else self.BYTES
        self._nanoseconds = max(crowd * self.NANOSECONDS, self.REMOTE_NANOSECONDS if remote else 0)

    def observe(self, item: Item, nanoseconds: int) -> None:
        """Learn from what the last pull gave, and how long it took."""
        self.learn(item.rows, item.nbytes, nanoseconds)

    def grow_to(self, want: int) -> int:
        """How many rows to ask for where somebody wants so many, and who does can take as many again."""
        if not self._fixed and self._most is None:
            self.rows = max(self.rows, min(want, self.ROWS))
        return max(want, self.rows)

    def learn(self, rows: int, nbytes: int, nanoseconds: int) -> None:
        """Learn how much a pull of so many rows moved, and how long it took."""
        if self._fixed:
            return
        if self._alone > 0:
            self._alone -= rows
            return
        if nanoseconds > 4 * self._nanoseconds:  # it may be that others had the processor
            nanoseconds = max(0, nanoseconds - self._delay.since_last())
        some = self.rows <= self.SOME and nanoseconds < 2 * rows * self._nanoseconds
        if (nanoseconds > 4 * self._nanoseconds and not some) or nbytes > 4 * self._bytes:
            self.rows = max(1, self.rows // 2)
            return
        quick = nanoseconds < self._nanoseconds or (some and self.rows < self.SOME)
        if quick and rows >= self.rows < self.ROWS and nbytes < self._bytes:
            far = self._leaps and 8 * nanoseconds < self._nanoseconds and 8 * nbytes < self._bytes
            self.rows = min((4 if far else 2) * self.rows, self._most or self.ROWS)

    def begin_with(self, rows: int | None) -> None:
        """What another one found to be right for the same work; fewer, since somebody waits for the first."""
        if rows is not None and not self._fixed and self._most is None:
            self.rows = max(1, rows // FRESH)


SMALL = 64
"""Fewer rows are put together with those after them: a block costs as much as so many rows."""


def with_more(item: Pulled, want: int, pull: Callable[[int], Pulled]) -> Made:
    """An item of few rows with those after it, where nobody can tell when these are made."""
    if not isinstance(item, Block) or item.rows >= min(want, SMALL):
        return item
    parts, rows = [item], item.rows
    rest: list[Item] = []
    while rows < min(want, SMALL) and not rest and (other := pull(want - rows)) is not END:
        if isinstance(other, Block) and other.rows < SMALL and other.structure == item.structure:
            parts.append(other)
            rows += other.rows
        else:
            rest.append(other)
    made = item if len(parts) == 1 else join_late(parts)
    made.own, made.offset = item.own, item.offset
    return [made, *rest]


class Pending:
    """Items of an input that wait to be used, some rows at a time."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: deque[Item] = deque(items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def block(self) -> Block | None:
        """The first item, if it is a block."""
        head = self._items[0] if self._items else None
        return head if isinstance(head, Block) else None

    def run_of(self, structure: Structure | None) -> tuple[int, bool]:
        """How many rows come before a failure or a block of another structure, and whether these are all."""
        rows = 0
        for item in self._items:
            if not isinstance(item, Block) or (item.structure is not structure and item.structure != structure):
                return rows, False
            rows += item.rows
        return rows, True

    def first(self) -> Item:
        """The first item; there must be one."""
        return self._items[0]

    def mark(self) -> Mark:
        """The mark of the first row; there must be one."""
        return self._items[0].mark

    def add(self, items: Iterable[Item]) -> None:
        """Queue these behind the others."""
        self._items.extend(items)

    def put_back(self, item: Item) -> None:
        """Have this one first."""
        self._items.appendleft(item)

    def pull(self, want: int) -> Item:
        """The next rows; there must be some."""
        head = self._items.popleft()
        if head.rows > want:
            self._items.appendleft(head.slice(want, head.rows))
            head = head.slice(0, want)
        return head

    def drop(self, count: int) -> int:
        """Forget up to `count` rows; returns how many."""
        done = 0
        while done < count and self._items:
            done += self.pull(count - done).rows
        return done
