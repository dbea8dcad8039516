"""Leave out every n-th element."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import headrace as hr
from headrace import extend


def drop_every(n: int) -> Callable[[hr.Dataset], hr.Dataset]:
    """For `ds.apply(drop_every(3))`: all elements but the third, the sixth and so on."""
    if n < 2:
        raise ValueError(f"drop_every takes a number of at least 2, not {n}")
    return lambda ds: extend.add_operation(ds, DropEvery, n)


@dataclass(frozen=True, eq=False)
class DropEvery(extend.UnchangedRows):
    """The rows of the input whose number is not n - 1 modulo n."""

    n: int

    @property
    def operation(self) -> str:
        return "drop_every"

    @property
    def cardinality(self) -> extend.Cardinality:
        count = self.input.cardinality
        return extend.Cardinality(count - count // self.n) if count.known else count

    @property
    def indexable(self) -> bool:
        return self.input.indexable


@extend.opens(DropEvery)
class DropEveryStream(extend.Stream):
    """Where an item lies tells which of its rows stay."""

    def __init__(self, node: DropEvery, ctx: extend.Context, at: extend.At) -> None:
        self._n = node.n
        self._input = ctx.open(node.input, at.inputs)

    def pull(self, want: int) -> extend.Made:
        first = self._input.ordinal
        item = self._input.pull(want)
        if item is extend.END:
            return extend.END
        stay = np.flatnonzero(np.arange(first, first + item.rows) % self._n != self._n - 1)
        if len(stay) == item.rows:
            return item
        return [item.take(stay)] if len(stay) and isinstance(item, extend.Block) else []


@extend.fetches(DropEvery)
def fetch_all_but_every(node: DropEvery, ctx: extend.Context, indices: extend.Indices) -> extend.Block:
    """The rows by their numbers in the input."""
    return ctx.fetch(node.input, indices + indices // (node.n - 1))


@extend.means(DropEvery)
def all_but_every(node: DropEvery, at: extend.Place) -> Iterator[extend.Row]:
    """One element after another."""
    for number, row in enumerate(extend.rows(node.input, at)):
        if number % node.n != node.n - 1:
            yield row
