"""The statistics of one component, gathered a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, RaggedText, Stacked, Varied, in_own_kinds, text_column
from headrace.columns.arrow_text import parts
from headrace.columns.text import holds_text
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component
from headrace.feature_column.learners import MAX_EXACT_VALUES, Arrays, Frequencies, Learner
from headrace.feature_column.raw import Raw
from headrace.preprocessing.adapt import flat
from headrace.sinks.spread import Spread

if TYPE_CHECKING:
    pass

LARGEST_EXACT = 1 << 53
"""Integers up to this are exact in float64."""


@dataclass(frozen=True)
class ColumnStatistics:
    """The statistics of one component; None or empty if they do not apply."""

    kind: str
    """"numbers", "text" or "other"."""
    rows: int
    count: int
    """How many values there are, including missing ones."""
    missing: int = 0
    """NaN, or empty texts."""
    min: Component = None
    max: Component = None
    mean: float | None = None
    std: float | None = None
    quantiles: tuple[float, ...] = ()
    """The quartiles; of texts, of their lengths in bytes."""
    histogram: tuple[tuple[int, ...], tuple[float, ...]] = ((), ())
    """How many values are in each bin, and the edges of the bins."""
    unique: int | None = None
    """How many distinct texts, or integers, there are."""
    most_frequent: tuple[tuple[Any, int], ...] = ()
    lengths: tuple[int, float, int] | None = None
    """The least, mean and greatest length of rows along their first axis; of single texts, in bytes."""


class Summary(Learner):
    """Gather the statistics of one component."""

    def __init__(self) -> None:
        self.rows: int = 0
        self.count: int = 0
        self.missing: int = 0
        self.kind: str = ""
        self.whole: bool = True  # of numbers, whether all are integers; of texts, whether all are str
        self.low: Component = None
        self.high: Component = None
        self.measured: int = 0
        self.total: int = 0
        self.least: int = -1
        self.greatest: int = -1
        self.spread: Spread = Spread()
        self.texts: Frequencies = Frequencies()

    def take(self, column: Column) -> None:
        """Add the rows of a block."""
        self.rows += len(column)
        for rows in _alike(in_own_kinds(column)):
            text = _text_of(rows)
            values = _numbers_of(rows) if text is None else None
            self._be("numbers" if values is not None else "other" if text is None else "text")
            lengths = _lengths_of(rows)
            if lengths is not None:
                self._take_lengths(lengths)
            if values is not None:
                self._take_numbers(values)
            if text is not None:
                self._take_text(text, measure=lengths is None)

    def _be(self, kind: str) -> None:
        self.kind = kind if self.kind in ("", kind) else "other"

    def _take_numbers(self, values: Array) -> None:
        self.count += len(values)
        there = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        self.missing += len(values) - len(there)
        self.whole = self.whole and values.dtype.kind != "f"
        if len(there):
            low, high = there.min().item() + 0, there.max().item() + 0  # of two zeros, the one without a sign
            self.low = low if self.low is None else min(low, self.low)
            self.high = high if self.high is None else max(high, self.high)
        self.spread.take(values)

    def _take_text(self, text: Column, *, measure: bool) -> None:
        content, cuts = parts(text)
        sizes = np.diff(cuts)
        self.count += len(text)
        self.missing += int((sizes == 0).sum())
        self.whole = self.whole and (not len(text) or "string" in str(text.type))
        self.texts.take(Raw(len(text), text=(content, cuts)))
        self.spread.take(sizes)
        if measure:
            self._take_lengths(sizes)

    def _take_lengths(self, lengths: NDArray[np.int64]) -> None:
        if len(lengths):
            low, high = int(lengths.min()), int(lengths.max())
            self.least = low if self.least < 0 else min(self.least, low)
            self.greatest = max(self.greatest, high)
            self.total += int(lengths.sum())
            self.measured += len(lengths)

    def statistics(self, bins: int, frequent: int) -> ColumnStatistics:
        """Return what is known."""
        lengths = (self.least, self.total / self.measured, self.greatest) if self.measured else None
        if self.kind not in ("numbers", "text"):
            return ColumnStatistics("other", self.rows, self.rows)
        made: dict[str, Any] = {"kind": self.kind, "rows": self.rows, "count": self.count}
        made |= {"missing": self.missing, "lengths": lengths}
        known = self.spread.known()
        if known is not None:
            mean, std, quartiles, values, counts = known
            shown, edges = _histogram(values, counts, bins)
            made |= {"quantiles": quartiles, "histogram": (tuple(map(int, shown)), tuple(map(float, edges)))}
            if self.kind == "numbers":
                made |= {"min": self.low, "max": self.high, "mean": mean, "std": std}
                if (
                    self.whole
                    and len(values) < MAX_EXACT_VALUES // 2
                    and max(abs(self.low), abs(self.high)) <= LARGEST_EXACT
                ):
                    order = np.lexsort((-values, -counts))[:frequent]
                    made["unique"] = len(values)
                    made["most_frequent"] = tuple((int(values[i]), int(counts[i])) for i in order)
        if self.kind == "text":
            often = self.texts.counted(frequent)
            made["most_frequent"] = tuple((v.decode() if self.whole else v, n) for v, n in often)
            made["unique"] = self.texts.different()
        return ColumnStatistics(**made)

    def arrays(self) -> Arrays:
        """Return the state of the summary."""
        plain = [self.rows, self.count, self.missing, self.measured, self.total, self.least, self.greatest]
        made: Arrays = {"plain": np.array([*plain, self.whole], np.int64), "kind": np.array([self.kind])}
        if self.low is not None:
            made["bounds"] = np.array([self.low, self.high])
        for name, learner in self._parts().items():
            made |= {f"{name} {key}": array for key, array in learner.arrays().items()}
        return made

    def _parts(self) -> dict[str, Learner]:
        return {"spread": self.spread, "texts": self.texts}

    def restore(self, arrays: Arrays) -> None:
        """Restore a state that was returned."""
        self.__init__()  # type: ignore[misc]
        plain = arrays["plain"].tolist()
        self.rows, self.count, self.missing, self.measured, self.total, self.least, self.greatest = plain[:7]
        self.whole, self.kind = bool(plain[7]), str(arrays["kind"][0])
        if "bounds" in arrays:
            self.low, self.high = arrays["bounds"].tolist()
        for name, learner in self._parts().items():
            learner.restore(_share(arrays, name))

    def merge(self, arrays: Arrays) -> None:
        """Merge another summary into this one."""
        other = Summary()
        other.restore(arrays)
        if other.kind:
            self._be(other.kind)
        self.rows, self.count, self.missing = (
            mine + its
            for mine, its in ((self.rows, other.rows), (self.count, other.count), (self.missing, other.missing))
        )
        self.whole = self.whole and other.whole
        self.low = min((each for each in (self.low, other.low) if each is not None), default=None)
        self.high = max((each for each in (self.high, other.high) if each is not None), default=None)
        self.least = min((each for each in (self.least, other.least) if each >= 0), default=-1)
        self.greatest = max(self.greatest, other.greatest)
        self.measured, self.total = self.measured + other.measured, self.total + other.total
        for name, learner in self._parts().items():
            learner.merge(_share(arrays, name))


def _histogram(values: NDArray[np.float64], counts: NDArray[np.int64], bins: int) -> tuple[Any, Any]:
    """Count sorted numbers in `bins` bins, and return the counts and the edges."""
    try:
        return np.histogram(values, bins, weights=counts)
    except ValueError:  # there are no edges between numbers so near to each other, or they are further apart than any
        room = float(np.abs(values).max()) * 2.0**-40
        low, high = float(values[0]) - room, float(values[-1]) + room
        return np.histogram(values, bins, (low, high), weights=counts) if np.isfinite(high - low) else ((), ())


def _share(arrays: Arrays, name: str) -> Arrays:
    return {key.removeprefix(f"{name} "): each for key, each in arrays.items() if key.startswith(f"{name} ")}


# What is known of rows must not depend on which others are in their block: rows that happen to be of one shape are an
# array, others a Ragged, a Varied or a list.


def _alike(column: Column) -> list[Column]:
    """Return the rows as columns of one kind of value: a list row by row, unless it is of texts."""
    if not isinstance(column, list) or all(isinstance(row, str | bytes) for row in column):
        return [column]
    return [_column_of_one(row) for row in column]


def _column_of_one(row: object) -> Column:
    if isinstance(row, Ragged):
        return Ragged._of(row, np.array([0, len(row)]))
    return np.asarray(row)[None] if isinstance(row, np.ndarray | np.generic) else [row]


def _text_of(column: Column) -> Column:
    """Return the texts of a column, None if it holds anything else."""
    if isinstance(column, RaggedText | Stacked):
        return column.inner
    if isinstance(column, list):
        return _as_text(column)
    if isinstance(column, np.ndarray | Ragged | Varied):
        values = flat(column)
        return _as_text(values.tolist()) if isinstance(values, np.ndarray) and values.dtype == object else None
    return column if holds_text(column) and not column.null_count else None


def _as_text(values: list[Component]) -> Column:
    """Return texts in Arrow's layout, as bytes if there are both; no values at all may be texts, too."""
    import pyarrow as pa

    made = text_column(values)
    if not isinstance(made, list) or not all(isinstance(value, str | bytes) for value in values):
        return None if isinstance(made, list) else made
    try:
        return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.large_binary())
    except UnicodeEncodeError:  # lone surrogates
        return None


def _numbers_of(column: Column) -> Array | None:
    """Return the numbers of a column, None if it holds anything else."""
    values = column.packed() if isinstance(column, Varied) else flat(column)
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" else None


def _lengths_of(column: Column) -> NDArray[np.int64] | None:
    """Return how long each row is along its first axis, None if it has none."""
    if isinstance(column, Varied):
        return column.shapes[:, 0]
    if isinstance(column, Ragged):
        return column.row_lengths()
    if isinstance(column, RaggedText):
        return np.diff(column.offsets)
    shape = column.shape if isinstance(column, Stacked) else getattr(column, "shape", ())[1:]
    return np.full(len(column), shape[0]) if shape else None
