"""Take elements from several datasets, chosen by another one: choose_from_datasets and sample_from_datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item, concat, folded
from headrace.core.types import Array
from headrace.errors import ElementError, SpecError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Pending, Pulled, Stream
from headrace.indexed.counter import RANDOM_BOUND, random
from headrace.ops.zip import branch_context
from headrace.ops.zip import zip as zip_datasets
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of, is_dataset
from headrace.plan.marks import START, At, Joint, Mark, Marks, OwnMark
from headrace.plan.node import Node, places, user_site, walk
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
) -> Dataset:
    """Take each element from the dataset whose number `choice_dataset` gives.

    When a chosen dataset has no more elements, the result ends, or continues with the others if not
    `stop_on_empty_dataset`.

    Args:
        datasets: Datasets to combine.
        choice_dataset: Dataset of numbers that choose the next dataset.
        stop_on_empty_dataset: Whether to stop when the first dataset is exhausted.

    Returns:
        A new dataset.

    >>> letters, digits = hr.Dataset.from_tensor_slices(["a", "b"]), hr.Dataset.from_tensor_slices(["1", "2"])
    >>> list(hr.Dataset.choose_from_datasets([letters, digits], hr.Dataset.from_tensor_slices([0, 1, 1, 0])))
    ['a', '1', '2', 'b']
    """
    return _choose("choose_from_datasets", datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Sequence[float] | Dataset | None = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
    rerandomize_each_iteration: bool | None = None,
) -> Dataset:
    """Take each element from a dataset drawn at random: uniformly, or by `weights`, a list or a dataset of lists.

    Args:
        datasets: Datasets to combine.
        weights: Probability of each dataset, as a list or a dataset of lists. Default: equal.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        stop_on_empty_dataset: Whether to stop when the first dataset is exhausted.
        rerandomize_each_iteration: Whether each epoch draws other numbers.

    Returns:
        A new dataset.

    >>> heads, tails = hr.Dataset.from_tensors("heads").repeat(), hr.Dataset.from_tensors("tails").repeat()
    >>> tosses = list(hr.Dataset.sample_from_datasets([heads, tails], [0.9, 0.1], seed=1).take(100))
    >>> 75 < tosses.count("heads") < 100
    True
    """
    draws = random(seed, rerandomize_each_iteration)
    count = len(datasets)
    if is_dataset(weights):
        choices = zip_datasets(draws, weights).map(lambda draw, w: step_of(draw, cumulative(w, count)))
        return _choose("sample_from_datasets", datasets, choices, stop_on_empty_dataset)
    shares = np.ones(count) if weights is None else np.asarray(weights, np.float64)
    check_weights(shares, count)
    if count and not shares.any():
        return _choose("sample_from_datasets", datasets, draws, stop_on_empty_dataset).take(0)
    datasets = [ds for ds, share in zip(datasets, shares.tolist(), strict=True) if share]
    if len(datasets) == 1 and is_dataset(datasets[0]):
        return dataset_of(datasets[0]._node)
    steps = cumulative(shares[shares > 0], len(datasets))
    return _choose("sample_from_datasets", datasets, draws._then(Pick, tuple(steps.tolist())), stop_on_empty_dataset)


def check_weights(weights: np.ndarray[Any, np.dtype[np.float64]], count: int) -> None:
    """Raise ValueError unless there is one finite weight of at least 0 for each dataset."""
    if weights.shape != (count,):
        raise ValueError(f"there are {count} datasets, and weights of shape {weights.shape}")
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise ValueError(f"weights must be at least 0, not {weights.tolist()}")


def cumulative(weights: object, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weights as steps from 0 to 1."""
    array = np.asarray(weights, np.float64)
    check_weights(array, count)
    if not array.any():
        raise ValueError(f"weights must not all be 0: {array.tolist()}")
    return np.asarray(np.cumsum(array) / array.sum())


def step_of(draw: object, steps: np.ndarray[Any, np.dtype[np.float64]]) -> Array:
    """Return which step a draw falls into; a step of no width is never hit."""
    return np.searchsorted(steps, np.asarray(draw) / RANDOM_BOUND, side="right").astype(np.int64)


