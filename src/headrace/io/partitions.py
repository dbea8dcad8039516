"""Features as ragged tensors of any depth: values in one list, and in others how they are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.core.override import override
from headrace.core.ragged import Ragged
from headrace.errors import ParseError
from headrace.io.feature import DTYPES, INT64, Feature, FoundValues, Request, varying
from headrace.plan.spec import TensorSpec

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class RowSplits:
    """A list of where each row begins, and where the last one ends."""

    key: str

    def lengths(self, cuts: Ragged, totals: Lengths) -> tuple[Lengths, Lengths]:  # noqa: ARG002
        """Return how many rows each record has, and how long each of them is."""
        counts = np.maximum(cuts.row_lengths() - 1, 0)
        within = np.ones(max(len(cuts.values) - 1, 0), bool)
        edges = cuts.offsets[(cuts.offsets > 0) & (cuts.offsets < len(cuts.values))]
        within[edges - 1] = False
        return counts, np.diff(cuts.values)[within]


@dataclass(frozen=True)
class RowLengths:
    """A list of how long each row is."""

    key: str

    def lengths(self, cuts: Ragged, totals: Lengths) -> tuple[Lengths, Lengths]:  # noqa: ARG002
        """Return how many rows each record has, and how long each of them is."""
        return cuts.row_lengths(), cuts.values


@dataclass(frozen=True)
class RowLimits:
    """A list of where each row ends."""

    key: str

    def lengths(self, cuts: Ragged, totals: Lengths) -> tuple[Lengths, Lengths]:  # noqa: ARG002
        """Return how many rows each record has, and how long each of them is."""
        counts, limits = cuts.row_lengths(), cuts.values
        before = np.concatenate([np.zeros(1, np.int64), limits])[: len(limits)]
        before[cuts.offsets[:-1][counts > 0]] = 0
        return counts, limits - before


@dataclass(frozen=True)
class RowStarts:
    """A list of where each row begins."""

    key: str

    def lengths(self, cuts: Ragged, totals: Lengths) -> tuple[Lengths, Lengths]:
        """Return how many rows each record has, and how long each of them is."""
        counts, starts = cuts.row_lengths(), cuts.values
        after = np.concatenate([starts, np.zeros(1, np.int64)])[1:]
        after[cuts.offsets[1:][counts > 0] - 1] = totals[counts > 0]
        return counts, after - starts


@dataclass(frozen=True)
class ValueRowIds:
    """A list of the row that each value belongs to."""

    key: str

    def lengths(self, cuts: Ragged, totals: Lengths) -> tuple[Lengths, Lengths]:  # noqa: ARG002
        """Return how many rows each record has, and how long each of them is."""
        ids, per_record = cuts.values, cuts.row_lengths()
        first = np.concatenate([np.ones(1, bool), np.diff(ids) >= 0])[: len(ids)]
        first[cuts.offsets[:-1][per_record > 0]] = True
        record = np.repeat(np.arange(len(cuts)), per_record)
        beyond = ids >= 2**31
        if (wrong := ~first | (ids < 0) | beyond).any():
            raise ParseError(f"feature {self.key!r} holds row numbers that do not rise", int(record[wrong.argmax()]))
        counts = np.zeros(len(cuts), np.int64)
        full = per_record > 0
        counts[full] = ids[cuts.offsets[1:][full] - 1] + 1
        begin = np.cumsum(counts) - counts
        return counts, np.bincount(ids + begin[record], minlength=int(counts.sum())).astype(np.int64)


@dataclass(frozen=True)
class UniformRowLength:
    """Rows of one length."""

    length: int


Partition: TypeAlias = RowSplits | RowLengths | RowLimits | RowStarts | ValueRowIds | UniformRowLength


@dataclass(frozen=True)
class RaggedFeature(Feature):
    """Any number of values, cut by `partitions` from the outermost to the innermost.

    The offsets of an hr.Ragged are int64 whatever `row_splits_dtype` says, and partitions are always checked.

    Args:
        dtype: Data type.
        value_key: Name of the feature that contains the values. Default: its own name.
        partitions: How the values are divided into rows.
        row_splits_dtype: Data type of the row offsets.
        validate: Whether to check the partitions.

    >>> record = hr.io.encode_example({"words": [b"a", b"b", b"c"], "lengths": [2, 0, 1]})
    >>> feature = hr.io.RaggedFeature(bytes, "words", [hr.io.RaggedFeature.RowLengths("lengths")])
    >>> hr.io.parse_single_example(record, {"sentences": feature})
    {'sentences': Ragged([[b'a', b'b'], [], [b'c']], dtype=object)}
    """

    dtype: DTypeLike
    value_key: str | None = None
    partitions: Sequence[Partition] = ()
    row_splits_dtype: DTypeLike = np.int64
    validate: bool = False

    RowSplits = RowSplits
    RowLengths = RowLengths
    RowStarts = RowStarts
    RowLimits = RowLimits
    ValueRowIds = ValueRowIds
    UniformRowLength = UniformRowLength

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(self.partitions))
        for partition in self.partitions:
            if not isinstance(partition, Partition):
                raise TypeError(f"partitions are RaggedFeature.RowSplits and the like, not {partition!r}")
            if isinstance(partition, UniformRowLength) and partition.length < 1:
                raise ValueError(f"a uniform row length must be positive, not {partition.length}")

    def requests(self, name: str, *, single: bool, in_steps: bool) -> list[Request]:
        """Return the values, and a list for each partition that has one."""
        keys = [p.key for p in self.partitions if not isinstance(p, UniformRowLength)]
        cuts = [varying(key, INT64, single=single, in_steps=in_steps) for key in keys]
        return [varying(self.value_key or name, self.kind, single=single, in_steps=in_steps), *cuts]

    @override
    def column(self, name: str, found: Sequence[FoundValues], rows: int) -> Ragged:
        """Ragged; with partitions its values are dense or ragged in their turn."""
        made, cuts = found[0].ragged, list(found[1:])
        for partition in reversed(self.partitions):
            made = _cut(made, partition, None if isinstance(partition, UniformRowLength) else cuts.pop().ragged, name)
        return made

    def spec(self, *, batch: bool) -> TensorSpec:
        """Return the spec: only uniform lengths are known, if no ragged axis is inside."""
        inner: list[int | None] = []
        for partition in reversed(self.partitions):
            known = isinstance(partition, UniformRowLength) and None not in inner
            inner.insert(0, partition.length if known and isinstance(partition, UniformRowLength) else None)
        return TensorSpec((None,) * batch + (None, *inner), DTYPES[self.kind])


def _cut(whole: Ragged, partition: Partition, cuts: Ragged | None, name: str) -> Ragged:
    """Return the rows of each record put together to longer ones."""
    totals = whole.row_lengths()
    if isinstance(partition, UniformRowLength):
        uneven = totals % partition.length != 0
        if uneven.any():
            row = int(uneven.argmax())
            raise ParseError(f"feature {name!r} has {totals[row]} values for rows of {partition.length}", row)
        counts = totals // partition.length
        lengths = np.full(int(counts.sum()), partition.length, np.int64)
    else:
        assert cuts is not None
        counts, lengths = partition.lengths(cuts, totals)
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    negative = np.repeat(np.arange(len(whole)), counts)[lengths < 0]
    wrong = ends[begins[1:]] - ends[begins[:-1]] != totals
    if len(negative) or wrong.any():
        row = int(negative[0]) if len(negative) else int(wrong.argmax())
        raise ParseError(f"feature {name!r}: {partition!r} does not cut its {totals[row]} values into rows", row)
    content = whole.values
    if isinstance(partition, UniformRowLength) and not isinstance(content, Ragged):
        return Ragged._of(content.reshape(-1, partition.length, *content.shape[1:]), begins)
    return Ragged._of(Ragged._of(content, ends), begins)
