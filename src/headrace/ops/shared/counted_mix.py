"""How a mixture runs that counts the tokens of its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item, concat, folded, structures_differ
from headrace.errors import StateError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.stream import END, Made, Pending, Stream
from headrace.ops.choose import marks_of_branch
from headrace.ops.shared.mix_counts import NO_COUNTS, MixCounts, SourceCount, Stretch, TokenTurns
from headrace.ops.shared.mix_history import gone
from headrace.ops.shared.row_sizes import Size, row_sizes
from headrace.ops.zip import branch_context
from headrace.plan.marks import At, Joint, Mark, OwnMark

if TYPE_CHECKING:
    from headrace.ops.mix import Mix

MAX_ROWS_AHEAD = 256
"""How many rows of a source are read at a time, if that is unobservable."""

Later = Callable[[int], "OwnMark | None"]
MarkMaker = Callable[[tuple[int, ...], MixCounts, "Later | None"], OwnMark]
"""Makes the own mark of a mixture: rows given of each branch, counts, and how to find a later mark."""


class BufferedSource:
    """The rows of one source that were read and not taken, with their sizes."""

    def __init__(self, node: Mix, source: Input, *, pure: bool) -> None:
        self._node = node
        self._input = source
        self._pure = pure
        self._waiting = Pending()
        self._sizes: list[Size | None] = []
        self._used = 0

    def skip(self, rows: int) -> None:
        """Skip rows that an earlier run delivered."""
        if self._input.skip(rows, replay=True) < rows:
            raise StateError("a source of the mixture ended before the element where the state was taken")

    def mark(self) -> Mark:
        """The mark of the first row that was not taken."""
        return self._waiting.mark() if self._waiting else self._input.mark()

    def peek(self, taken: int, want: int) -> bool:
        """Read on until the size of the row after the `taken` next ones is known; return False if there is none."""
        if self._used + taken < len(self._sizes):
            return True
        item = self._input.pull(min(want, MAX_ROWS_AHEAD) if self._pure else 1)
        if item is END:
            return False
        del self._sizes[: self._used]
        self._used = 0
        self._waiting.add([item])
        node = self._node
        if isinstance(item, Failure):
            self._sizes.append(None)
        else:
            self._sizes += row_sizes(node.operation, node.function, node.key, item)
        return True

    def size(self, taken: int) -> Size | None:
        """The size of the row after the `taken` next ones; an error if that is not known, None for a failure."""
        return self._sizes[self._used + taken]

    def take(self, rows: int) -> list[Item]:
        """Take the next rows."""
        self._used += rows
        items = []
        while rows:
            items.append(self._waiting.pull(rows))
            rows -= items[-1].rows
        return items


class Turn(NamedTuple):
    """One row: of which branch, and the counts of its source after it."""

    branch: int
    name: str
    after: SourceCount


class Turns(Protocol):
    """Whose turn it is."""

    def next(self) -> str:
        """The source that has its turn."""
        ...

    def took(self, count: SourceCount) -> None:
        """Go to the next turn, with these counts of the source after its turn."""
        ...


class RowTurns:
    """Turns by weights of rows, which follow from the number of the row alone."""

    def __init__(self, names: Sequence[str], branches: Indices) -> None:
        self._names = names
        self._branches: list[int] = branches.tolist()
        self._done = 0

    def next(self) -> str:
        return self._names[self._branches[self._done]]

    def took(self, count: SourceCount) -> None:  # noqa: ARG002 - it does not matter
        self._done += 1


class CountedMixStream(Stream):
    """Each source in its turn, row by row. Marks hold the counts of all sources.

    A source whose reading is observable is read when it has its turn.
    """

    def __init__(self, node: Mix, ctx: Context, at: At, own: MarkMaker) -> None:
        self._node = node
        self._own = own
        self._branches = {name: number for number, name in enumerate(node.choices.names)}
        self._sources = []
        for number, branch in enumerate(node.branches[:-1]):
            marks = marks_of_branch(ctx, branch, at.inputs) if node.grows else at.inputs
            opened = branch_context(ctx, node.places[number]).open(branch, marks, slot=number)
            self._sources.append(BufferedSource(node, opened, pure=branch.pure))
        self._path = branch_context(ctx, node.places[-1]).path
        self._key = node.choices.seed.key(self._path)
        self._counts = NO_COUNTS if at.own is None or at.own.counts is None else at.own.counts
        self._counts.check()
        for source, rows in zip(self._sources, () if at.own is None else at.own.given, strict=False):
            source.skip(rows)
        self._over = False

    def pull(self, want: int) -> Made:
        if self._over:
            return END
        before = self._counts
        stretch = Stretch.at(self._node.choices.history, before.row)
        place = Joint([source.mark() for source in self._sources])
        turns, failed = self._turns(stretch, min(want, stretch.stop - before.row))
        if not turns:
            self._over = True
            return END
        sources, own = len(self._sources), self._own

        def later(rows: int) -> OwnMark | None:
            if rows > len(turns):
                return None
            given = np.bincount([turn.branch for turn in turns[:rows]], minlength=sources).tolist()
            return own((*given, 0), counted(before, stretch, turns[:rows]), None)

        made: list[Item] = [self._failure(turns[0], before.row)] if failed else self._rows(turns)
        offset = 0
        for item in made:
            item.mark, item.own, item.offset = place, own((), before, later), offset
            offset += item.rows
        self._counts = counted(before, stretch, turns)
        return made

    def _turns(self, stretch: Stretch, want: int) -> tuple[list[Turn], bool]:
        """Return the turns of the next rows up to a failure, or that of one failed row; None at the end."""
        counts = stretch.counts(self._counts)
        whose = self._whose(stretch, counts, want)
        taken = [0] * len(self._sources)
        turns: list[Turn] = []
        while len(turns) < want:
            name = whose.next()
            branch = self._branches.get(name)
            if branch is None:
                raise gone(name)
            source = self._sources[branch]
            if not source.peek(taken[branch], want - len(turns)):
                break
            size = source.size(taken[branch])
            fine = isinstance(size, int)
            if turns and not fine:
                break
            counts[name] = counts[name].after(size if isinstance(size, int) else 0)
            turns.append(Turn(branch, name, counts[name]))
            if not fine:
                return turns, True
            taken[branch] += 1
            whose.took(counts[name])
        return turns, False

    def _whose(self, stretch: Stretch, counts: Mapping[str, SourceCount], want: int) -> Turns:
        choices = self._node.choices
        if self._node.unit == "rows":
            row = self._counts.row
            return RowTurns(choices.names, choices.find(self._path, np.arange(row, row + want))[0])
        key = choices.history.segment_key(stretch.number, self._key)
        return TokenTurns(stretch.segment, key, [counts[name] for name in stretch.segment.names])

    def _failure(self, turn: Turn, number: int) -> Failure:
        source = self._sources[turn.branch]
        error = source.size(0)
        (item,) = source.take(1)
        if isinstance(item, Failure):
            return item
        assert isinstance(error, Exception)
        return Failure(self._node.error(error, number))

    def _rows(self, turns: list[Turn]) -> list[Item]:
        numbers = np.array([turn.branch for turn in turns])
        blocks: list[Block] = []
        for branch, rows in enumerate(np.bincount(numbers, minlength=len(self._sources)).tolist()):
            for block in self._sources[branch].take(rows):
                assert isinstance(block, Block)
                block.ids = folded(block.ids, branch + 1)
                blocks.append(block)
        order = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
        if not structures_differ(blocks):
            return [concat(blocks).take(order)]
        rows = [block.slice(i, i + 1) for block in blocks for i in range(block.rows)]
        return [rows[number] for number in order.tolist()]


def counted(before: MixCounts, stretch: Stretch, turns: Sequence[Turn]) -> MixCounts:
    """The counts after these turns."""
    known = stretch.counts(before) | {turn.name: turn.after for turn in turns}
    sources = tuple((name, *count) for name, count in sorted(known.items()) if count.rows)
    return MixCounts(before.row + len(turns), stretch.segment.start, sources)
