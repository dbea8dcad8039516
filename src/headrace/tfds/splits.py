"""TFDS's language of splits: `train`, `train[:80%]`, `train[-1shard:]`, `train[:5]+test[-2:]`, `all`."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from headrace.errors import what_there_is

_PART = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<bounds>[\w%:.-]+)\])?")
_BOUND = re.compile(r"(?:(?P<number>-?[\d_.]+)(?P<unit>%|shard)?)?")
UNITS = ("abs", "%", "shard")
ROUNDINGS = ("closest", "pct1_dropremainder")

SplitLike: TypeAlias = Any
"""What a `split=` may be: a name with slices, an `AbstractSplit`, or a list, tuple or dict of these; None for all."""

Lengths: TypeAlias = Mapping[str, Sequence[int]]
"""The lengths of the shards of each split."""


class RowRange(NamedTuple):
    """Rows of one split, counted over its shards."""

    split: str
    start: int
    stop: int


class AbstractSplit(ABC):
    """Rows of one or more splits; `+` concatenates two of them."""

    @abstractmethod
    def ranges(self, lengths: Lengths) -> list[RowRange]:
        """Return which rows these are, in a dataset whose splits have shards of these lengths."""

    def __add__(self, other: str | AbstractSplit) -> AbstractSplit:
        return SplitSum((self, as_split(other)))

    def __radd__(self, other: str | AbstractSplit) -> AbstractSplit:
        return as_split(other) + self


@dataclass(frozen=True)
class ReadInstruction(AbstractSplit):
    """A part of one split, like tfds.core.ReadInstruction.

    `unit` is "abs", "%" or "shard". `rounding` is "closest", or "pct1_dropremainder", by which every percent has the
    same number of rows and those left over belong to none.

    Args:
        split_name: Name of the split.
        from_: Start of the part.
        to: End of the part.
        unit: "abs" for rows, "%" for percent, "shard" for files.
        rounding: "closest" or "pct1_dropremainder".

    >>> hr.tfds.ReadInstruction("train", to=10, unit="%")
    ReadInstruction('train[:10%]')
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: str = "abs"
    rounding: str = "closest"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"the unit of a split is one of {', '.join(UNITS)}, not {self.unit!r}")
        if self.rounding not in ROUNDINGS:
            raise ValueError(f"the rounding of a split is one of {', '.join(ROUNDINGS)}, not {self.rounding!r}")
        if self.unit == "%" and max(abs(self.from_ or 0), abs(self.to or 0)) > 100:
            raise ValueError(f"{self}: percentages must be between -100 and 100")

    def __str__(self) -> str:
        if self.from_ is None and self.to is None:
            return self.split_name
        unit = "" if self.unit == "abs" else self.unit
        first, last = ("" if bound is None else f"{bound:g}{unit}" for bound in (self.from_, self.to))
        return f"{self.split_name}[{first}:{last}]"

    def __repr__(self) -> str:
        rounding = f", rounding={self.rounding!r}" if self.rounding != "closest" else ""
        return f"ReadInstruction({str(self)!r}{rounding})"

    def ranges(self, lengths: Lengths) -> list[RowRange]:
        """Return one run of rows."""
        if self.split_name not in lengths:
            raise ValueError(f"there is no split {self.split_name!r}: {what_there_is(self.split_name, list(lengths))}")
        shards = lengths[self.split_name]
        count = sum(shards)
        start, stop = self._start(shards, count), self._stop(shards, count)
        for row in (start, stop):
            if abs(row) > count:
                raise ValueError(f"{self}: row {row} of a split that has {count} rows")
        start, stop = (row + count if row < 0 else row for row in (start, stop))
        if start > stop:
            raise ValueError(f"{self} ends (at row {stop}) before it begins (at row {start})")
        return [RowRange(self.split_name, start, stop)]

    def _start(self, shards: Sequence[int], count: int) -> int:
        if self.from_ is None:
            return 0
        return self._row(self.from_, shards, count)

    def _stop(self, shards: Sequence[int], count: int) -> int:
        if self.to is None:
            return count
        if self.unit == "shard" and self.to == 0:
            raise ValueError(f"{self} takes no shard at all; for all shards write {self.split_name}")
        return self._row(self.to, shards, count)

    def _row(self, bound: float, shards: Sequence[int], count: int) -> int:
        if self.unit == "%":
            return self._percent(bound, count)
        if self.unit == "shard":
            number = int(bound)
            if number < -len(shards):
                raise ValueError(f"{self}: shard {number} of a split that has {len(shards)}")
            return sum(shards[: number if number >= 0 else len(shards) + number])
        return int(bound)

    def _percent(self, bound: float, count: int) -> int:
        if self.rounding == "closest":
            return round(bound * count / 100.0)
        if count < 100:
            raise ValueError(
                f"{self}: a percent of {count} rows is none with rounding='pct1_dropremainder'; use 'closest'"
            )
        return math.trunc(bound * (count // 100))


@dataclass(frozen=True)
class SplitSum(AbstractSplit):
    """Concatenated splits."""

    parts: tuple[AbstractSplit, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    def ranges(self, lengths: Lengths) -> list[RowRange]:
        """Return the rows of each."""
        return [found for part in self.parts for found in part.ranges(lengths)]


@dataclass(frozen=True)
class AllSplits(AbstractSplit):
    """Every split that there is."""

    def __str__(self) -> str:
        return "all"

    def ranges(self, lengths: Lengths) -> list[RowRange]:
        """Return all rows."""
        return [RowRange(name, 0, sum(shards)) for name, shards in lengths.items()]


@dataclass(frozen=True)
class EvenSplit(AbstractSplit):
    """Part `index` of `count` equal ones."""

    split: AbstractSplit
    index: int
    count: int
    drop_remainder: bool = False

    def __str__(self) -> str:
        return f"{self.split} ({self.index + 1} of {self.count})"

    def ranges(self, lengths: Lengths) -> list[RowRange]:
        """Return the part of each run; if the division leaves a remainder, the first parts have one more row."""
        return [self._share(rows) for rows in self.split.ranges(lengths)]

    def _share(self, rows: RowRange) -> RowRange:
        each, left = divmod(rows.stop - rows.start, self.count)
        more = 0 if self.drop_remainder else left
        first, last = (rows.start + each * i + min(i, more) for i in (self.index, self.index + 1))
        return RowRange(rows.split, first, last)


def even_splits(split: str | AbstractSplit, n: int, *, drop_remainder: bool = False) -> list[AbstractSplit]:
    """Divide a split into `n` disjoint parts, each a value for `split=`.

    If the division leaves a remainder, the first parts have one more row; with `drop_remainder` it is left out.

    Args:
        split: Split to divide.
        n: Number of parts.
        drop_remainder: Whether to drop the last batch if it is short.

    >>> [str(part) for part in hr.tfds.even_splits("train", 2)]
    ['train (1 of 2)', 'train (2 of 2)']
    """
    if n < 1:
        raise ValueError(f"even_splits takes a number of at least 1, not {n}")
    return [EvenSplit(as_split(split), index, n, drop_remainder) for index in range(n)]


def as_split(split: str | AbstractSplit) -> AbstractSplit:
    """Return what a split says; one as text is read."""
    if isinstance(split, AbstractSplit):
        return split
    if not isinstance(split, str):
        raise TypeError(f"a split is text such as 'train[:80%]', or a ReadInstruction, not {split!r}")
    parts = [_parse_part(part, split) for part in re.split(r"\s*\+\s*", split)]
    return parts[0] if len(parts) == 1 else SplitSum(tuple(parts))


def _parse_part(text: str, whole: str) -> AbstractSplit:
    found = _PART.fullmatch(text)
    if found is None:
        raise _unreadable(whole, text)
    name, bounds = found["name"], found["bounds"]
    if bounds is None:
        return AllSplits() if name == "all" else ReadInstruction(name)
    if name == "all":
        raise ValueError(f"split {whole!r}: 'all' has no slices; name the splits: 'train[:10]+test[:10]'")
    matches = [_BOUND.fullmatch(bound) for bound in bounds.split(":")]
    if len(matches) > 2 or any(m is None for m in matches) or not any(m and m[0] for m in matches):
        raise _unreadable(whole, text)
    unit = next((m["unit"] for m in matches if m and m["unit"]), "abs")
    numbers = [_number(m["number"], unit, whole) if m else None for m in matches]
    if len(numbers) == 2:
        return ReadInstruction(name, numbers[0], numbers[1], unit)
    first = numbers[0]
    if unit != "shard" or first is None:
        raise ValueError(f"split {whole!r}: a single number stands for a shard alone, as in train[1shard]; use a:b")
    return ReadInstruction(name, first, None if first == -1 else first + 1, unit)


def _number(text: str | None, unit: str, whole: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text) if unit == "%" else int(text)
    except ValueError:
        raise ValueError(f"split {whole!r}: {text!r} is no number") from None


def _unreadable(whole: str, part: str) -> ValueError:
    where = "" if part == whole else f", at {part!r}"
    return ValueError(
        f"split {whole!r} cannot be read{where}: write train, train[:80%], train[10:20], train[-1shard:], a sum, or all"
    )
