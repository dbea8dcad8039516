"""Datasets in one, by weights that are kept exactly and may change on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native, keys
from headrace.block import Block, folded, pick_rows, scalar_block
from headrace.columns import Indices
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.keys import Seed
from headrace.ops.arguments import integer
from headrace.ops.choose import ChooseStream, Ended, check_weights
from headrace.ops.gather import NumberStream
from headrace.ops.repeat import Repeat
from headrace.ops.zip import branch_context
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node, places, user_site
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.sources.numbered import ENDLESS, Numbered, NumberedStream

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Weights = Mapping[str, float] | Sequence[float]
UNIT = 1 << 30
"""Shares are kept in parts of this."""


def mix(
    datasets: Mapping[str, Dataset],
    weights: Weights | None = None,
    seed: int | None = None,
    *,
    schedule: Mapping[int, Weights] | None = None,
    repeat: bool = True,
    name: str | None = None,
) -> Dataset:
    """Elements of several datasets, `weights[name]` of them from each: exactly, of every 256 and of all up to there.

    Datasets begin anew when they are through, each in epochs of its own; with `repeat=False` it ends where one has no
    element for its turn. `schedule` are weights for later, by the number of the element from which they hold. Whose
    turn it is follows from the seed and the position alone: where all datasets can be indexed, so can the mixture.

    >>> web, code = hr.Dataset.range(1000), hr.Dataset.range(-5, 0)
    >>> ds = hr.mix({"web": web, "code": code}, {"web": 3, "code": 1}, seed=1, schedule={512: {"web": 1, "code": 0}})
    >>> [sum(int(x) < 0 for x in ds[a : a + 256]) for a in (0, 256, 512)]
    [64, 64, 0]
    """
    from headrace.dataset import Dataset

    if not isinstance(datasets, Mapping) or not datasets:
        raise TypeError(f"mix takes a dict of datasets by their names, not {datasets!r}")
    for key, given in datasets.items():
        if not isinstance(given, Dataset):
            raise TypeError(f"mix takes Datasets, {key!r} is {given!r}")
        if given._node.cardinality == 0:
            raise ValueError(f"mix: {key!r} has no elements")
    names = tuple(map(str, datasets))
    nodes = tuple(ds._node for ds in datasets.values())
    for i, node in enumerate(nodes):
        reason = nodes[0].spec.mismatch(node.spec)
        if reason is not None:
            raise SpecError(f"mix: the elements of {names[0]!r} and {names[i]!r} differ: {reason}")
    site = user_site()
    choices = MixChoices(names, _segments(names, weights, schedule), keys.seed(seed), site=site)
    branches = tuple(Repeat(node, None, site=site) for node in nodes) if repeat else nodes
    return Dataset(Mix((*branches, choices), places([*branches, choices]), site=site, name=name))


Segments = tuple[tuple[int, tuple[float, ...]], ...]
"""From which element on which weights hold."""


def _segments(names: tuple[str, ...], weights: Weights | None, schedule: Mapping[int, Weights] | None) -> Segments:
    first: Weights = [1.0] * len(names) if weights is None else weights
    later = {integer("a step of schedule", step): each for step, each in (schedule or {}).items()}
    if any(step < 1 for step in later):
        raise ValueError(f"schedule says from which element on weights hold: steps from 1 on, not {min(later)}")
    return tuple((step, _shares(names, each)) for step, each in sorted({0: first, **later}.items()))


def _shares(names: tuple[str, ...], weights: Weights) -> tuple[float, ...]:
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ValueError(f"mix: weights are of {sorted(weights)}, datasets {sorted(names)}")
        weights = [weights[name] for name in names]
    shares = np.asarray(weights, np.float64)
    check_weights(shares, len(names))
    if not shares.any():
        raise ValueError(f"weights must not all be 0: {shares.tolist()}")
    return tuple(shares.tolist())


def halved(weights: tuple[float, ...]) -> Indices:
    """In a tree that halves the numbers of branches: which part falls to those before each, of those around it."""
    shares = np.zeros(len(weights), np.int64)

    def split(first: int, stop: int) -> float:
        if stop - first == 1:
            return weights[first]
        middle = first + (stop - first) // 2
        left, right = split(first, middle), split(middle, stop)
        if left + right:
            part = round(left / (left + right) * UNIT)
            shares[middle] = min(max(part, int(left > 0)), UNIT - int(right > 0))  # who has a share has a part
        return left + right

    split(0, len(weights))
    return shares


@dataclass(frozen=True, eq=False)
class MixChoices(Numbered):
    """Whose turn it is: a source of the numbers of branches, without end."""

    names: tuple[str, ...]
    segments: Segments
    seed: Seed

    @property
    def operation(self) -> str:
        return "turns"

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.int64),))

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE

    def find(self, path: int, indices: Indices) -> tuple[Indices, Indices]:
        """The branch at each of these places, and which of its rows it is."""
        law = _Law(self, path)
        found = np.empty((2, len(indices)), np.int64)
        if len(law.starts) == 1:
            _native.mix_rows(law.keys[0], law.shares[0], np.ascontiguousarray(indices), found[0], found[1])
            return found[0], found[1]
        segment_of = np.searchsorted(law.starts, indices, side="right") - 1
        for segment in np.flatnonzero(np.bincount(segment_of)).tolist():
            within = segment_of == segment
            part = np.empty((2, int(within.sum())), np.int64)
            _native.mix_rows(law.keys[segment], law.shares[segment], indices[within] - law.starts[segment], *part)
            found[0, within], found[1, within] = part[0], part[1] + law.before[segment][part[0]]
        return found[0], found[1]


class _Law:
    """What the kernel needs, segment by segment."""

    def __init__(self, node: MixChoices, path: int) -> None:
        key = node.seed.key(path)
        self.starts = np.array([start for start, _ in node.segments], np.int64)
        self.keys = [keys.mix_key(key, segment) for segment in range(len(self.starts))]
        self.shares = [halved(weights) for _, weights in node.segments]
        self.before = [np.zeros(len(node.names), np.int64)]
        for segment, (start, stop) in enumerate(pairwise(self.starts.tolist())):
            self.before.append(self.before[-1] + self._counts(segment, stop - start))

    def _counts(self, segment: int, rows: int) -> Indices:
        counts = np.empty(len(self.before[0]), np.int64)
        _native.mix_counts(self.keys[segment], self.shares[segment], rows, counts)
        return counts


@fetches(MixChoices)
def fetch_choices(node: MixChoices, ctx: Context, indices: Indices) -> Block:
    """Turns by number."""
    return scalar_block(node.find(ctx.path, indices)[0], ctx.ids(indices))


@opens(MixChoices)
def open_choices(node: MixChoices, ctx: Context, at: At) -> Stream:  # noqa: ARG001 - a place is a number
    """The turns."""
    return NumberedStream(node, lambda start, stop: fetch_choices(node, ctx, np.arange(start, stop)))


@dataclass(frozen=True, eq=False)
class Mix(Node):
    """Row i comes from the branch whose turn it is, which the last branch says."""

    branches: tuple[Node, ...]
    places: tuple[int, ...] = field(repr=False)

    stop_on_empty = True

    @property
    def choices(self) -> MixChoices:
        """Whose turn it is."""
        found = self.branches[-1]
        assert isinstance(found, MixChoices)
        return found

    @property
    def spec(self) -> Spec:
        return reduce(Spec.common, [node.spec for node in self.branches[:-1]])

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE if {node.cardinality for node in self.branches} == {INFINITE} else UNKNOWN

    @property
    def indexable(self) -> bool:
        return self.cardinality == INFINITE and all(node.indexable for node in self.branches)


@fetches(Mix)
def fetch_mixed(node: Mix, ctx: Context, indices: Indices) -> Block:
    """Rows of whichever branches have their turn."""
    which, rows = node.choices.find(branch_context(ctx, node.places[-1]).path, indices)
    order = np.argsort(which, kind="stable")
    present, counts = np.unique(which, return_counts=True)
    parts = []
    for branch, numbers in zip(present.tolist(), np.split(rows[order], np.cumsum(counts)[:-1]), strict=True):
        block = branch_context(ctx, node.places[branch]).fetch(node.branches[branch], numbers)
        block.ids = folded(block.ids, branch + 1)
        parts.append(block)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pick_rows(parts, back)


@opens(Mix, own=Ended)
def open_mixed(node: Mix, ctx: Context, at: At) -> Stream:
    """By number where that can be: then any place is found at once. Else each dataset in turn."""
    return NumberStream(ctx, node, ENDLESS, np.arange) if node.addressable else ChooseStream(node, ctx, at)
