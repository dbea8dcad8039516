"""Draw elements by weights, as PyTorch's WeightedRandomSampler does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Indices
from headrace.columns.block import FOLD, Block
from headrace.core import keys
from headrace.core.types import Array
from headrace.errors import NotIndexableError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.ops.shared.arguments import integer, positive
from headrace.ops.shared.gather import NumberStream, RowsByNumber
from headrace.ops.shuffle.order import draw_key
from headrace.plan.access import is_coarse
from headrace.plan.capabilities import index_remedy
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At
from headrace.plan.node import obstacle

if TYPE_CHECKING:
    from headrace.dataset import Dataset

BITS = 53
"""How many bits a draw has: those that a float64 holds."""


def weighted_sample(
    self: Dataset,
    weights: Sequence[float] | Array | str | Callable[..., object],
    num_samples: int | None = None,
    *,
    replacement: bool = True,
    seed: int | None = None,
    reshuffle_each_iteration: bool = True,
    name: str | None = None,
) -> Dataset:
    """Draw elements at random, each with a probability in proportion to its weight.

    It is what a PyTorch DataLoader does with a WeightedRandomSampler. The dataset must be one that can be indexed, and
    only the elements that are drawn are read. Each epoch draws anew; a state is a number, and a resume is exact.

    Args:
        weights: One weight per element, at least 0; or the name of a component, or a function of an element, that gives
            the weight. A name or a function reads the dataset once, here and now.
        num_samples: How many elements an epoch has; None for as many as the dataset.
        replacement: Whether an element may be drawn again. If not, the order is that of draws one after another.
        seed: The same seed gives the same sequence of epochs.
        reshuffle_each_iteration: Whether each epoch draws anew.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of `num_samples` elements, which can be indexed.

    Raises:
        NotIndexableError: Elements cannot be found by number.
        ValueError: The weights are not one per element, negative, not finite or all 0.

    >>> ds = hr.Dataset.from_tensor_slices({"x": [10, 20, 30], "w": [0.0, 1.0, 3.0]})
    >>> drawn = [int(row["x"]) for row in ds.weighted_sample("w", 1000, seed=1)]
    >>> 10 in drawn, 200 < drawn.count(20) < 300
    (False, True)
    """
    node = self._counted
    blocker = obstacle(node)
    if blocker is not None:
        raise NotIndexableError(
            f"weighted_sample needs elements by number, which {blocker.operation} ({blocker.site}) prevents; "
            f"{index_remedy(blocker)}. rejection_resample takes a stream"
        )
    if not node.cardinality.known:
        raise ValueError("weighted_sample needs a finite dataset: use it before repeat()")
    if isinstance(weights, str) or callable(weights):
        weights = _read_weights(self, weights)
    table = WeightTable(_checked(np.asarray(weights, np.float64), int(node.cardinality)))
    count = int(node.cardinality) if num_samples is None else positive("num_samples", num_samples)
    if not replacement and count > table.positive:
        raise ValueError(
            f"weighted_sample: {count} elements without replacement, and only {table.positive} have a weight above 0"
        )
    made = keys.seed(None if seed is None else integer("seed", seed))
    sampled = dataset_of(node)
    return sampled._then(
        WeightedSample, count, bool(replacement), made, reshuffle_each_iteration is not False, table.digest, table,
        name=name,
    )  # fmt: skip


def _read_weights(ds: Dataset, by: str | Callable[..., object]) -> list[float]:
    if isinstance(by, str):
        component = by
        chosen = ds.map(lambda element: element[component])
    else:
        chosen = ds.map(by)
    return [float(weight) for weight in chosen]


def _checked(weights: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    if weights.shape != (count,):
        raise ValueError(f"weighted_sample: there are {count} elements, and weights of shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        first = int(np.flatnonzero(~np.isfinite(weights) | (weights < 0))[0])
        raise ValueError(f"weighted_sample: the weight of element {first} is {weights[first]}, and must be at least 0")
    if not weights.any():
        raise ValueError("weighted_sample: all weights are 0, so there is nothing to draw")
    return weights


class WeightTable:
    """Which row each draw is: a function of the key and the draw's number."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights
        self.positive: int = int(np.count_nonzero(weights))
        self.digest: str = hashlib.sha256(np.ascontiguousarray(weights).tobytes()).hexdigest()[:16]
        self._steps = np.cumsum(weights)
        self._last: tuple[int, Indices] | None = None

    def with_replacement(self, key: int, places: Indices) -> Indices:
        """The rows of these draws, each by itself."""
        found = np.searchsorted(self._steps, unit_draws(key, places) * self._steps[-1], side="right")
        last = int(np.flatnonzero(self.weights)[-1])  # a product may be rounded up to the sum of all
        return np.asarray(np.minimum(found, last), np.int64)

    def without_replacement(self, key: int, places: Indices) -> Indices:
        """The rows in these places of an order that is drawn as a whole: the least of exponential times come first."""
        last = self._last
        if last is None or last[0] != key:
            with np.errstate(divide="ignore"):
                times = -np.log(unit_draws(key, np.arange(len(self.weights)))) / self.weights
            last = self._last = (key, np.argsort(times, kind="stable")[: self.positive])
        return last[1][places]


def unit_draws(key: int, places: Indices) -> NDArray[np.float64]:
    """The numbers of a keyed stream in these places, between 0 and 1, neither included."""
    out = np.empty(len(places), np.int64)
    breaks = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for start, stop in pairwise(breaks):
        if start < stop:
            _native.shuffle_draws(key, 1 << BITS, -1, int(places[start]), out[start:stop])
    return (out + 0.5) / (1 << BITS)


@dataclass(frozen=True, eq=False)
class WeightedSample(RowsByNumber):
    """`count` rows drawn by weights. With replacement the id of a row holds the number of its draw."""

    count: int
    replacement: bool
    seed: keys.Seed
    reshuffle: bool
    weights: str
    table: WeightTable = field(repr=False)

    indexable = True
    has_extra_failures = False

    @property
    def operation(self) -> str:
        return "weighted_sample"

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.count)

    @property
    def in_large_lots(self) -> bool:
        return is_coarse(self.input)

    def rows_at(self, key: int, places: Indices) -> Indices:
        """The numbers of the input's rows in these places."""
        return (self.table.with_replacement if self.replacement else self.table.without_replacement)(key, places)


@fetches(WeightedSample)
def fetch_sampled(node: WeightedSample, ctx: Context, indices: Indices) -> Block:
    """Rows by the numbers of their draws."""
    block = ctx.fetch(node.input, node.rows_at(draw_key(node, ctx), indices))
    if block.ids is not None and node.replacement:
        path = block.ids[:, 0] * np.uint64(FOLD) + (np.asarray(indices) + 1).astype(np.uint64)
        block.ids = np.stack([path, block.ids[:, 1]], 1)
    return block


@opens(WeightedSample)
def open_sampled(node: WeightedSample, ctx: Context, _at: At) -> Stream:
    """The rows in the order of the draws."""
    return NumberStream(ctx, node, node.count, np.arange, scattered=is_coarse(node.input))
