"""Add numbers up."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import headrace as hr
from headrace import extend


def running_sum(ds: hr.Dataset) -> hr.Dataset:
    """For `ds.apply(running_sum)`: each number with all before it; a number that cannot be made counts for nothing."""
    spec = ds.element_spec
    if not isinstance(spec, hr.TensorSpec) or spec.shape != () or spec.dtype is None or spec.dtype.kind not in "iuf":
        raise TypeError(f"running_sum adds single numbers up, not elements like {spec}")
    return extend.add_operation(ds, RunningSum)


@dataclass(frozen=True, eq=False)
class RunningSum(extend.Node):
    """Row i is the sum of rows 0 to i."""

    input: extend.Node

    @property
    def operation(self) -> str:
        return "running_sum"

    @property
    def spec(self) -> extend.Spec:
        return extend.Spec.of_signature(hr.TensorSpec((), np.float64))

    @property
    def cardinality(self) -> extend.Cardinality:
        return self.input.cardinality


@dataclass(slots=True)
class SumMark(extend.OwnMark):
    """What the sum is before a row: it cannot be told by reading on from there."""

    total: float


@extend.opens(RunningSum, own=SumMark)
class RunningSumStream(extend.Stream):
    """Goes on with the sum where a mark says."""

    def __init__(self, node: RunningSum, ctx: extend.Context, at: extend.At) -> None:
        self._input = ctx.open(node.input, at.inputs)
        self._total = 0.0 if at.own is None else at.own.total

    def pull(self, want: int) -> extend.Made:
        item = self._input.pull(want)
        if item is extend.END:
            return extend.END
        item.own = SumMark(self._total)
        if isinstance(item, extend.Block):
            sums = np.cumsum(np.concatenate([[self._total], item.columns[0]]), dtype=np.float64)[1:]
            self._total = float(sums[-1])
            item = extend.Block(extend.LEAF, [sums], item.rows, item.mark, item.ids, item.own)
        return item


@extend.means(RunningSum)
def sums(node: RunningSum, at: extend.Place) -> Iterator[extend.Row]:
    """One number after another."""
    total = np.float64(0.0)
    for row in extend.rows(node.input, at):
        if isinstance(row.value, hr.ElementError):
            yield row
        else:
            total = total + np.float64(row.value)
            yield extend.Row(row.id, total)
