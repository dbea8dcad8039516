"""Count rows, as a row: the result of a cluster's workers for their splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.columns.block import scalar_block
from headrace.core.override import override
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import Divides, Node
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

ROWS_PER_SKIP = 1 << 15


@dataclass(frozen=True, eq=False)
class CountRows(Node):
    """One row: the number of the input's, failures included."""

    input: Node

    divides = Divides.SHARES

    @property
    def operation(self) -> str:
        return "count"

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), np.int64),))

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(1)


@opens(CountRows)
class CountStream(Stream):
    """Skip all rows on the first pull and return their number."""

    @override
    def __init__(self, node: CountRows, ctx: Context, at: At) -> None:  # a place is a number
        self._node = node
        self._ctx = ctx
        self._given = False

    @override
    def pull(self, want: int) -> Made:
        if self._given:
            return END
        self._given = True
        rows = self._ctx.open(self._node.input)
        while rows.skip(ROWS_PER_SKIP) == ROWS_PER_SKIP:
            pass
        return scalar_block(np.array([rows.ordinal]), self._ctx.ids_between(0, 1))

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        done = min(count, int(not self._given))
        self._given = self._given or done > 0
        return done
