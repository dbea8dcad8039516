"""Learners that see a dataset piece by piece: frequencies, quantiles, mean and variance.

The result does not depend on the boundaries of pieces, so that a resumed pass ends like an uninterrupted one. Learners
hold only arrays, which can be stored in a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import binary, parts
from headrace.core.types import Array, Component, LibraryObject, Reduced
from headrace.feature_column.raw import Raw

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
Arrays = dict[str, Array]

ROWS_PER_RUN = 1 << 12
"""Means are computed over runs of this many rows, independent of block boundaries."""
ONCE = np.empty(0, np.int64)
"""For a counter: each value counts as one."""
MAX_EXACT_VALUES = 1 << 20
"""Quantiles are exact up to this many distinct numbers."""


class Learner(ABC):
    """The state of a pass over values. It is sent to other processes as arrays."""

    def __reduce__(self) -> Reduced:
        return _restored, (type(self), self.arrays())

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return all of it, for `restore`."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Know what another did."""

    def merge(self, arrays: Arrays) -> None:  # noqa: ARG002
        """Merge another state, if the order of values does not matter."""
        raise TypeError(f"what {type(self).__name__} knows depends on the order of values")


def _restored(kind: type[Learner], arrays: Arrays) -> Learner:
    made = kind()
    made.restore(arrays)
    return made


class Frequencies(Learner):
    """How often each text, or each integer, occurs."""

    def __init__(self) -> None:
        self._texts = _native.TextCounter()
        self._known: LibraryObject = None  # of integers, an Arrow table of values and counts
        self._new: list[Component] = []
        self._waiting = 0

    def take(self, raw: Raw, missing: NDArray[np.bool_] | None = None) -> None:
        """Count values, less those that stand for nothing."""
        import pyarrow as pa

        if raw.text is not None:
            there = raw.text if missing is None else parts(binary(*raw.text).filter(pa.array(~missing)))
            self._texts.add(*there, ONCE)
            return
        values = pa.array(raw.integers if missing is None else raw.integers[~missing])
        if not len(values):
            return
        counted = values.value_counts()
        self._add(counted.field("values"), counted.field("counts"))

    def _add(self, values: pa.Array, counts: pa.Array) -> None:
        import pyarrow as pa

        self._new.append(pa.table({"value": values, "count": counts}))
        self._waiting += len(values)
        if self._waiting > max(MAX_EXACT_VALUES, 0 if self._known is None else self._known.num_rows):
            self._settle()

    def _settle(self) -> LibraryObject:
        import pyarrow as pa

        if self._new:
            known = [self._known] if self._known is not None else []
            merged = pa.concat_tables([*known, *self._new]).group_by("value", use_threads=False)
            self._known = merged.aggregate([("count", "sum")]).rename_columns(["value", "count"]).combine_chunks()
            self._new, self._waiting = [], 0
        if not len(self._texts):
            return self._known
        if self._known is not None:
            raise TypeError("some values are text and others are integers")
        content, cuts, counts = self._texts.arrays()
        return pa.table({"value": binary(content, cuts), "count": pa.array(counts)})

    def most_frequent(
        self, limit: int | None = None, least: int = 1, without: tuple[object, ...] = ()
    ) -> list[Component]:
        """Return those that occur `least` times or more, the most frequent first; of equals the greater, as
        in Keras.
        """
        if len(self._texts) and not self._has_integers:
            limit = len(self._texts) if limit is None else limit
            found, _ = self._frequent_texts(limit + len(without), least)
            return [text for text in found if text not in without][:limit] if without else found
        known = self._settle()
        if known is None:
            return []
        import pyarrow.compute as pc

        kept = known.filter(pc.greater_equal(known["count"], least))
        for value in without:
            kept = kept.filter(pc.not_equal(kept["value"], value))
        order = pc.sort_indices(kept, [("count", "descending"), ("value", "descending")])
        values: list[Component] = kept["value"].take(order[:limit]).to_pylist()
        return values

    def _frequent_texts(self, limit: int, least: int = 1) -> tuple[list[bytes], list[int]]:
        content, cuts, counts = self._texts.most_frequent(limit, least)
        return _native.text_objects(content, cuts, False).tolist(), counts.tolist()

    @property
    def _has_integers(self) -> bool:
        return bool(self._new) or self._known is not None

    def different(self) -> int:
        """Return how many distinct values there are."""
        known = self._settle()
        return 0 if known is None else int(known.num_rows)

    def counted(self, limit: int) -> tuple[tuple[Any, int], ...]:
        """Return the most frequent values, each with how often it came."""
        if len(self._texts) and not self._has_integers:
            return tuple(zip(*self._frequent_texts(limit), strict=True))
        known = self._settle()
        if known is None:
            return ()
        import pyarrow.compute as pc

        order = pc.sort_indices(known, [("count", "descending"), ("value", "descending")])[:limit]
        found = known.take(order)
        return tuple(zip(found["value"].to_pylist(), found["count"].to_pylist(), strict=True))

    def arrays(self) -> Arrays:
        """Return values and counts."""
        known = self._settle()
        if known is None:
            return {}
        if len(self._texts):
            return dict(zip(("content", "cuts", "counts"), self._texts.arrays(), strict=True))
        return {"integers": known["value"].to_numpy(), "counts": known["count"].to_numpy()}

    def restore(self, arrays: Arrays) -> None:
        """Values and counts."""
        self.__init__()  # type: ignore[misc]
        self.merge(arrays)

    def merge(self, arrays: Arrays) -> None:
        """Add the values that another counted."""
        import pyarrow as pa

        if "integers" in arrays:
            self._add(pa.array(arrays["integers"]), pa.array(arrays["counts"]))
        elif "cuts" in arrays:
            self._texts.add(arrays["content"], arrays["cuts"], arrays["counts"])


