"""Make rows one at a time and hand them over in blocks.

Some operations cannot say in advance how many rows they need: a bucket is full when a row of its length comes. If
making rows can be observed, because a user's function is called for each, they must not request more. They pass a
function down instead (`IsLast`): the operation that calls the user's function asks it after every row, and stops there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from headrace.columns.block import Block
from headrace.core.types import Nested
from headrace.plan.structure import Structure

Leaves: TypeAlias = Sequence[Any] | Exception
"""The components of a row, which must not be modified, or the exception if the row cannot be built."""
IsLast: TypeAlias = Callable[[Structure, Leaves], bool]
"""Return whether a row is the last one needed. Called once for each row, in order, before the next one is made."""

ROWS_AT_A_TIME = 64
"""How many rows of a block are inspected before the next are taken from their columns."""


def arguments_of(structure: Structure, leaves: Leaves) -> tuple[Any, ...]:
    """Return the arguments of a user's function for a row. Arrays are copied, because the function may modify them."""
    if isinstance(leaves, Exception):
        raise leaves
    if structure.kind is None:
        leaf = leaves[0]
        return (leaf.copy() if isinstance(leaf, np.ndarray) else leaf,)
    own = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    if structure.kind is dict and structure.flat:  # as `pack` does, in half the time
        parts = dict(zip(structure.keys, own, strict=True))
        return (parts if structure.written == structure.keys else {key: parts[key] for key in structure.written},)
    element: Nested = structure.pack(own)
    return element if structure.unpacks else (element,)


def rows_until(block: Block, want: int, is_last: IsLast) -> int:
    """Return how many rows of a block are needed: at most `want`, up to and including the last."""
    structure, count = block.structure, 0
    stop = min(want, block.rows)
    while count < stop:
        end = min(stop, count + ROWS_AT_A_TIME)
        for leaves in _leaves(block if end - count == block.rows else block.slice(count, end)):
            count += 1
            if is_last(structure, leaves):
                return count
    return count


def _leaves(block: Block) -> list[Leaves]:
    try:
        return list(block.leaves())
    except Exception as error:  # of one row: the others can be made one by one
        if block.rows == 1:
            return [error]
        return [leaves for i in range(block.rows) for leaves in _leaves(block.slice(i, i + 1))]
