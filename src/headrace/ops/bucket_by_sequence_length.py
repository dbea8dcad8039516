"""Batches of elements of similar length."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns.block import Block, Failure, leaf
from headrace.core.ragged import Ragged
from headrace.core.types import Nested, UserFunction
from headrace.errors import ElementError, SpecError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.row_by_row import Leaves, arguments_of
from headrace.indexed.memory import Memory
from headrace.ops.batch import Batch
from headrace.ops.group_by_window import GroupMark, GroupStream, keys_of
from headrace.ops.padded_batch import PaddedBatch, Padding
from headrace.ops.shared.arguments import function, positive
from headrace.ops.shared.batching import stack_items
from headrace.ops.shared.calls import results
from headrace.ops.shared.children import OneRow
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import Marked
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def bucket_by_sequence_length(
    self: Dataset,
    element_length_func: Callable[..., object],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Nested = None,
    padding_values: Nested = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
    name: str | None = None,
) -> Dataset:
    """Group elements of similar length and make padded batches of each group.

    Lengths below `bucket_boundaries[0]` form the first bucket, those of the last boundary and above the last one;
    `bucket_batch_sizes` has a size for each.

    Args:
        element_length_func: Function that returns the length of an element.
        bucket_boundaries: Upper bounds of the buckets, exclusive.
        bucket_batch_sizes: Batch size of each bucket; one more than boundaries.
        padded_shapes: Shapes to pad to; None in a shape means the longest of the batch.
        padding_values: Values to pad with. Default: 0, False or empty text.
        pad_to_bucket_boundary: Whether to pad to the boundary of the bucket instead of the longest element.
        no_padding: Whether elements of a batch have equal lengths, so that no padding is needed.
        drop_remainder: Whether to drop the last batch if it is short.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> rows = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows([[1], [2] * 5, [3] * 2, [4] * 4]))
    >>> for batch in rows.bucket_by_sequence_length(len, bucket_boundaries=[3], bucket_batch_sizes=[2, 2]):
    ...     print(batch.tolist())
    [[1, 0], [3, 3]]
    [[2, 2, 2, 2, 2], [4, 4, 4, 4, 0]]
    """
    boundaries = [int(b) for b in bucket_boundaries]
    sizes = [positive("bucket_batch_sizes", n) for n in bucket_batch_sizes]
    if boundaries != sorted(set(boundaries)):
        raise ValueError(f"bucket_boundaries must rise, not {boundaries}")
    if len(sizes) != len(boundaries) + 1:
        raise ValueError(f"{len(boundaries)} boundaries make {len(boundaries) + 1} buckets, not {len(sizes)}")
    fn = function("bucket_by_sequence_length", element_length_func, self._node.spec)
    padding = None if no_padding else Padding(padded_shapes, padding_values)
    if padding is not None and self._node.spec.known:
        padding.check(self._node.spec)
    to_boundary = bool(pad_to_bucket_boundary) and not no_padding
    return self._then(
        Bucket, fn, tuple(boundaries), tuple(sizes), padding, to_boundary, bool(drop_remainder), name=name
    )


@dataclass(frozen=True, eq=False)
class Bucket(Node):
    """Group rows by the bucket of their length; a full group is one batch."""

    input: Node
    length_func: UserFunction
    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    padding: Padding | None = field(default=None)
    to_boundary: bool = False
    drop_remainder: bool = False

    divides = Divides.SHARES

    pure = False
    live = True

    @property
    def operation(self) -> str:
        return "bucket_by_sequence_length"

    @property
    def spec(self) -> Spec:
        return self._batch(self.input, None, 0).spec if self.input.spec.known else Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.vague

    @cached_property
    def function(self) -> Function:
        """The length function and its traces."""
        return Function(self.length_func)

    def remark(self) -> str | None:
        return self.function.remark(self.input.spec)

    def key_of(self, value: object) -> int:
        """Return the bucket of a row, of what the function gave."""
        length = value
        if type(length) is not int or length > sys.maxsize:
            length = leaf(length)
            if not isinstance(length, np.integer):
                raise SpecError(f"the length must be an integer, not {length!r}")
        bucket = bisect_right(self.boundaries, int(length))
        if self.to_boundary and bucket == len(self.boundaries):
            raise ValueError(
                f"an element of length {length} is not below the last boundary, {self.boundaries[-1:]}, to pad to"
            )
        return bucket

    def key_of_row(self, structure: Structure, leaves: Leaves) -> int:
        """Return the bucket of one row, by calling the function; `len` does not write to its argument."""
        if self.length_func is len and structure.kind is None and not self.to_boundary:
            if isinstance(leaves, Exception):
                raise leaves
            return bisect_right(self.boundaries, len(leaves[0]))
        return self.key_of(self.length_func(*arguments_of(structure, leaves)))

    def keys(self, block: Block) -> Iterator[int | Exception]:
        """Return the buckets of rows: of columns that know their lengths, all at once, else each when it is
        requested.
        """
        lengths = _lengths(block) if self.length_func is len else None
        if lengths is None:
            return keys_of(self, results(self.function, block, "iu"))
        found = np.searchsorted(self.boundaries, lengths, side="right")
        if self.to_boundary and (found == len(self.boundaries)).any():
            return keys_of(self, results(self.function, block, "iu"))
        return iter(found.tolist())

    def size_of(self, key: int) -> int:
        """Return how many rows a bucket's batch has."""
        return self.sizes[key]

    def _batch(self, rows: Node, key: int | None, size: int) -> Batch | PaddedBatch:
        if self.padding is None:
            return Batch(rows, max(1, size), site=self.site)
        padding = self.padding
        if key is not None and self.to_boundary:
            padding = self._to(rows, self.boundaries[key] - 1)
        return PaddedBatch(rows, max(1, size), padding=padding, site=self.site)

    def _to(self, rows: Node, length: int) -> Padding:
        """Axes of no fixed size are filled up to `length`."""
        assert self.padding is not None
        assert isinstance(rows, Memory)
        targets = self.padding.targets(rows.structure)
        shapes = []
        for target, column in zip(targets, rows.columns, strict=True):
            axes = (None,) * max(0, np.ndim(column[0])) if target is None else target
            shapes.append(tuple(length if n is None else n for n in axes))
        return Padding(rows.structure.around(shapes), self.padding.values)

    def outcome(self, ctx: Context, key: int, rows: Block, mark: Marked | None) -> OneRow:
        """Return the batch of a full bucket; a bucket that is not full at the end may be dropped."""
        if self.drop_remainder and rows.rows < self.sizes[key]:
            return OneRow(None)
        assert rows.ids is not None
        path = ctx.branch(int(rows.ids[0, 0]), int(rows.ids[0, 1]))
        rows.ids = path.ids_between(0, rows.rows)
        try:
            memory = Memory(self.input.spec, rows.rows, rows.structure, rows.columns, "bucket")
            return OneRow(stack_items(self._batch(memory, key, rows.rows), [rows], rows.rows, 0), mark)
        except ElementError as error:
            return OneRow(Failure(error), mark)
        except Exception as error:
            return OneRow(Failure(self.error(error, rows.mark.ordinal)), mark)


opens(Bucket, own=GroupMark)(GroupStream)


def _lengths(block: Block) -> NDArray[np.int64] | None:
    """Return `len` of each row, if a column knows it without making the rows."""
    column = block.columns[0] if block.structure == LEAF else None
    if isinstance(column, Ragged):
        return column.row_lengths()
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return np.full(len(column), column.shape[1])
    return None
