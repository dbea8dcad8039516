"""Each element once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import values
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.ragged import Ragged
from headrace.core.types import Nested
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.spec import DatasetSpec
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


def unique(self: Dataset[Element], name: str | None = None) -> Dataset[Element]:
    """Drop elements that equal an earlier one.

    Args:
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique())
    [np.int64(1), np.int64(37), np.int64(2)]
    """
    for leaf in self._node.spec.leaves:
        if isinstance(leaf, DatasetSpec):
            raise TypeError(f"unique compares values, not datasets: {self._node.spec}")
    return self._then(Unique, name=name)


@dataclass(frozen=True, eq=False)
class Unique(UnchangedRows):
    """Rows that differ from all before them.

    The set of seen rows may be larger than the remaining data, so it is not part of a mark: a restore re-reads all.
    """

    positional = True

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(Unique)
class UniqueStream(Stream):
    """Keeps a set of what was seen."""

    @override
    def __init__(self, node: Unique, ctx: Context, at: At) -> None:  # rows are read from the start
        self._input = ctx.open(node.input)
        self._seen: set[Any] = set()

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if not isinstance(item, Block):
            return item
        fresh = [i for i, key in enumerate(row_keys(item)) if self._is_new(key)]
        return item if len(fresh) == item.rows else [item.take(np.array(fresh))] if fresh else []

    def _is_new(self, key: object) -> bool:
        before = len(self._seen)
        self._seen.add(key)
        return len(self._seen) > before


def row_keys(block: Block) -> Iterator[Nested]:
    """Yield a hashable key for each row; equal rows have equal keys."""
    if block.structure.kind is None:
        return map(_leaf_key, values(block.columns[0]))
    return (element_key(block.structure, leaves) for leaves in block.leaves())


def element_key(structure: Structure, leaves: Iterable[object]) -> Hashable:
    """Return a hashable key for an element; equal elements have equal keys."""
    if structure.kind is None:
        (value,) = leaves
        return _leaf_key(value)
    return (structure, tuple(_leaf(v) for v in leaves))


def _leaf_key(value: object) -> Hashable:
    return value.item() if isinstance(value, np.integer) else _leaf(value)


def _leaf(value: object) -> Hashable:
    if isinstance(value, Ragged):
        return ("ragged", _leaf(value.offsets), _leaf(value.values))
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return (value.dtype.str, value.shape, value.tobytes())
    return (value.shape, tuple(value.flat)) if isinstance(value, np.ndarray) else (type(value).__name__, value)
