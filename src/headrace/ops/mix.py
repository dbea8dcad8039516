"""Mix datasets by weights that are kept exactly and may change over time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, folded, pick_rows, scalar_block
from headrace.core import keys
from headrace.core.keys import Seed
from headrace.core.types import JsonValue, UserFunction
from headrace.errors import SpecError, StateError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.indexed.numbered import Numbered, NumberedStream
from headrace.ops.choose import ChooseStream, check_weights
from headrace.ops.repeat import Repeat
from headrace.ops.shared.arguments import integer, one_of
from headrace.ops.shared.counted_mix import CountedMixStream, Later
from headrace.ops.shared.gather import NumberStream
from headrace.ops.shared.mix_counts import MixCounts, Unit
from headrace.ops.shared.mix_history import MixHistory, MixSegment, check_names, forgotten, law_of
from headrace.ops.shared.row_sizes import size_arguments
from headrace.ops.zip import branch_context
from headrace.plan.cardinality import ENDLESS, INFINITE, UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.marks import At, OwnMark
from headrace.plan.node import TUNING, Node, places, user_site
from headrace.plan.once import cached_property
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Weights = Mapping[str, float] | Sequence[float]
OnChange = Literal["refuse", "adopt"]
"""What to do with a state of another mixture."""


def mix(
    datasets: Mapping[str, Dataset],
    weights: Weights | Literal["proportional"] | None = None,
    seed: int | None = None,
    *,
    schedule: Mapping[int, Weights] | None = None,
    temperature: float = 1.0,
    unit: Unit = "rows",
    length: Callable[..., object] | str | int | None = None,
    repeat: bool = True,
    on_change: OnChange = "refuse",
    name: str | None = None,
) -> Dataset:
    """Mix several datasets by weights that are kept exactly: of every 256 elements, and of all up to any of them.

    Whose turn it is follows from the seed and the position alone: if all datasets can be indexed, so can the mixture.
    While running, `it.set_weights({...})` changes the weights from the next element on, and `it.mixture_report()` says
    how many rows of each dataset came so far. Both are part of a state.

    With `unit="tokens"` the weights are shares of tokens. They are kept to about one row of each dataset. Datasets are
    then read in turn, because whose turn it is depends on the lengths of the elements before.

    Args:
        datasets: The datasets by name.
        weights: How much of each, by name or in order. "proportional" takes the lengths. Default: equal.
        seed: Seed of the order. Default: `hr.set_random_seed`'s, else another one in each run.
        schedule: Weights for later, by the number of the element from which they hold.
        temperature: Proportional weights are raised to 1 / temperature: above 1, small datasets get more.
        unit: What weights are shares of: "rows" or "tokens".
        length: How many tokens an element has: a function, or the key of a component, whose first axis is counted (a
            number is taken as it is). Default for `unit="tokens"`: the only component. With `unit="rows"` it makes
            `it.mixture_report()` count tokens, and datasets are read in turn.
        repeat: Begin datasets anew when they are through, each in epochs of its own. Otherwise the mixture ends where a
            dataset has no element for its turn.
        on_change: What becomes of a state that was taken with other weights or other datasets. "refuse" raises a
            StateError. "adopt" goes on with the new ones: each dataset that both have goes on exactly where it stood,
            a new one begins, and one that is gone is left.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of the elements of all.

    Raises:
        SpecError: The elements of the datasets differ.
        ValueError: Weights are negative, all 0, or of other names.

    >>> web, code = hr.Dataset.range(1000), hr.Dataset.range(-5, 0)
    >>> ds = hr.mix({"web": web, "code": code}, {"web": 3, "code": 1}, seed=1, schedule={512: {"web": 1, "code": 0}})
    >>> [sum(int(x) < 0 for x in ds[a : a + 256]) for a in (0, 256, 512)]
    [64, 64, 0]
    >>> short, long = (hr.Dataset.from_tensors(np.arange(size)) for size in (10, 90))
    >>> it = iter(hr.mix({"short": short, "long": long}, seed=1, unit="tokens"))
    >>> sum(len(next(it)) == 90 for _ in range(1000))
    100
    """
    if not isinstance(datasets, Mapping) or not datasets:
        raise TypeError(f"mix takes a dict of datasets by their names, not {datasets!r}")
    for key, given in datasets.items():
        if not is_dataset(given):
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
    one_of("on_change", on_change, OnChange)
    one_of("unit", unit, Unit)
    if unit == "tokens" and isinstance(weights, str):
        raise ValueError('mix: proportional weights count rows: give numbers with unit="tokens"')
    counts = unit == "tokens" or length is not None
    sized = size_arguments("mix", "length", length, nodes[0].spec) if counts else (None, None)
    shares = _proportional(names, nodes, weights, temperature)
    choices = MixChoices(names, _segments(names, shares, schedule), keys.seed(seed), site=site)
    branches = tuple(Repeat(node, None, site=site) for node in nodes) if repeat else nodes
    where = places([*branches, choices])
    return dataset_of(Mix((*branches, choices), where, on_change, unit, counts, *sized, site=site, name=name))


def _proportional(
    names: tuple[str, ...], nodes: tuple[Node, ...], weights: Weights | str | None, temperature: float
) -> Weights | None:
    """The lengths of datasets as weights, if these are asked for."""
    if not isinstance(weights, str):
        if temperature != 1:
            raise ValueError('mix: temperature is for weights="proportional"')
        return weights
    if weights != "proportional":
        raise ValueError(f'mix: weights are numbers or "proportional", not {weights!r}')
    if not temperature > 0:
        raise ValueError(f"mix: temperature must be above 0, not {temperature}")
    unknown = [name for name, node in zip(names, nodes, strict=True) if not node.cardinality.known]
    if unknown:
        raise ValueError(f"mix: the length of {unknown[0]!r} is not known, so weights cannot be proportional to it")
    return [float(node.cardinality) ** (1 / temperature) for node in nodes]


Segments = tuple[tuple[int, tuple[float, ...]], ...]
"""From which element on which weights hold, as the user wrote it."""


def _segments(names: tuple[str, ...], weights: Weights | None, schedule: Mapping[int, Weights] | None) -> Segments:
    first: Weights = [1.0] * len(names) if weights is None else weights
    later = {integer("a step of schedule", step): each for step, each in (schedule or {}).items()}
    if any(step < 1 for step in later):
        raise ValueError(f"schedule says from which element on weights hold: steps from 1 on, not {min(later)}")
    return tuple((step, shares_of(names, each)) for step, each in sorted({0: first, **later}.items()))


def shares_of(names: tuple[str, ...], weights: Weights) -> tuple[float, ...]:
    """The weights in the order of the names."""
    if isinstance(weights, Mapping):
        check_names(weights, names)
        weights = [weights[name] for name in names]
    shares = np.asarray(weights, np.float64)
    check_weights(shares, len(names))
    if not shares.any():
        raise ValueError(f"weights must not all be 0: {shares.tolist()}")
    return tuple(shares.tolist())


@dataclass(frozen=True, eq=False)
class MixChoices(Numbered):
    """The chosen branches: an endless source of branch numbers."""

    names: tuple[str, ...]
    segments: Segments
    seed: Seed
    changed: MixHistory | None = field(default=None, repr=False, metadata=TUNING)

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
        return law_of(self.history, self.names, self.seed.key(path)).find(np.ascontiguousarray(indices))

    @cached_property
    def history(self) -> MixHistory:
        """The weights of each segment of rows, with those that were set while running."""
        return self.changed or MixHistory(self.written)

    @property
    def written(self) -> tuple[MixSegment, ...]:
        """The weights and the schedule that the user wrote."""
        return tuple(MixSegment(start, self.names, weights) for start, weights in self.segments)


@fetches(MixChoices)
def fetch_choices(node: MixChoices, ctx: Context, indices: Indices) -> Block:
    """Turns by number."""
    return scalar_block(node.find(ctx.path, indices)[0], ctx.ids(indices))


@opens(MixChoices)
def open_choices(node: MixChoices, ctx: Context, _at: At) -> Stream:
    """Return the turns."""
    return NumberedStream(node, lambda start, stop: fetch_choices(node, ctx, np.arange(start, stop)))


@dataclass(frozen=True, eq=False)
class Mix(Node):
    """Take row i from the branch that the last branch names."""

    branches: tuple[Node, ...]
    places: tuple[int, ...] = field(repr=False)
    on_change: OnChange = field(default="refuse", metadata=TUNING)
    unit: Unit = "rows"
    counts: bool = False
    """Whether tokens are counted."""
    length_func: UserFunction | None = None
    key: Hashable = None

    stop_on_empty = True

    @cached_property
    def pure(self) -> bool:
        """See the class."""
        return self.length_func is None and all(branch.pure for branch in self.branches)

    @property
    def live(self) -> bool:  # type: ignore[override]
        """See the class."""
        return self.length_func is not None

    @cached_property
    def function(self) -> Function | None:
        """The length function and its traces."""
        return None if self.length_func is None else Function(self.length_func)

    @property
    def grows(self) -> bool:
        """Whether it may have got branches after a state was taken."""
        return self.choices.changed is not None

    @property
    def choices(self) -> MixChoices:
        """Return the source of chosen branches."""
        found = self.branches[-1]
        assert isinstance(found, MixChoices)
        return found

    def epochs(self, name: str, rows: int) -> int | None:
        """How many times a source was read through by its first `rows` rows; None if its length is not known."""
        if name not in self.choices.names:
            return None
        branch = self.branches[self.choices.names.index(name)]
        size = branch.input.cardinality if isinstance(branch, Repeat) else branch.cardinality
        return rows // size if size.known and size else None

    @property
    def spec(self) -> Spec:
        return reduce(Spec.common, [node.spec for node in self.branches[:-1]])

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE if {node.cardinality for node in self.branches} == {INFINITE} else UNKNOWN

    @property
    def indexable(self) -> bool:
        return not self.counts and self.cardinality == INFINITE and all(node.indexable for node in self.branches)

    def remark(self) -> str | None:
        return None if self.function is None else self.function.remark(self.spec)

    def index_remedy(self) -> str:
        if self.counts:
            return "mix by rows, without a length: whose turn it is depends on the lengths of the elements before"
        return "index the datasets before"


@fetches(Mix)
def fetch_mixed(node: Mix, ctx: Context, indices: Indices) -> Block:
    """Return rows of the branches whose turn it is."""
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


@dataclass
class MixMark(OwnMark):
    """Which branches have no more rows, and how many rows of each were given since the marks of the branches.

    So a row within a block is found without a look at those before it: their source may be gone.
    """

    branches: tuple[int, ...]
    given: tuple[int, ...]
    counts: MixCounts | None = None
    """Of each source, if tokens are counted."""

    rereads = False
    later = None
    """How to find the mark of a row that comes after; of a mark that was restored, only the stream knows."""

    def to_json(self) -> list[JsonValue]:
        """As a state holds it."""
        made = super().to_json()
        return made[:-1] if self.counts is None else made

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return what `to_json` gave. States of earlier versions have the branches alone."""
        return super().from_json([*data, *([], None)[len(data) - 1 :]] if isinstance(data, list) and data else data)

    def advance(self, rows: int) -> OwnMark | None:
        later: Later | None = self.later
        return None if later is None else later(rows)


