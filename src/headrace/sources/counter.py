"""Numbers without end: `counter` and `random`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native, keys
from headrace.block import Block, Indices, scalar_block
from headrace.execute.context import Context
from headrace.plan.cardinality import INFINITE, Cardinality
from headrace.plan.node import user_site
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.sources.numbered import Numbered

if TYPE_CHECKING:
    from headrace.dataset import Dataset

RANDOM_BOUND = 2**32


def counter(start: int = 0, step: int = 1, dtype: DTypeLike = np.int64, name: str | None = None) -> Dataset:
    """start, start + step, … for ever.

    >>> list(hr.Dataset.counter(10, 5).take(3))
    [np.int64(10), np.int64(15), np.int64(20)]
    """
    from headrace.dataset import Dataset

    return Dataset(Counter(np.asarray(start)[()], np.asarray(step)[()], np.dtype(dtype), site=user_site(), name=name))


def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Dataset:
    """Integers drawn uniformly from 0 to 2**32, the same in each epoch unless `rerandomize_each_iteration`.

    >>> all(0 <= x < 2**32 for x in hr.Dataset.random(seed=4).take(10))
    True
    """
    from headrace.dataset import Dataset

    node = Random(keys.seed(seed), bool(rerandomize_each_iteration), site=user_site(), name=name)
    return Dataset(node)


@dataclass(frozen=True, eq=False)
class Counter(Numbered):
    """An arithmetic progression without end."""

    start: Any
    step: Any
    dtype: np.dtype[Any] = field(default=np.dtype(np.int64))

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), self.dtype),))

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE

    def between(self, ctx: Context, start: int, stop: int) -> Block:
        """Numbers `start` to `stop` of the progression."""
        return self.at(ctx, np.arange(start, stop))

    def at(self, ctx: Context, indices: Indices) -> Block:
        return scalar_block((self.start + indices * self.step).astype(self.dtype), ctx.ids(indices))


@dataclass(frozen=True, eq=False)
class Random(Numbered):
    """Number i is a function of (key, i)."""

    seed: keys.Seed
    rerandomize: bool = False

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.int64),))

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE

    def key(self, path: int) -> int:
        """The key of the draws on a path."""
        return self.seed.key(path if self.rerandomize else keys.ROOT)

    def between(self, ctx: Context, start: int, stop: int) -> Block:
        """Draws `start` to `stop`."""
        out = np.empty(stop - start, np.int64)
        _native.shuffle_draws(self.key(ctx.path), RANDOM_BOUND, -1, start, out)
        return scalar_block(out, ctx.ids_between(start, stop))

    def at(self, ctx: Context, indices: Indices) -> Block:
        out = np.empty(len(indices), np.int64)
        for i, number in enumerate(indices.tolist()):
            _native.shuffle_draws(self.key(ctx.path), RANDOM_BOUND, -1, number, out[i : i + 1])
        return scalar_block(out, ctx.ids(indices))