def _choose(operation: str, datasets: Sequence[Dataset], choices: Dataset, stop_on_empty: bool) -> Dataset:
    for given in (*datasets, choices):
        if not is_dataset(given):
            raise TypeError(f"{operation} takes Datasets, not {given!r}")
    if not datasets:
        raise ValueError(f"{operation} needs at least one dataset")
    nodes = tuple(ds._node for ds in datasets)
    for node in nodes[1:]:
        reason = nodes[0].spec.mismatch(node.spec)
        if reason is not None:
            raise SpecError(f"{operation}: the elements of the datasets differ: {reason}")
    chosen = choices._node.spec
    if chosen.structure is not None and (
        chosen.structure != LEAF or chosen.leaves[0].rank not in (0, None) or not _integral(chosen)
    ):
        raise SpecError(f"{operation}: choices must be single integers, not {chosen}")
    node = Choose(
        (*nodes, choices._node), places([*nodes, choices._node]), bool(stop_on_empty), operation, site=user_site()
    )
    return dataset_of(node)


def _integral(spec: Spec) -> bool:
    dtype = spec.leaves[0].dtype
    return dtype is None or dtype.kind in "iu"


@dataclass(frozen=True, eq=False)
class Pick(Node):
    """Draws as choices."""

    input: Node
    steps: tuple[float, ...]

    one_to_one = True

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@fetches(Pick)
def fetch_picked(node: Pick, ctx: Context, indices: Indices) -> Block:
    """Choices by number."""
    block = ctx.fetch(node.input, indices)
    block.columns = [step_of(block.columns[0], np.array(node.steps))]
    return block


@opens(Pick)
class PickStream(Stream):
    """One draw, one choice."""

    def __init__(self, node: Pick, ctx: Context, at: At) -> None:
        self._input = ctx.open(node.input, at.inputs)
        self._steps = np.array(node.steps)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if isinstance(item, Block):
            item.columns = [step_of(item.columns[0], self._steps)]
        return item

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


@dataclass(frozen=True, eq=False)
class Choose(Node):
    """Row i comes from the branch that row i of the last branch names."""

    branches: tuple[Node, ...]
    places: tuple[int, ...] = field(repr=False)
    stop_on_empty: bool
    origin: str = field(repr=False)

    grows = False
    """Whether it may have got branches after a state was taken."""

    @property
    def operation(self) -> str:
        return self.origin

    @property
    def spec(self) -> Spec:
        return reduce(Spec.common, [node.spec for node in self.branches[:-1]])

    @property
    def cardinality(self) -> Cardinality:
        endless = [node.cardinality == INFINITE for node in self.branches[:-1]]
        chosen = all(endless) if self.stop_on_empty else any(endless)
        return INFINITE if chosen and self.branches[-1].cardinality == INFINITE else UNKNOWN

    def index_remedy(self) -> str:
        if self.stop_on_empty and self.origin == "sample_from_datasets":
            return "give it stop_on_empty_dataset=False, so that all elements count, or use hr.mix"
        return "hr.mix gives elements of several datasets by weights, and can be indexed"


@dataclass(slots=True)
class Ended(OwnMark):
    """Which branches have no more rows."""

    branches: tuple[int, ...]

    rereads = False


class Choosing(Protocol):
    """A node whose rows come from the branches that its last branch names."""

    @property
    def branches(self) -> tuple[Node, ...]: ...
    @property
    def places(self) -> tuple[int, ...]: ...
    @property
    def stop_on_empty(self) -> bool: ...
    @property
    def grows(self) -> bool: ...
    @property
    def pure(self) -> bool: ...
    def error(self, cause: BaseException | str, ordinal: int) -> ElementError: ...


def marks_of_branch(ctx: Context, branch: Node, marks: Marks) -> Marks:
    """Where a branch stands; at its start if the marks do not know it, because a mixture got it later."""
    return marks if any(ctx.prepared.number(node) in marks for node in walk(branch)) else START