def counted_mark(given: tuple[int, ...], counts: MixCounts, later: Later | None) -> MixMark:
    """The mark of a mixture that counts tokens."""
    made = MixMark((), given, counts)
    made.later = later  # type: ignore[assignment]
    return made


class MixStream(ChooseStream):
    """Each dataset in turn. Marks say how many rows of each dataset come before a row of a block."""

    def __init__(self, node: Mix, ctx: Context, at: At) -> None:
        super().__init__(node, ctx, at)
        self._choices = node.choices
        self._endless = all(isinstance(branch, Repeat) for branch in node.branches[:-1])
        self._path = branch_context(ctx, node.places[-1]).path
        own: MixMark | None = at.own
        for each, rows in zip(self._inputs, () if own is None else own.given, strict=False):
            if each.skip(rows, replay=True) < rows:
                raise StateError("a source of the mixture ended before the element where the state was taken")
        self._made_until = [self._next_choice()]
        self._unplaced = 0

    def pull(self, want: int) -> Made:
        if self._unplaced:
            raise forgotten(self._choices.history.segments[0].start)
        made = super().pull(want)
        if isinstance(made, Block | Failure):
            self._made_until[0] += made.rows
        return made

    def skip(self, count: int, *, replay: bool = False) -> int:
        """Skip rows that an earlier run made: the law says how many of them each source had.

        So a state of a mixture whose rows were found by number is restored if they no longer are, even if the weights
        were changed since and earlier ones are forgotten.
        """
        start, history = self._next_choice(), self._choices.history
        known = history.segments[0].start
        if not (replay and self._endless) or self._ended or any(self._waiting) or 0 < start < known:
            return 0
        self._unplaced += count
        if start + self._unplaced < known:  # how many rows each source had here is forgotten, but not later on
            return count
        passed, self._unplaced = self._unplaced, 0
        key = self._choices.seed.key(self._path)
        before = history.counts(start, key) if start else {}
        after = history.counts(start + passed, key)
        for name, source in zip(self._choices.names, self._inputs, strict=False):
            rows = after.get(name, 0) - before.get(name, 0)
            if source.skip(rows, replay=True) < rows:
                raise StateError("a source of the mixture ended before the element where the state was taken")
        self._inputs[-1].skip(passed, replay=True)
        self._made_until[0] = self._next_choice()
        return count

    def _next_choice(self) -> int:
        waiting = self._waiting[-1]
        return (waiting if waiting else self._inputs[-1]).mark().ordinal

    def _own(self, ended: tuple[int, ...]) -> OwnMark:
        start, choices, path, endless = self._next_choice(), self._choices, self._path, self._endless
        made_until = self._made_until

        def later(rows: int) -> MixMark | None:
            if not endless and start + rows > made_until[0]:  # a source may have no row for its turn
                return None
            found, _ = choices.find(path, np.arange(start, start + rows))
            return MixMark(ended, (*np.bincount(found, minlength=len(choices.names)).tolist(), rows))

        made = MixMark(ended, ())
        made.later = later  # type: ignore[assignment]
        return made


@opens(Mix, own=MixMark)
def open_mixed(node: Mix, ctx: Context, at: At) -> Stream:
    """Open by number if possible, so that any position is found at once. Else read each dataset in turn."""
    if node.counts:
        return CountedMixStream(node, ctx, at, counted_mark)
    return NumberStream(ctx, node, ENDLESS, np.arange) if node.addressable else MixStream(node, ctx, at)
