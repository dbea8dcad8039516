"""Stack consecutive elements along a new leading axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.block import Block, fold
from headrace.ops.arguments import positive, width
from headrace.ops.batching import Batching
from headrace.plan.node import Node
from headrace.plan.once import cached_property
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def batch(
    self: Dataset,
    batch_size: int,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,  # noqa: ARG001 - batches are made in order, on one thread
    name: str | None = None,
) -> Dataset:
    """Combine every `batch_size` consecutive elements into one; the last batch may be short.

    With `num_parallel_calls` that many batches are made ahead, on a thread; with AUTOTUNE if that is found to help.

    >>> list(hr.Dataset.range(5).batch(2))
    [array([0, 1]), array([2, 3]), array([4])]
    """
    ahead = width(num_parallel_calls)
    batches = self._then(Batch, positive("batch_size", batch_size), bool(drop_remainder), name=name)
    return batches if ahead is None else batches.prefetch(ahead)


@dataclass(frozen=True, eq=False)
class Batch(Batching):
    """Rows stacked, which must be of one shape."""

    stacks_objects = True

    @property
    def spec(self) -> Spec:
        return self.input.spec.with_leading_axis(self.leading)

    @cached_property
    def fallible(self) -> bool:
        rows = self.input
        fixed = all(s.dtype is not None and s.shape is not None and None not in s.shape for s in rows.spec.leaves)
        return rows.fallible or rows.tentative or not (rows.spec.known and fixed)

    def assemble(self, block: Block, size: int) -> Block | str:
        return fold(block, size)

    def end_to_end(self, runs: tuple[int, ...]) -> tuple[Node, int] | None:
        (rows,) = runs
        if rows % self.batch_size == 0:
            return self, rows // self.batch_size
        return (replace(self, batch_size=rows), 1) if rows < self.batch_size and not self.drop_remainder else None
