"""Take batches apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices, unstack
from headrace.columns.block import FOLD, Block, Failure, Ids, Item, concat
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At, Mark
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def unbatch(self: Dataset, name: str | None = None) -> Dataset:
    """Split each element along its first axis into several.

    If each element is known to have n rows, as after `batch(n, drop_remainder=True)`, a failed element becomes n
    failures.

    Args:
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.from_tensors([5, 6, 7]).unbatch())
    [np.int64(5), np.int64(6), np.int64(7)]
    """
    spec = self._node.spec
    if spec.structure is not None:
        if not spec.leaves:
            raise ValueError("unbatch: the elements have no components to split")
        for path, leaf in zip(spec.structure.paths, spec.leaves, strict=True):
            if leaf.rank == 0:
                raise ValueError(f"unbatch: component{path} is a scalar, {leaf}; there is nothing to split")
        sizes = {leaf.shape[0] for leaf in spec.leaves if leaf.shape is not None} - {None}
        if len(sizes) > 1:
            raise ValueError(f"unbatch: the components of {spec} have different numbers of rows")
    return self._then(Unbatch, name=name)


@dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """Split each row into as many as its components have."""

    input: Node

    divides = Divides.RUNS

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        return Spec(known.structure, tuple(s.with_shape(s.shape and s.shape[1:]) for s in known.leaves))

    @property
    def cardinality(self) -> Cardinality:
        size = self.input.leading
        return self.input.cardinality.vague if size is None else self.input.cardinality.times(size)

    @property
    def indexable(self) -> bool:
        return bool(self.input.leading) and self.input.indexable

    @property
    def coarse(self) -> bool:
        return True


@fetches(Unbatch)
def fetch_unbatched(node: Unbatch, ctx: Context, indices: Indices) -> Block:
    """Fetch rows from the batches that contain them."""
    size = node.input.leading
    assert size, "rows can be fetched by number only if all batches have the same size"
    batches, places = np.unique(indices // size, return_inverse=True)
    block = ctx.fetch(node.input, batches)
    block.mark = Mark(-1, int(batches[0]), 0)  # for errors: a batch has a number, though it has no position
    items = split(node, block)
    for item in items:
        if isinstance(item, Failure):
            raise item.error
    return concat([item for item in items if isinstance(item, Block)]).take(places * size + indices % size)


@opens(Unbatch)
class UnbatchStream(Stream):
    """Request about as many batches as needed for the rows; one at a time if reading is observable."""

    def __init__(self, node: Unbatch, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._batch_rows = 1

    def pull(self, want: int) -> Made:
        item = self._input.pull(max(1, want // self._batch_rows) if self._node.input.pure else 1)
        if item is END:
            return END
        made = failures(self._node, item) if isinstance(item, Failure) else split(self._node, item)
        self._batch_rows = max(1, sum(m.rows for m in made) // item.rows)
        return made

    def skip(self, count: int, *, replay: bool = False) -> int:
        size = self._node.input.leading
        return self._input.skip(count // size, replay=replay) * size if size else 0


def split(node: Unbatch, block: Block) -> list[Item]:
    """Split the rows of a block; a row whose components differ in length is one failure."""
    apart = [unstack(c) for c in block.columns]
    counts = [None if each is None else each[1] for each in apart]
    lengths = counts[0] if counts else None
    if lengths is not None and all(c is not None and np.array_equal(c, lengths) for c in counts):
        rows = int(lengths.sum())
        columns = [each[0] for each in apart if each is not None]
        ids = None if block.ids is None else child_ids(block.ids, lengths)
        return [Block(block.structure, columns, rows, block.mark, ids)] if rows else []
    if block.rows > 1:
        return [item for i in range(block.rows) for item in split(node, block.slice(i, i + 1))]
    why = unequal(block.structure, [None if c is None else int(c[0]) for c in counts])
    return failures(node, Failure(node.error(why, block.mark.ordinal), block.mark))


def unequal(structure: Structure, counts: list[int | None]) -> SpecError:
    """Return the error for an element whose components have these numbers of rows."""
    if not counts:
        return SpecError("the element has no components to split")
    found = ", ".join(
        f"component{path} has {'no rows' if c is None else c}" for path, c in zip(structure.paths, counts, strict=True)
    )
    return SpecError(f"the components differ in their number of rows: {found}")


def failures(node: Unbatch, failure: Failure) -> list[Item]:
    """Return the failures of a failed row: one for each of its rows, if their number is known."""
    made: list[Item] = []
    for i in range(1 if (size := node.input.leading) is None else size):
        made.append(Failure(failure.error, failure.mark))
        made[-1].offset = i
    return made


def child_ids(ids: Ids, lengths: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Ids:
    """Return ids: a part has its index in the batch as number, and the batch's whole id as path."""
    made = np.empty((int(lengths.sum()), 2), np.uint64)
    made[:, 0] = np.repeat(ids[:, 0] * np.uint64(FOLD) + ids[:, 1], lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    made[:, 1] = np.arange(len(made)) - starts
    return made
