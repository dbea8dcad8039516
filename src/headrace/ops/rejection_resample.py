"""Change the distribution of classes by leaving elements out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.columns import Column, column_of
from headrace.columns.block import Block, Failure, Item, leaf
from headrace.core import keys
from headrace.core.types import Component, UserFunction
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.arguments import function, integer
from headrace.ops.shared.calls import results
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.node import Node
from headrace.plan.spec import Probe, Spec, TensorSpec
from headrace.plan.structure import LEAF, tuple_of
from headrace.trace.function import Function
from headrace.trace.graph import Graph

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def rejection_resample(
    self: Dataset,
    class_func: Callable[..., object],
    target_dist: Sequence[float],
    initial_dist: Sequence[float] | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Leave elements out at random so that classes come with the probabilities `target_dist`; yields (class, element).

    Without `initial_dist` the distribution of what comes in is estimated on the way.

    Args:
        class_func: Function of one element that returns its class.
        target_dist: Probabilities of the classes in the result.
        initial_dist: Probabilities of the classes in the input. Default: estimated.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(1000).rejection_resample(lambda x: x % 10 == 0, [0.5, 0.5], [0.9, 0.1], seed=1)
    >>> classes = [int(c) for c, _ in ds]
    >>> 0.4 < sum(classes) / len(classes) < 0.6
    True
    """
    target = _distribution("target_dist", target_dist)
    initial = None if initial_dist is None else _distribution("initial_dist", initial_dist)
    if initial is not None and len(initial) != len(target):
        raise ValueError(f"initial_dist has {len(initial)} classes, target_dist {len(target)}")
    fn = function("rejection_resample", class_func, self._node.spec)
    made = keys.seed(None if seed is None else integer("seed", seed))
    return self._then(RejectionResample, fn, target, initial, made, name=name)


SMOOTHING = 10
"""How many elements of each class are assumed before the first, as in tf.data."""


def _distribution(argument: str, values: Sequence[float]) -> tuple[float, ...]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array) or (array < 0).any() or not 0 < array.sum() < np.inf:
        raise ValueError(f"{argument} must hold a probability for each class, not {values!r}")
    return tuple((array / array.sum()).tolist())


@dataclass(frozen=True, eq=False)
class RejectionResample(Node):
    """Keeps a row with a probability that depends on its class; the draw depends on its ordinal."""

    input: Node
    class_func: UserFunction
    target: tuple[float, ...]
    initial: tuple[float, ...] | None
    seed: keys.Seed
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))

    pure = False
    live = True

    @property
    def operation(self) -> str:
        return "rejection_resample"

    @property
    def spec(self) -> Spec:
        graph = self.function.graph(self.input.spec)
        if isinstance(graph, Graph) and graph.structure.kind is None:
            kind = graph.spec.leaves[0]
        else:
            kind = TensorSpec((), None) if self.probe.spec is None else self.probe.spec.leaves[0]
        return Spec.tuple_of([Spec(LEAF, (kind,)), self.input.spec])

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.vague

    @cached_property
    def function(self) -> Function:
        """The class function and its traces."""
        return Function(self.class_func)

    def remark(self) -> str | None:
        return self.function.remark(self.input.spec)

    def class_of(self, value: object) -> np.integer[Any] | np.bool_:
        """Return what the user's function returned, if it is a class; it keeps its dtype."""
        number = leaf(value)
        if not isinstance(number, np.integer | np.bool_) or not 0 <= int(number) < len(self.target):
            raise SpecError(f"the class must be an integer from 0 to {len(self.target) - 1}, not {value!r}")
        return number

    def accepts(self, key: int, number: int, kind: int, seen: Sequence[int]) -> bool:
        """Return whether row `number`, of class `kind`, stays; `seen` counts the rows of each class, this one too."""
        initial = self.initial or [n + SMOOTHING for n in seen]
        ratios = [t / i if i > 0 else 0.0 for t, i in zip(self.target, initial, strict=True)]
        most = max(ratios)
        if most == 0:  # target_dist wants only classes that do not occur, according to initial_dist
            return self.target[kind] > 0
        draw = np.empty(1, np.int64)
        _native.shuffle_draws(key, 2**53, -1, number, draw)
        return bool(draw[0] / 2**53 < ratios[kind] / most)


@dataclass(slots=True)
class ClassCounts(OwnMark):
    """How often each class was seen before a row."""

    seen: tuple[int, ...]

    rereads = False


@opens(RejectionResample, own=ClassCounts)
class RejectionStream(Stream):
    """Decides on one row after the other."""

    def __init__(self, node: RejectionResample, ctx: Context, at: At) -> None:
        self._node = node
        self._key = node.seed.key(ctx.path)
        self._input = ctx.open(node.input, at.inputs)
        self._seen = [0] * len(node.target) if at.own is None else list(at.own.seen)

    def _counts(self) -> ClassCounts:
        return ClassCounts(tuple(self._seen))

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if isinstance(item, Failure):
            item.own = self._counts()
        return self._decided(item) if isinstance(item, Block) else item

    def _decided(self, block: Block) -> list[Item]:
        """Return what stays of a block, in runs between rows that have no class."""
        items: list[Item] = []
        first = block.mark.ordinal
        kinds: list[Component] = []
        rows: list[int] = []
        mark, own = block.mark, self._counts()
        for i, (fine, value) in enumerate(results(self._node.function, block, "iub")):
            try:
                if not fine:
                    raise value
                kind = self._node.class_of(value)
            except Exception as error:
                items += self._kept(block, kinds, rows, mark, own)
                kinds, rows = [], []
                items.append(Failure(self._node.error(error, first + i), block.mark.later(i), self._counts()))
                mark, own = block.mark.later(i + 1), self._counts()
                continue
            self._seen[int(kind)] += 1
            if self._node.accepts(self._key, first + i, int(kind), self._seen):
                kinds.append(kind)
                rows.append(i)
        return items + self._kept(block, kinds, rows, mark, own)

    def _kept(self, block: Block, kinds: list[Component], rows: list[int], mark: Mark, own: ClassCounts) -> list[Item]:
        if not rows:
            return []
        chosen = block.take(np.array(rows))
        columns: list[Column] = [column_of(kinds), *chosen.columns]
        return [Block(tuple_of([LEAF, block.structure]), columns, len(rows), mark, chosen.ids, own)]
