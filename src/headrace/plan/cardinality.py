"""The number of elements of a dataset: a number, infinite, or unknown."""

from __future__ import annotations

from collections.abc import Iterable

INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

ENDLESS = 1 << 62
"""A row count larger than that of any dataset, for infinite or unknown ones."""


class Cardinality(int):
    """A count, or INFINITE, or UNKNOWN, with the arithmetic that operations need."""

    @property
    def known(self) -> bool:
        """Whether it is a finite number."""
        return self >= 0

    def times(self, count: int | None) -> Cardinality:
        """Repeated `count` times, None forever."""
        if self == 0 or count == 0:
            return Cardinality(0)
        if count is None:
            return INFINITE if self != UNKNOWN else UNKNOWN
        return Cardinality(self * count) if self.known else self

    def plus(self, other: Cardinality) -> Cardinality:
        """Followed by `other`."""
        if INFINITE in (self, other):
            return INFINITE
        return Cardinality(self + other) if self.known and other.known else UNKNOWN

    def at_most(self, count: int) -> Cardinality:
        """Return the first `count` of these; UNKNOWN stays so, as the end may come sooner."""
        if count == 0:
            return Cardinality(0)
        if self == INFINITE:
            return Cardinality(count)
        return Cardinality(min(self, count)) if self.known else UNKNOWN

    def less(self, count: int) -> Cardinality:
        """Without the first `count`."""
        return Cardinality(max(0, self - count)) if self.known else self

    @property
    def vague(self) -> Cardinality:
        """When each element becomes any number of others."""
        return self if self == INFINITE else UNKNOWN

    def fills(self, size: int) -> bool:
        """Return whether it is known that groups of `size` leave no remainder."""
        return self == INFINITE or (self.known and self % size == 0)

    def in_groups(self, size: int, *, up: bool) -> Cardinality:
        """In groups of `size`, the last short one counted when `up`."""
        return Cardinality(-(-self // size) if up else self // size) if self.known else self


INFINITE = Cardinality(INFINITE_CARDINALITY)
UNKNOWN = Cardinality(UNKNOWN_CARDINALITY)


def smallest(all_of: Iterable[Cardinality]) -> Cardinality:
    """Return the shortest of datasets that are read side by side; UNKNOWN if one is, as it may be shorter."""
    counts = set(all_of)
    if 0 in counts:
        return Cardinality(0)
    if UNKNOWN in counts:
        return UNKNOWN
    return min((c for c in counts if c.known), default=INFINITE)
