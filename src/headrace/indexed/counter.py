"""Infinite sources of numbers: `counter` and `random`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace import _native
from headrace.columns import Indices
from headrace.columns.block import Block, scalar_block
from headrace.core import keys
from headrace.core.types import Component, DType
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.indexed.numbered import Numbered, NumberedStream
from headrace.plan.cardinality import INFINITE, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.marks import At
from headrace.plan.node import user_site
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

if TYPE_CHECKING:
    from headrace.dataset import Dataset

RANDOM_BOUND = 2**32


def counter(start: int = 0, step: int = 1, dtype: DTypeLike = np.int64, name: str | None = None) -> Dataset:
    """Return a dataset that counts from `start` in steps of `step` forever.

    Args:
        start: First number.
        step: Difference between two numbers.
        dtype: Data type of the numbers.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.counter(10, 5).take(3))
    [np.int64(10), np.int64(15), np.int64(20)]
    """
    return dataset_of(
        Counter(np.asarray(start)[()], np.asarray(step)[()], numpy_dtype(dtype), site=user_site(), name=name)
    )


def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Dataset:
    """Return uniformly distributed integers from 0 to 2**32 - 1.

    Args:
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        rerandomize_each_iteration: Whether each epoch draws other numbers.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> all(0 <= x < 2**32 for x in hr.Dataset.random(seed=4).take(10))
    True
    """
    node = Random(keys.seed(seed), bool(rerandomize_each_iteration), site=user_site(), name=name)
    return dataset_of(node)


@dataclass(frozen=True, eq=False)
class Counter(Numbered):
    """An infinite arithmetic progression."""

    start: Component
    step: Component
    dtype: DType = field(default=np.dtype(np.int64))

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), self.dtype),))

    @property
    def cardinality(self) -> Cardinality:
        return INFINITE


@fetches(Counter)
def fetch_counter(node: Counter, ctx: Context, indices: Indices) -> Block:
    """Return numbers by their numbers."""
    return scalar_block((node.start + indices * node.step).astype(node.dtype), ctx.ids(indices))


@opens(Counter)
def open_counter(node: Counter, ctx: Context, _at: At) -> Stream:
    """Return the progression."""
    return NumberedStream(node, lambda start, stop: fetch_counter(node, ctx, np.arange(start, stop)))


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
        """Return the key of the draws on a path."""
        return self.seed.key(path if self.rerandomize else keys.ROOT)


@opens(Random)
def open_random(node: Random, ctx: Context, _at: At) -> Stream:
    """Return the draws in turn."""

    def read(start: int, stop: int) -> Block:
        out = np.empty(stop - start, np.int64)
        _native.shuffle_draws(node.key(ctx.path), RANDOM_BOUND, -1, start, out)
        return scalar_block(out, ctx.ids_between(start, stop))

    return NumberedStream(node, read)


@fetches(Random)
def fetch_random(node: Random, ctx: Context, indices: Indices) -> Block:
    """Draws by number."""
    out = np.empty(len(indices), np.int64)
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    for start, stop in pairwise([0, *breaks.tolist(), len(indices)]):
        if start < stop:
            _native.shuffle_draws(node.key(ctx.path), RANDOM_BOUND, -1, int(indices[start]), out[start:stop])
    return scalar_block(out, ctx.ids(indices))
