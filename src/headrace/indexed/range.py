"""Numbers in arithmetic progression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import Indices
from headrace.columns.block import Block, scalar_block
from headrace.core.types import Array, DType
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.indexed.numbered import Numbered, NumberedStream
from headrace.plan.cardinality import Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.dtypes import numpy_dtype
from headrace.plan.marks import At
from headrace.plan.node import user_site
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def range(*args: int, output_type: DTypeLike = np.int64, name: str | None = None) -> Dataset:
    """Return the numbers of Python's `range` with the same arguments.

    Args:
        *args: Stop; start and stop; or start, stop and step, as for Python's `range`.
        output_type: Data type of the numbers.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(1, 10, 4))
    [np.int64(1), np.int64(5), np.int64(9)]
    """
    start, stop, step = _bounds(args)
    return dataset_of(Range(start, stop, step, numpy_dtype(output_type), site=user_site(), name=name))


def _bounds(args: tuple[int, ...]) -> tuple[int, int, int]:
    if not 1 <= len(args) <= 3:
        raise TypeError(f"range takes 1 to 3 numbers (start, stop, step), not {len(args)}")
    numbers = [_integer(a) for a in args]
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else 1
    if step == 0:
        raise ValueError("range: step must not be zero")
    return start, stop, step


def _integer(value: SupportsIndex) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"range takes integers, not {value!r}") from None


@dataclass(frozen=True, eq=False)
class Range(Numbered):
    """start, start + step, … before stop."""

    start: int
    stop: int
    step: int = 1
    dtype: DType = np.dtype(np.int64)  # noqa: RUF009 - dtypes are immutable

    fallible = False

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), self.dtype),))

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(max(0, -(-(self.stop - self.start) // self.step)))

    def values(self, indices: Indices) -> Array:
        """Return these numbers of the progression."""
        if max(abs(self.start), abs(self.stop)) < 2**62:
            values = indices if self.step == 1 else indices * self.step
            return (values + self.start if self.start else values).astype(self.dtype, copy=False)
        return np.array([self.start + int(i) * self.step for i in indices], object).astype(self.dtype)


@fetches(Range)
def fetch_range(node: Range, ctx: Context, indices: Indices) -> Block:
    """Return numbers by their numbers."""
    return scalar_block(node.values(indices), ctx.ids(indices))


@opens(Range)
def open_range(node: Range, ctx: Context, _at: At) -> Stream:
    """Return the progression."""
    return NumberedStream(node, lambda start, stop: fetch_range(node, ctx, np.arange(start, stop)))
