"""Mixtures that count the tokens of their sources: what is counted, whose turn it is, and the counts in marks."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.core.keys import mix_key
from headrace.errors import StateError
from headrace.ops.shared.mix_history import MixHistory, MixSegment, forgotten
from headrace.plan.marks import OwnMark

Unit = Literal["rows", "tokens"]
"""What the weights of a mixture are shares of."""
ENDLESS = 1 << 62


@dataclass(slots=True)
class MixCounts(OwnMark):
    """How many rows and tokens of each source come before row `row`, and how many it was charged since `start`.

    `start` is the row from which on the weights hold.
    """

    row: int
    start: int
    sources: tuple[tuple[str, int, int, int], ...]

    def by_name(self) -> dict[str, SourceCount]:
        """The counts of all sources that had a row."""
        return {name: SourceCount(*counts) for name, *counts in self.sources}

    def check(self) -> None:
        """Raise StateError unless these are valid counts of a mixture."""
        if not 0 <= self.start <= self.row or any(min(counts) < 0 for _, *counts in self.sources):
            raise StateError("the state is damaged: its counts of a mixture are invalid")


class SourceCount(NamedTuple):
    """How many rows and tokens of a source came, and how many tokens it was charged since its weight holds."""

    rows: int
    tokens: int
    charged: int

    def after(self, tokens: int) -> SourceCount:
        """The counts after a row of this many tokens; a row is charged as one token at least."""
        return SourceCount(self.rows + 1, self.tokens + tokens, self.charged + max(1, tokens))


NO_COUNTS = MixCounts(0, 0, ())


def draw_of(key: int, source: int, rows: int) -> float:
    """The random number of the row after the first `rows` of a source: from 0 to below 1."""
    return float((mix_key(key, source, rows) >> 11) * 2.0**-53)


def turn_of(count: SourceCount, weight: float, draw: float) -> float:
    """When it is a source's turn: the source with the least has it.

    Its tokens so far over its weight, moved on by a random part of the length that its rows have on average. So shares
    are kept to about one row of each source, and neighbours are drawn and not dealt in turn.
    """
    mean = count.tokens / count.rows if count.rows else 0.0
    return (count.charged + draw * mean) / weight


class TokenTurns:
    """Whose turn it is while one segment of weights holds. Only the source that had its turn has new counts."""

    def __init__(self, segment: MixSegment, key: int, counts: Sequence[SourceCount]) -> None:
        self._segment = segment
        self._key = key
        self._heap = [self._entry(source, count) for source, count in enumerate(counts) if segment.weights[source]]
        heapq.heapify(self._heap)

    def _entry(self, source: int, count: SourceCount) -> tuple[float, float, int]:
        draw = draw_of(self._key, source, count.rows)
        return turn_of(count, self._segment.weights[source], draw), draw, source

    def next(self) -> str:
        """The source that has its turn."""
        return self._segment.names[self._heap[0][2]]

    def took(self, count: SourceCount) -> None:
        """Go to the next turn, with these counts of the source that had its turn."""
        heapq.heapreplace(self._heap, self._entry(self._heap[0][2], count))


class Stretch(NamedTuple):
    """The weights that hold at a row, and up to which row they do."""

    number: int
    segment: MixSegment
    stop: int

    @classmethod
    def at(cls, history: MixHistory, row: int) -> Stretch:
        """The weights at a row."""
        number = max((i for i, each in enumerate(history.segments) if each.start <= row), default=-1)
        if number < 0:
            raise forgotten(history.segments[0].start)
        later = history.segments[number + 1 :]
        return cls(number, history.segments[number], later[0].start if later else ENDLESS)

    def counts(self, before: MixCounts) -> dict[str, SourceCount]:
        """The counts of all sources at a row: what they were charged under other weights does not count."""
        known: Mapping[str, SourceCount] = before.by_name()
        if before.start != self.segment.start:
            known = {name: count._replace(charged=0) for name, count in known.items()}
        return {**known, **{name: known.get(name, SourceCount(0, 0, 0)) for name in self.segment.names}}
