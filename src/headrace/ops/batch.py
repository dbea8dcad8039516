"""Stack consecutive elements along a new leading axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.columns.block import Block, fold
from headrace.core.types import Nested
from headrace.ops.shared.arguments import positive, width
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.collate import Collate, ListBatch
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.node import Node
from headrace.plan.once import cached_property
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@explain_keywords
def batch(
    self: Dataset,
    batch_size: int,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    *,
    collate_fn: Callable[[list[Nested]], object] | None = None,
) -> Dataset:
    """Combine every `batch_size` consecutive elements into one; the last batch may be short.

    Args:
        batch_size: Number of elements in a batch.
        drop_remainder: Whether to drop the last batch if it is short.
        num_parallel_calls: Number of batches to make ahead on a thread, or `hr.AUTOTUNE` to do so if it helps. With a
            `collate_fn`: number of concurrent calls of it.
        deterministic: Whether batches that a `collate_fn` makes on several threads keep their order. Default: yes.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        collate_fn: Function that makes a batch from a list of elements, as for a PyTorch DataLoader. Default: stack
            each component, which is faster.

    Returns:
        A dataset of batches.

    >>> list(hr.Dataset.range(5).batch(2))
    [array([0, 1]), array([2, 3]), array([4])]
    >>> lines = hr.Dataset.from_tensor_slices(["a b", "c", "d e f"])
    >>> list(lines.batch(2, collate_fn=lambda rows: max(len(row.split()) for row in rows)))
    [np.int64(2), np.int64(3)]
    """
    ahead = width(num_parallel_calls)
    if collate_fn is not None:
        lists = self._then(ListBatch, positive("batch_size", batch_size), bool(drop_remainder), name=name)
        return lists.map(Collate(collate_fn), ahead, deterministic, mode="eager", name=name)
    batches = self._then(Batch, positive("batch_size", batch_size), bool(drop_remainder), name=name)
    return batches if ahead is None else batches.prefetch(ahead)


@dataclass(frozen=True, eq=False)
class Batch(Batching):
    """Stack rows, which must have one shape."""

    stacks_objects = True
    follows_device = True

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
