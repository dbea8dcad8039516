"""Tags: which record of which source a row was made of, as a column beside the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Indices, values
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.types import Nested
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.row_sizes import leaf_number
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.ops.unique import row_keys
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Node
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF, flatten, tuple_of

Tags = NDArray[np.int64]
"""The last axis has TAG_SIZE numbers: the source, the path of the row's id, the row's number on that path, its key.

The key is that of a row of a database, if it is a whole number; if it is text, its number among the source's `Keys`.
"""
TAG_SIZE = 4
NO_SOURCE = -1
"""The source of rows that only fill up a batch."""


class Keys:
    """The key of a source of rows of a database: its column, and the texts that it had so far."""

    def __init__(self, column: str, *, is_number: bool) -> None:
        self._column = column
        self._is_number = is_number
        self._texts: list[str] = []

    def numbers(self, block: Block) -> NDArray[np.int64]:
        """What tags hold of the keys of a block."""
        column = block.columns[leaf_number("rows_of", block.structure, self._column)]
        if self._is_number:
            return np.fromiter(values(column), np.int64, block.rows)
        first = len(self._texts)
        self._texts += map(str, values(column))
        return np.arange(first, first + block.rows)

    def key(self, number: int) -> int | str:
        """The key that a tag holds."""
        return number if self._is_number else self._texts[number]


def keys_of(source: Node) -> Keys | None:
    """The key of a source, if it is a query with one."""
    keyed = getattr(getattr(source, "source", None), "keyed", None)
    return None if keyed is None else Keys(keyed.key, is_number=keyed.is_number)


@dataclass(frozen=True, eq=False)
class Tagged(Node):
    """Rows of a source with a tag: pairs of both with `values`, else the tags alone.

    `parent` is the tag of the row that the source was made of, if it holds values that a user's function passed to it.
    """

    input: Node
    source: int
    values: bool
    parent: Any = field(default=None, repr=False)
    keys: Keys | None = field(default=None, repr=False)

    one_to_one = True

    @property
    def spec(self) -> Spec:
        tag = Spec(LEAF, (TensorSpec(self.tag_shape, np.int64),))
        return Spec.tuple_of([self.input.spec, tag]) if self.values else tag

    @property
    def tag_shape(self) -> tuple[int, ...]:
        """The shape of one row's tag."""
        return (TAG_SIZE,) if self.parent is None else self.parent.shape

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    def tag(self, block: Block) -> Block:
        """The rows of a block with their tags."""
        assert block.ids is not None, "rows are read with ids"
        tags = np.empty((block.rows, *self.tag_shape), np.int64)
        if self.parent is None:
            tags[:, 0] = self.source
            tags[:, 1:3] = block.ids.view(np.int64)
            tags[:, 3] = 0 if self.keys is None else self.keys.numbers(block)
        else:
            tags[:] = self.parent
        if not self.values:
            return Block(LEAF, [tags], block.rows, block.mark, block.ids)
        return Block(tuple_of([block.structure, LEAF]), [*block.columns, tags], block.rows, block.mark, block.ids)


@fetches(Tagged)
def fetch_tagged(node: Tagged, ctx: Context, indices: Indices) -> Block:
    """Rows by number, with their tags."""
    return node.tag(ctx.with_row_ids().fetch(node.input, indices))


@opens(Tagged)
class TaggedStream(Stream):
    """Adds the tags to what it pulls."""

    def __init__(self, node: Tagged, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.with_row_ids().open(node.input, at.inputs)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        return self._node.tag(item) if isinstance(item, Block) else item

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


@dataclass(frozen=True, eq=False)
class FirstSeen(UnchangedRows):
    """`unique` on pairs of an element and its tag: the first pair of each element."""

    positional = True

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(FirstSeen)
class FirstSeenStream(Stream):
    """Keeps a set of the elements that were seen."""

    @override
    def __init__(self, node: FirstSeen, ctx: Context, at: At) -> None:  # rows are read from the start
        self._input = ctx.open(node.input)
        self._seen: set[Any] = set()

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if not isinstance(item, Block):
            return item
        elements = item.structure.children[0]
        fresh = []
        for number, key in enumerate(row_keys(Block(elements, item.columns[: elements.leaves], item.rows))):
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(number)
        return [item.take(np.array(fresh))] if fresh else []


def each_tag(tags: object, change: Callable[[Any], object]) -> Nested:
    """The same structure of tags with each array changed."""
    structure, leaves = flatten(tags)
    return structure.around([change(np.asarray(leaf)) for leaf in leaves])


def flat_tags(tags: object) -> Tags:
    """All tags of one element, in order, without those that only fill up."""
    _, leaves = flatten(tags)
    rows: Tags = np.concatenate([np.asarray(leaf, np.int64).reshape(-1, TAG_SIZE) for leaf in leaves])
    kept: Tags = rows[rows[:, 0] != NO_SOURCE]
    return kept