class InRuns(Learner):
    """A learner that takes numbers in runs of one size."""

    run: int

    def __init__(self) -> None:
        self._waiting: list[Floats] = []
        self._rows = 0

    def take(self, values: Array) -> None:
        """Numbers, of one row a line."""
        self._waiting.append(np.array(values, np.float64))
        self._rows += len(values)
        if self._rows >= self.run:
            rows = np.concatenate(self._waiting)
            whole = len(rows) - len(rows) % self.run
            for start in range(0, whole, self.run):
                self._fold(rows[start : start + self.run])
            self._waiting, self._rows = [rows[whole:]], len(rows) - whole

    @abstractmethod
    def _fold(self, rows: Floats) -> None: ...

    def arrays(self) -> Arrays:
        """Return what waits for a whole run."""
        return {"waiting": np.concatenate(self._waiting)} if self._rows else {}

    def restore(self, arrays: Arrays) -> None:
        """Restore what waited for a whole run."""
        self._waiting = [arrays["waiting"]] if "waiting" in arrays else []
        self._rows = sum(map(len, self._waiting))


class Moments(InRuns):
    """Mean and variance of each index of a row; NaN and infinity are ignored."""

    run = ROWS_PER_RUN

    def __init__(self) -> None:
        super().__init__()
        self._count: Array = np.zeros(())
        self._mean: Array = np.zeros(())
        self._squares: Array = np.zeros(())

    def _fold(self, rows: Floats) -> None:
        there = np.isfinite(rows)
        here = there.sum(axis=0).astype(np.float64)
        total = self._count + here
        rows = np.where(there, rows, 0)
        mean = rows.sum(axis=0) / np.maximum(here, 1)
        squares = (np.where(there, rows - mean, 0) ** 2).sum(axis=0)
        apart = mean - self._mean
        share = np.where(total > 0, here / np.maximum(total, 1), 0)
        self._squares = self._squares + squares + apart**2 * self._count * share
        self._mean = self._mean + apart * share
        self._count = total

    def moments(self) -> tuple[Any, Any] | None:
        """Mean and variance, None if there was no number."""
        ended = Moments()
        ended.restore(self.arrays())
        if ended._rows:
            ended._fold(np.concatenate(ended._waiting))
        if not ended._count.size or (ended._count == 0).any():
            return None
        return ended._mean, ended._squares / ended._count

    def arrays(self) -> Arrays:
        """Return the sums, and what waits."""
        return {**super().arrays(), "count": self._count, "mean": self._mean, "squares": self._squares}

    def restore(self, arrays: Arrays) -> None:
        """Restore the sums, and what waited."""
        super().restore(arrays)
        self._count, self._mean, self._squares = arrays["count"], arrays["mean"], arrays["squares"]