@opens(Choose, own=Ended)
class ChooseStream(Stream):
    """Fetch what a run of choices needs from each branch and order it; one by one near a branch's end."""

    def __init__(self, node: Choosing, ctx: Context, at: At) -> None:
        self._node = node
        self._inputs: list[Input] = [
            branch_context(ctx, node.places[i]).open(
                child, marks_of_branch(ctx, child, at.inputs) if node.grows else at.inputs, slot=i
            )
            for i, child in enumerate(node.branches)
        ]
        self._waiting = [Pending() for _ in self._inputs]
        self._ended = set() if at.own is None else set(at.own.branches)
        self._over = False
        # If reading is observable for only one branch, read it after the others, and exactly as many rows as are
        # chosen.
        self._shown = [not child.pure for child in node.branches]
        self._in_runs = not self._shown[-1] and sum(self._shown) <= 1

    def _place(self) -> tuple[Mark, OwnMark]:
        marks = Joint(w.mark() if w else s.mark() for w, s in zip(self._waiting, self._inputs, strict=True))
        return marks, self._own(tuple(sorted(self._ended)))

    def _own(self, ended: tuple[int, ...]) -> OwnMark:
        """What must be known besides where the branches stand."""
        return Ended(ended)

    def _pull(self, branch: int, want: int) -> Pulled:
        waiting = self._waiting[branch]
        return waiting.pull(want) if waiting else self._inputs[branch].pull(want)

    def pull(self, want: int) -> Made:
        while not self._over:
            place = self._place()
            chooser = len(self._inputs) - 1
            choice = self._pull(chooser, want if self._in_runs else 1)
            if choice is END:
                break
            if isinstance(choice, Failure):
                choice.mark, choice.own = place
                return choice
            if self._in_runs and choice.rows < want:
                choice = self._more_choices(choice, want)
            numbers = np.asarray(choice.columns[0])
            whole: Item | None = self._together(numbers)
            if whole is None:
                if choice.rows > 1:
                    self._waiting[chooser].put_back(choice.slice(1, choice.rows))
                whole = self._one(int(numbers[0]), choice.mark.ordinal)
            if whole is not None:
                whole.mark, whole.own = place
                return whole
        self._over = True
        # After a restore, the branch was not read to where it may have dropped a failure.
        for branch in sorted(self._ended):
            self._inputs[branch].pull(1)
        return END

    def _more_choices(self, first: Block, want: int) -> Block:
        """Return as many choices as rows are wanted, if choices come few at a time: a round over all branches is
        expensive.
        """
        choices, rows = [first], first.rows
        chooser = len(self._inputs) - 1
        while rows < want and (item := self._pull(chooser, want - rows)) is not END:
            if not isinstance(item, Block):
                self._waiting[chooser].put_back(item)
                break
            choices.append(item)
            rows += item.rows
        return concat(choices)

    def _together(self, numbers: Array) -> Block | None:
        """Return all choices at once, if every branch has rows for them; otherwise nothing is taken."""
        if len(numbers) < 2 or self._ended or numbers.min() < 0 or numbers.max() >= len(self._inputs) - 1:
            return None
        needs = np.bincount(numbers, minlength=len(self._inputs) - 1).tolist()
        fetched: list[list[Item]] = [[] for _ in needs]
        complete = True
        for branch in sorted(range(len(needs)), key=self._shown.__getitem__):
            fetched[branch] = self._fetch(branch, needs[branch]) if complete else []
            complete = complete and sum(item.rows for item in fetched[branch]) == needs[branch]
        blocks = [item for items in fetched for item in items if isinstance(item, Block)]
        if not complete or len(blocks) < sum(map(len, fetched)) or len({b.structure for b in blocks}) > 1:
            for branch, items in enumerate(fetched):
                for item in reversed(items):
                    self._waiting[branch].put_back(item)
            return None
        for branch, items in enumerate(fetched):
            for item in items:
                if isinstance(item, Block):
                    item.ids = folded(item.ids, branch + 1)
        return concat(blocks).take(np.argsort(np.argsort(numbers, kind="stable"), kind="stable"))

    def _fetch(self, branch: int, need: int) -> list[Item]:
        items: list[Item] = []
        while need:
            item = self._pull(branch, need)
            if item is END:
                break
            items.append(item)
            need -= item.rows
        return items

    def _one(self, branch: int, number: int) -> Item | None:
        """Return the row of one choice; None if there is none and the next choice is to be tried."""
        if not 0 <= branch < len(self._inputs) - 1:
            why = f"choice {branch} of {len(self._inputs) - 1} datasets"
            return Failure(self._node.error(IndexError(why), number))
        if branch in self._ended:
            return None
        item = self._pull(branch, 1)
        if item is END:
            self._ended.add(branch)
            if self._node.stop_on_empty or len(self._ended) == len(self._inputs) - 1:
                self._over = True
            return None
        if isinstance(item, Block):
            item.ids = folded(item.ids, branch + 1)
        return item
