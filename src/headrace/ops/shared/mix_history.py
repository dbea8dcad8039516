"""Which weights a mixture had from which row on: those that were written, and those that were set while running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from headrace import _native
from headrace.columns import Indices
from headrace.core import keys
from headrace.core.types import JsonObject, JsonValue
from headrace.errors import StateError

UNIT = 1 << 30
"""Shares are kept in parts of this."""


def halved(weights: tuple[float, ...]) -> Indices:
    """Split the branches in halves, and these again: for each split the share, in units, of its first half."""
    shares = np.zeros(len(weights), np.int64)

    def split(first: int, stop: int) -> float:
        if stop - first == 1:
            return weights[first]
        middle = first + (stop - first) // 2
        left, right = split(first, middle), split(middle, stop)
        if left + right:
            part = round(left / (left + right) * UNIT)
            shares[middle] = min(max(part, int(left > 0)), UNIT - int(right > 0))  # 1 or more for a weight above 0
        return left + right

    split(0, len(weights))
    return shares


@dataclass(frozen=True)
class MixSegment:
    """From row `start` on, the sources and their weights."""

    start: int
    names: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class MixHistory:
    """The segments of a mixture. If the first ones are forgotten, it says how many rows of each source they had."""

    segments: tuple[MixSegment, ...]
    forgotten: int = 0
    before: tuple[tuple[str, int], ...] = ()
    parked: tuple[tuple[str, str], ...] = ()
    """The positions of sources that were removed, as JSON: one that returns continues there."""

    def changed(self, row: int, later: tuple[MixSegment, ...], before: Mapping[str, int] | None) -> MixHistory:
        """With other segments from a row on.

        Those before it are forgotten if no row of them will be looked for again: then `before` says how many rows of
        each source they had.
        """
        kept = tuple(segment for segment in self.segments if segment.start < row)
        if before is None:
            return replace(self, segments=(*kept, *later))
        return MixHistory(later, self.forgotten + len(kept), tuple(sorted(before.items())), self.parked)

    def counts(self, rows: int, key: int) -> dict[str, int]:
        """How many of the first `rows` rows are of each source."""
        found = dict(self.before)
        starts = [segment.start for segment in self.segments]
        for number, (segment, stop) in enumerate(zip(self.segments, [*starts[1:], rows], strict=True)):
            if segment.start >= rows:
                break
            for name, count in zip(segment.names, _counts(self, number, min(stop, rows), key).tolist(), strict=True):
                found[name] = found.get(name, 0) + count
        return found

    def segment_key(self, number: int, key: int) -> int:
        """The key of the draws of a segment."""
        return keys.mix_key(key, self.forgotten + number)

    def to_json(self) -> JsonObject:
        """As a state holds it."""
        segments = [[s.start, list(s.names), [float(w).hex() for w in s.weights]] for s in self.segments]
        made = {"segments": segments, "forgotten": self.forgotten, "before": dict(self.before)}
        return {**made, "parked": dict(self.parked)} if self.parked else made

    @classmethod
    def from_json(cls, data: JsonValue) -> MixHistory:
        """What `to_json` gave; raises StateError for anything else."""
        try:
            segments = tuple(
                MixSegment(int(start), tuple(map(str, names)), tuple(map(float.fromhex, weights)))
                for start, names, weights in data["segments"]
            )
            before = tuple(sorted((str(name), int(rows)) for name, rows in data["before"].items()))
            parked = tuple(sorted((str(name), str(text)) for name, text in data.get("parked", {}).items()))
            made = cls(segments, int(data["forgotten"]), before, parked)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"the state is damaged: its history of a mixture cannot be read: {error!r}") from None
        rising = all(a.start < b.start for a, b in pairwise(segments))
        sized = all(len(s.names) == len(s.weights) and s.names and any(s.weights) for s in segments)
        if not segments or not rising or not sized or min(made.forgotten, segments[0].start) < 0:
            raise StateError("the state is damaged: its history of a mixture is invalid")
        return made


def _counts(history: MixHistory, number: int, stop: int, key: int) -> Indices:
    segment = history.segments[number]
    counts = np.empty(len(segment.names), np.int64)
    _native.mix_counts(history.segment_key(number, key), halved(segment.weights), stop - segment.start, counts)
    return counts


class MixLaw:
    """Whose turn it is at each row, and which row of that source it is."""

    def __init__(self, history: MixHistory, names: tuple[str, ...], key: int) -> None:
        self._history = history
        self._names = names
        self._starts = np.array([segment.start for segment in history.segments], np.int64)
        self._keys = [history.segment_key(number, key) for number in range(len(self._starts))]
        self._shares = [halved(segment.weights) for segment in history.segments]
        place = {name: number for number, name in enumerate(names)}
        self._branches = [np.array([place.get(n, -1) for n in s.names], np.int64) for s in history.segments]
        self._before = [dict(history.before)]
        for number, stop in enumerate(self._starts[1:].tolist()):
            known = dict(self._before[-1])
            names_there = history.segments[number].names
            for name, count in zip(names_there, _counts(history, number, stop, key).tolist(), strict=True):
                known[name] = known.get(name, 0) + count
            self._before.append(known)

    def find(self, indices: Indices) -> tuple[Indices, Indices]:
        """The source at each of these rows, and which of its rows it is."""
        found = np.empty((2, len(indices)), np.int64)
        if len(indices) and int(indices.min()) < int(self._starts[0]):
            raise forgotten(int(self._starts[0]))
        segment_of = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(segment_of).tolist():
            within = segment_of == number
            part = np.empty((2, int(within.sum())), np.int64)
            _native.mix_rows(self._keys[number], self._shares[number], indices[within] - self._starts[number], *part)
            names = self._history.segments[number].names
            before = np.array([self._before[number].get(name, 0) for name in names], np.int64)
            branches = self._branches[number][part[0]]
            if (branches < 0).any():
                raise gone(names[int(part[0][branches < 0][0])])
            found[0, within], found[1, within] = branches, part[1] + before[part[0]]
        return found[0], found[1]


@lru_cache(maxsize=64)
def law_of(history: MixHistory, names: tuple[str, ...], key: int) -> MixLaw:
    """The law of a mixture; made once."""
    return MixLaw(history, names, key)


def forgotten(row: int) -> StateError:
    """Why no row is found before the one at which the weights were changed."""
    return StateError(f"the mixture was changed at element {row}, and earlier ones are forgotten")


def gone(name: str) -> StateError:
    """Why no row is found of a source that the mixture had."""
    return StateError(
        f"the mixture has no source {name!r} any more, and operations after it hold rows of it: keep the source with "
        "weight 0 until they are through"
    )


def check_names(weights: Mapping[str, float], names: tuple[str, ...]) -> None:
    """Raise unless the weights are for these sources."""
    if set(weights) != set(names):
        raise ValueError(f"mix: the weights name the sources {sorted(weights)}, the mixture has {sorted(names)}")
