"""The naive executor: one element at a time, one generator a node, no blocks, no threads, no marks.

It says what a plan means. The block engine must give the same elements, errors and ids; the property tests see to it.
Nothing here is shared with the engine but the plan and the conversion of users' values.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.execute.reference import batches as _batches
from headrace.execute.reference import files as _files
from headrace.execute.reference import given as given
from headrace.execute.reference import groups as groups
from headrace.execute.reference import rows as _rows
from headrace.execute.reference import stored
from headrace.execute.reference.base import Place, Row, Unmade, draw, rows
from headrace.plan.node import Node

__all__ = ["Row", "draw", "rows_of", "run"]

assert _batches
assert given
assert groups
assert _files
assert _rows
assert stored


def rows_of(plan: Node, epoch: int = 0) -> Iterator[Row]:
    """The rows of a plan, as an operation after it sees them."""
    return rows(plan, Place().epoch(epoch))


def run(plan: Node, epoch: int = 0) -> Iterator[Row]:
    """The rows of a plan, as whoever iterates sees them."""
    for number, row in enumerate(rows_of(plan, epoch)):
        made = isinstance(row.value, Unmade)
        yield Row(row.id, plan.error(row.value.error, number)) if made else row
