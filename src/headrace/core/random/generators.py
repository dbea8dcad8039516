"""Generators of random numbers that belong to rows: what `random_map` hands to a user's function.

Draw k of a row is a function of (key, the row's id, k), independent of thread, time and block: so a row has
the same numbers on any number of threads, in another process and after a resume. Each result spends a fixed number of
draws, so that the draws of many rows keep in step and one kernel call makes them all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.core.keys import Seed, mix_key
from headrace.core.random.arguments import (
    Size,
    as_block_argument,
    every,
    intervals,
    parameters,
    scalar,
    size_shape,
)
from headrace.core.random.choosing import choose_weighted, laid_out, pick_parts, probabilities
from headrace.core.types import Array, TensorLike

_ROWS = 0x726F7773
"""Keeps the draws of rows apart from those of a shuffle with the same seed."""


def row_key(seed: Seed, place: int) -> int:
    """Return the key of an operation's draws, `place` of those in a chain that have the same seed."""
    return mix_key(seed.value, _ROWS, place)


class BlockGenerator:
    """The generators of several rows, drawn from together.

    Results have the rows on a leading axis. Arguments are scalars, the same for all rows, or arrays with a leading axis
    of the rows, or of 1.
    """

    __slots__ = ("_ids", "_key", "_used")

    def __init__(self, key: int, ids: NDArray[np.uint64], used: int = 0) -> None:
        self._key = key
        self._ids = np.ascontiguousarray(ids)
        self._used = used

    @property
    def used(self) -> int:
        """Return how many numbers a row has drawn."""
        return self._used

    def _draw(self, kernel: Callable[..., None], dtype: DTypeLike, shape: tuple[int, ...], *args: Array) -> Array:
        count = math.prod(shape)
        out = np.empty((len(self._ids), count), dtype)
        kernel(self._key, self._ids, self._used, *args, out)
        self._used += count
        return out.reshape(len(self._ids), *shape)

    def random(self, size: Size = None, dtype: DTypeLike = np.float64) -> Array:
        """Floats from 0 up to 1, in float64 or float32."""
        shape = size_shape(size)
        kind = np.dtype(dtype)
        if kind == np.float64:
            return self._draw(_native.random_uniform, kind, shape)
        if kind != np.float32:
            raise TypeError(f"random gives float64 or float32, not {kind}")
        words = self._draw(_native.random_words, np.uint64, shape)
        return (words >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)

    def uniform(self, low: TensorLike = 0.0, high: TensorLike = 1.0, size: Size = None) -> Array:
        """Floats from `low` up to `high`."""
        (low, high), shape = parameters(size, low, high)
        width = high - low
        if not every(abs(width) < math.inf):
            raise OverflowError("uniform: high - low is not a finite number")
        made: Array = low + width * self._draw(_native.random_uniform, np.float64, shape)
        return made

    def normal(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Size = None) -> Array:
        """Normally distributed floats of mean `loc` and standard deviation `scale`."""
        (loc, scale), shape = parameters(size, loc, scale)
        if not every(scale >= 0):
            raise ValueError("normal: scale must not be negative")
        made: Array = loc + scale * self._draw(_native.random_normal, np.float64, shape)
        return made

    def bernoulli(self, p: TensorLike = 0.5, size: Size = None) -> Array:
        """True with probability `p`."""
        (p,), shape = parameters(size, p)
        if not every((p >= 0) & (p <= 1)):
            raise ValueError("bernoulli: p must be between 0 and 1")
        made: Array = self._draw(_native.random_uniform, np.float64, shape) < p
        return made

    def integers(
        self,
        low: TensorLike,
        high: TensorLike = None,
        size: Size = None,
        dtype: DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Return integers from `low` up to `high`, or from 0 up to `low`; with `endpoint`, `high` is one of them."""
        low, high = (0, low) if high is None else (low, high)
        kind = np.dtype(dtype)
        start, span, shape = intervals(low, high, endpoint, kind, size, len(self._ids))
        out = self._draw(_native.random_integers, np.uint64, shape, start, span)
        return (out.view(np.int64) if kind.kind == "i" else out).astype(kind, copy=False)

    def permutation(self, x: TensorLike, axis: int = 0) -> Array:
        """Return the numbers below `x` in random order; or, of an array, its parts along `axis`."""
        if scalar(x):
            count = operator.index(x)
            if count < 0:
                raise ValueError(f"permutation: x must not be negative, not {count}")
            return self._draw(_native.random_permutation, np.int64, (count,))
        array, axis = laid_out("permutation", x, axis)
        return pick_parts(array, self._draw(_native.random_permutation, np.int64, (array.shape[axis + 1],)), axis)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Bring the parts of an array into random order, in place."""
        x[...] = self.permutation(x, axis)

    def choice(
        self,
        a: TensorLike,
        size: Size = None,
        replace: bool = True,
        p: TensorLike = None,
        axis: int = 0,
        shuffle: bool = True,  # noqa: ARG002 - what is chosen without replacement comes in random order anyway
    ) -> Array:
        """Parts of an array along `axis`, or numbers below `a`, chosen uniformly, or with probabilities `p`."""
        array = None
        if not scalar(a):
            array, axis = laid_out("choice", a, axis)
        count = operator.index(a) if array is None else array.shape[axis + 1]
        shape = size_shape(size)
        wanted = math.prod(shape)
        if count < 1 and wanted:
            raise ValueError("choice: there is nothing to choose from")
        if not replace and wanted > count:
            raise ValueError(f"choice: {wanted} of {count} cannot be chosen without replacement")
        if p is None:
            if replace:
                numbers = self.integers(count, size=size) if wanted else np.empty((len(self._ids), *shape), np.int64)
            else:
                numbers = self.permutation(count)[:, :wanted].reshape(-1, *shape)
        else:
            weights = probabilities(p, len(self._ids), count)
            draws = self._draw(_native.random_uniform, np.float64, (wanted,))
            numbers = choose_weighted(weights, draws, replace).reshape(-1, *shape)
        return numbers if array is None else pick_parts(array, numbers, axis)


class RowGenerator:
    """The generator of one row, as a user's function gets it. Methods are those of NumPy's Generator, and `bernoulli`.

    >>> ds = hr.Dataset.range(3).random_map(lambda x, rng: x + 10 * rng.integers(5), seed=1)
    >>> list(ds) == list(hr.Dataset.range(3).random_map(lambda x, rng: x + 10 * rng.integers(5), seed=1))
    True
    """

    __slots__ = ("_block",)

    def __init__(self, key: int, row: NDArray[np.uint64], used: int = 0) -> None:
        self._block: BlockGenerator | None = BlockGenerator(key, row[None], used)

    @property
    def _row(self) -> BlockGenerator:
        if self._block is None:
            raise RuntimeError("a generator belongs to one call of the function: it cannot be used afterwards")
        return self._block

    @property
    def used(self) -> int:
        """Return how many numbers were drawn."""
        return self._row.used

    def expire(self) -> None:
        """Note that the call it was made for is over."""
        self._block = None

    def random(self, size: Size = None, dtype: DTypeLike = np.float64) -> TensorLike:
        """Floats from 0 up to 1, in float64 or float32."""
        return self._row.random(size, dtype)[0]

    def uniform(self, low: TensorLike = 0.0, high: TensorLike = 1.0, size: Size = None) -> TensorLike:
        """Floats from `low` up to `high`."""
        return self._row.uniform(as_block_argument(low), as_block_argument(high), size)[0]

    def normal(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, size: Size = None) -> TensorLike:
        """Normally distributed floats of mean `loc` and standard deviation `scale`."""
        return self._row.normal(as_block_argument(loc), as_block_argument(scale), size)[0]

    def bernoulli(self, p: TensorLike = 0.5, size: Size = None) -> TensorLike:
        """True with probability `p`."""
        return self._row.bernoulli(as_block_argument(p), size)[0]

    def integers(
        self,
        low: TensorLike,
        high: TensorLike = None,
        size: Size = None,
        dtype: DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> TensorLike:
        """Return integers from `low` up to `high`, or from 0 up to `low`; with `endpoint`, `high` is one of them."""
        return self._row.integers(as_block_argument(low), as_block_argument(high), size, dtype, endpoint)[0]

    def permutation(self, x: TensorLike, axis: int = 0) -> TensorLike:
        """Return the numbers below `x` in random order; or, of an array, its parts along `axis`."""
        return self._row.permutation(as_block_argument(x), axis)[0]

    def shuffle(self, x: TensorLike, axis: int = 0) -> None:
        """Bring the parts of an array, or of a list, into random order, in place."""
        if isinstance(x, np.ndarray):
            self._row.shuffle(x[None], axis)
        else:
            x[:] = [x[i] for i in self.permutation(len(x)).tolist()]

    def choice(
        self,
        a: TensorLike,
        size: Size = None,
        replace: bool = True,
        p: TensorLike = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> TensorLike:
        """Parts of an array along `axis`, or numbers below `a`, chosen uniformly, or with probabilities `p`."""
        return self._row.choice(as_block_argument(a), size, replace, as_block_argument(p), axis, shuffle)[0]
