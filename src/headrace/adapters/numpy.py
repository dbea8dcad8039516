"""NumPy: what scikit-learn and plain loops read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.adapters.feed import Feed, PlainTarget, Target
from headrace.columns import read_only
from headrace.columns.block import Block
from headrace.execute.stages.starvation import Meter
from headrace.iterator import Iterator, Settings
from headrace.plan.spec import DatasetSpec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def as_numpy_iterator(self: Dataset) -> Iterator:
    """Return an iterator over read-only arrays; its `stats()["starvation"]` shows how long the consumer waited.

    >>> next(hr.Dataset.range(4).batch(2).as_numpy_iterator()).flags.writeable
    False

    A model of scikit-learn learns from it batch by batch:

    >>> from sklearn.linear_model import SGDClassifier
    >>> ds = hr.Dataset.from_tensor_slices(([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])).shuffle(4, seed=1).batch(2)
    >>> model = SGDClassifier(random_state=0)
    >>> for epoch in range(20):
    ...     for x, y in ds.as_numpy_iterator():
    ...         model = model.partial_fit(x, y, classes=[0, 1])
    >>> model.predict([[-5.0], [8.0]])
    array([0, 1])
    """
    if any(isinstance(leaf, DatasetSpec) for leaf in self._node.spec.leaves):
        raise TypeError(f"as_numpy_iterator gives arrays, not datasets: {self._node.spec}")
    return Iterator(self._node, self._epochs, Settings(frozen=True), meter=Meter(watch=True))


class NumpyFeed(Feed):
    """A dataset as it is, its arrays read-only."""

    def __init__(self, dataset: Dataset, *, prefetch: int) -> None:
        super().__init__(dataset)
        self._prefetch = prefetch

    def make_target(self) -> Target:
        return ReadOnly(self._prefetch)


class ReadOnly(PlainTarget):
    """Arrays as headrace makes them, read-only."""

    name = "to_keras"

    def convert(self, block: Block) -> Block:
        """Return the same columns, read-only."""
        return Block(block.structure, [read_only(c) for c in block.columns], block.rows)
