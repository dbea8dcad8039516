"""The part of each sequence that a context-parallel process works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.columns import Column, column_of, values
from headrace.columns.block import Block, Failure, Item
from headrace.core.types import Array
from headrace.errors import SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Spec

if TYPE_CHECKING:
    from headrace.plan.structure import Structure

ContextOrder = Literal["contiguous", "zigzag"]
"""Which part of a sequence a process gets: one piece, or one of the first half and its mirror image of the second."""


@dataclass(frozen=True, eq=False)
class ContextSlice(Node):
    """A part of every component along one axis."""

    input: Node
    rank: int = field(metadata=TUNING)
    size: int = field(metadata=TUNING)
    order: ContextOrder = "contiguous"
    axis: int = 0
    fields: tuple[Any, ...] | None = None

    one_to_one = True

    @property
    def operation(self) -> str:
        return "distribute"

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def spec(self) -> Spec:
        known = self.input.spec
        if known.structure is None:
            return known
        leaves = []
        for leaf, cut in zip(known.leaves, self.cuts(known.structure, known), strict=True):
            shape = leaf.shape
            if not cut or shape is None or len(shape) <= self.axis:
                leaves.append(leaf)
                continue
            size = shape[self.axis]
            part = None if size is None or size % self.pieces else size // self.size
            leaves.append(leaf.with_shape((*shape[: self.axis], part, *shape[self.axis + 1 :])))
        return Spec(known.structure, tuple(leaves))

    @property
    def pieces(self) -> int:
        """How many pieces a sequence is cut into."""
        return self.size * (2 if self.order == "zigzag" else 1)

    def cuts(self, structure: Structure, spec: Spec) -> list[bool]:
        """Of each component, whether it is cut: those that are named, or all that have the axis."""
        if self.fields is None:
            return [leaf.rank is None or leaf.rank > self.axis for leaf in spec.leaves]
        unknown = [key for key in self.fields if key not in structure.keys]
        if unknown:
            raise SpecError(f"context_fields names {unknown[0]!r}, the elements have {list(structure.keys)}")
        pairs = zip(structure.keys, structure.children, strict=True)
        return [key in self.fields for key, child in pairs for _ in range(child.leaves)]

    def part(self, array: Array, axis: int) -> Array:
        """The part of this process along an axis; raises SpecError if the axis cannot be cut evenly."""
        length = array.shape[axis]
        if length % self.pieces:
            raise SpecError(
                f"a sequence of {length} cannot be cut into {self.pieces} equal pieces, for {self.size} "
                "context-parallel processes: pad it to a multiple of that"
            )
        width = length // self.pieces
        mine = [self.rank] if self.order == "contiguous" else [self.rank, self.pieces - 1 - self.rank]
        numbers = np.concatenate([np.arange(piece * width, (piece + 1) * width) for piece in mine])
        return np.take(array, numbers, axis)


@opens(ContextSlice)
class ContextSliceStream(Stream):
    """Cuts the columns of a block."""

    def __init__(self, node: ContextSlice, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        return [*self._cut(item)] if isinstance(item, Block) else item

    def _cut(self, block: Block) -> list[Item]:
        node = self._node
        known = node.input.spec
        if known.structure != block.structure:
            known = Spec.of_leaves(block.structure, [next(values(column)) for column in block.columns])
        try:
            cut = node.cuts(block.structure, known)
            columns = [
                self._column(column) if is_cut else column for column, is_cut in zip(block.columns, cut, strict=True)
            ]
        except SpecError as error:
            if block.rows > 1:
                return [item for i in range(block.rows) for item in self._cut(block.slice(i, i + 1))]
            return [Failure(node.error(error, block.mark.ordinal), block.mark)]
        return [Block(block.structure, columns, block.rows, block.mark, block.ids)]

    def _column(self, column: Column) -> Column:
        if isinstance(column, np.ndarray):
            return self._node.part(column, self._node.axis + 1)
        return column_of([self._node.part(np.asarray(row), self._node.axis) for row in values(column)])

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)