class Quantiles(InRuns):
    """Numbers in order, each with how often it occurs; NaN and infinity are none.

    With more distinct numbers than `MAX_EXACT_VALUES`, those that agree in all but their last bits are merged: as few
    bits as necessary, so the result depends only on the numbers, neither on their order nor on how they were
    partitioned. Then a quantile is off by less than 0.4 % of itself, and mostly by far less.
    """

    run = MAX_EXACT_VALUES // 2

    def __init__(self) -> None:
        super().__init__()
        self._values: Floats = np.empty(0)
        self._counts = np.empty(0, np.int64)
        self._dropped = 0

    def _fold(self, rows: Floats) -> None:
        self.add(*np.unique(rows[np.isfinite(rows)], return_counts=True))

    def add(self, values: Floats, counts: NDArray[np.int64]) -> None:
        """Numbers in order, and how often each came."""
        values = np.concatenate([self._values, self._coarse(values)])
        if not len(values):
            return
        order = np.argsort(values, kind="stable")  # two runs that are in order, which it finds
        self._counts = np.concatenate([self._counts, counts])[order]
        self._values = values[order]
        self._put_together()
        if len(self._values) > MAX_EXACT_VALUES:
            keys = _bits_in_order(self._values)
            while np.count_nonzero(np.diff(keys >> self._dropped)) >= MAX_EXACT_VALUES:
                self._dropped += 1
            self._values = self._coarse(self._values)
            self._put_together()

    def _put_together(self) -> None:
        first = np.flatnonzero(np.concatenate([[True], self._values[1:] != self._values[:-1]]))
        self._values, self._counts = self._values[first], np.add.reduceat(self._counts, first)

    def _coarse(self, values: Floats) -> Floats:
        """Return each number as the middle of those that count as one with it."""
        if not self._dropped:
            return values
        keys = _bits_in_order(values)
        return _of_bits((keys >> self._dropped << self._dropped) + (1 << self._dropped - 1))

    def quantiles(self, buckets: int) -> list[float]:
        """Return the boundaries between buckets of sizes as equal as possible; [] if there was no number."""
        return [float(bound) for bound in np.unique(self.at(buckets))]

    def at(self, buckets: int) -> tuple[float, ...]:
        """Return the same, of which several may be one number."""
        values, counts = self.counted()
        if not len(values):
            return ()
        ends = np.cumsum(counts)
        at = np.arange(1, buckets) / buckets * (int(ends[-1]) - 1)
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, int(ends[-1]) - 1)
        low, high = (values[np.searchsorted(ends, each, "right")] for each in (below, above))
        part = at - below
        between = np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))  # as NumPy does
        return tuple(map(float, np.where(low == high, low, between)))

    def counted(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the different numbers, and how often each came."""
        ended = Quantiles()
        ended.restore(self.arrays())
        if ended._rows:
            ended._fold(np.concatenate(ended._waiting))
        return ended._values, ended._counts

    def arrays(self) -> Arrays:
        """Return the numbers, and what waits."""
        dropped = np.array(self._dropped)
        return {**super().arrays(), "values": self._values, "counts": self._counts, "dropped": dropped}

    def restore(self, arrays: Arrays) -> None:
        """Restore the numbers, and what waited."""
        super().restore(arrays)
        self._values, self._counts, self._dropped = arrays["values"], arrays["counts"], int(arrays["dropped"])

    def merge(self, arrays: Arrays) -> None:
        """Add the numbers of another."""
        if int(arrays["dropped"]) > self._dropped:
            self._dropped = int(arrays["dropped"])
            self._values = self._coarse(self._values)
        self.add(arrays["values"], arrays["counts"])
        if "waiting" in arrays:
            self.take(arrays["waiting"])


def _bits_in_order(values: Floats) -> NDArray[np.int64]:
    """Return integers in the same order as these numbers, adjacent if the numbers are."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.int64(-(1 << 63)) - bits, bits)


def _of_bits(keys: NDArray[np.int64]) -> Floats:
    return np.where(keys < 0, -np.abs(keys).view(np.float64), np.abs(keys).view(np.float64))
