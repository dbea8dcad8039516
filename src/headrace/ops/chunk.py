"""Long documents in chunks that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Column, Indices, column_of, take, values
from headrace.columns.block import Block, Failure, Item
from headrace.core.ragged import Ragged
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import integer, positive
from headrace.ops.shared.row_sizes import lengths_of
from headrace.ops.unbatch import child_ids
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def chunk(
    self: Dataset, length: int, overlap: int = 0, *, fields: Sequence[object] | None = None, name: str | None = None
) -> Dataset:
    """Cut each document into chunks of at most `length` tokens.

    Only the last chunk of a document is shorter. A document that is short enough, or empty, is one chunk.

    Args:
        length: The most tokens in a chunk.
        overlap: With how many of the tokens before it a chunk begins; less than `length`.
        fields: The components to cut, by key or number; they have one value per token. By default those that have an
            axis. Every chunk gets a copy of the other components.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset of chunks, with the structure of the elements.

    Raises:
        ValueError: `overlap` is not less than `length`, or there is nothing to cut.

    >>> [chunk.tolist() for chunk in hr.Dataset.from_tensors(np.arange(10)).chunk(5, overlap=2)]
    [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9]]
    """
    size, again = positive("length", length), integer("overlap", overlap)
    if not 0 <= again < size:
        raise ValueError(f"overlap must be from 0 to {size - 1} (length - 1), not {again}")
    cut = None if fields is None else tuple(fields)
    node = Chunk(self._node, size, again, cut)
    known = self._node.spec
    if known.structure is not None and not any(node.cuts(known.structure, known)):
        raise SpecError(f"chunk: no component of {known} has an axis to cut")
    return self._then(Chunk, size, again, cut, name=name)


@dataclass(frozen=True, eq=False)
class Chunk(Node):
    """Each row becomes several, cut along the first axis of some components."""

    input: Node
    length: int
    overlap: int = 0
    fields: tuple[Any, ...] | None = None

    divides = Divides.RUNS

    def cuts(self, structure: Structure, spec: Spec) -> list[bool]:
        """Of each component, whether it is cut."""
        if self.fields is None:
            return [leaf.rank != 0 for leaf in spec.leaves]
        if structure.kind is None:
            raise SpecError(f"chunk: the elements have no components {list(self.fields)}, they are {spec}")
        unknown = [key for key in self.fields if key not in structure.keys]
        if unknown:
            raise SpecError(f"chunk: fields names {unknown[0]!r}, the elements have {list(structure.keys)}")
        pairs = zip(structure.keys, structure.children, strict=True)
        return [key in self.fields for key, child in pairs for _ in range(child.leaves)]

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        if known.structure is None:
            return known
        leaves = [
            s.with_shape((None, *s.shape[1:])) if cut and s.shape else s
            for s, cut in zip(known.leaves, self.cuts(known.structure, known), strict=True)
        ]
        return Spec(known.structure, tuple(leaves))

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality if self.input.cardinality == 0 else self.input.cardinality.vague

    def starts(self, size: int) -> range:
        """Where the chunks of a document begin."""
        stride = self.length - self.overlap
        return range(0, max(1, size - self.overlap), stride)


@opens(Chunk)
class ChunkStream(Stream):
    """The chunks of a block as one block."""

    def __init__(self, node: Chunk, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)
        self._chunks_per_row = 1

    def pull(self, want: int) -> Made:
        item = self._input.pull(max(1, want // self._chunks_per_row) if self._node.input.pure else 1)
        if item is END or isinstance(item, Failure):
            return item
        made = chunks_of(self._node, item)
        self._chunks_per_row = max(1, sum(m.rows for m in made) // item.rows)
        return made


def chunks_of(node: Chunk, block: Block) -> list[Item]:
    """The chunks of the rows of a block; a row that cannot be cut is one failure."""
    spec = node.input.spec
    if spec.structure != block.structure:
        spec = Spec.of_leaves(block.structure, [next(values(column)) for column in block.columns])
    cut = node.cuts(block.structure, spec)
    sizes = [lengths_of(column) if is_cut else None for column, is_cut in zip(block.columns, cut, strict=True)]
    known = [each for each, is_cut in zip(sizes, cut, strict=True) if is_cut]
    first = known[0] if known else None
    if first is None or not all(each is not None and np.array_equal(first, each) for each in known):
        if block.rows > 1:
            return [item for i in range(block.rows) for item in chunks_of(node, block.slice(i, i + 1))]
        paths = [path for path, is_cut in zip(block.structure.paths, cut, strict=True) if is_cut]
        found = [None if each is None else int(each[0]) for each in known]
        return [Failure(node.error(unequal_sizes(paths, found), block.mark.ordinal), block.mark)]
    stride = node.length - node.overlap
    counts = np.maximum(1, -(-(first - node.overlap) // stride))
    row = np.repeat(np.arange(block.rows), counts)
    begin = (np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)) * stride
    lengths = np.minimum(node.length, first[row] - begin)
    columns = [
        _cut(column, row, begin, lengths) if is_cut else take(column, row)
        for column, is_cut in zip(block.columns, cut, strict=True)
    ]
    ids = None if block.ids is None else child_ids(block.ids, counts)
    return [Block(block.structure, columns, len(row), block.mark, ids)]


def unequal_sizes(paths: Sequence[str], sizes: Sequence[int | None]) -> SpecError:
    """Return why an element whose components have these numbers of tokens cannot be cut."""
    if not sizes:
        return SpecError("the element has no component with an axis to cut")
    found = [f"component{p} has {'no axis' if n is None else n}" for p, n in zip(paths, sizes, strict=True)]
    return SpecError(f"the components to cut differ in length: {', '.join(found)}")


def _cut(column: Column, row: Indices, begin: Indices, lengths: Indices) -> Column:
    """Parts of the rows of a column: `lengths` values of each `row`, from `begin` on."""
    if isinstance(column, np.ndarray) and column.ndim > 1:
        flat, starts = column.reshape(-1, *column.shape[2:]), row * column.shape[1] + begin
    elif isinstance(column, Ragged) and isinstance(column.values, np.ndarray):
        flat, starts = column.values, column.offsets[row] + begin
    else:
        found = list(values(column))
        pieces = zip(row.tolist(), begin.tolist(), (begin + lengths).tolist(), strict=True)
        return column_of([found[i][a:b] for i, a, b in pieces])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Ragged(flat[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets)
