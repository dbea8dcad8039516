"""How many elements there are, by reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.block import Failure
from headrace.execute.context import Context, Run
from headrace.execute.stream import END
from headrace.ops.with_options import merged
from headrace.optimise.rules import optimised

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def count(self: Dataset) -> int:
    """The number of elements. They are read, checksums and all, but no Python objects are made of them.

    An element that cannot be made is an error, as it is when iterating; `ds.ignore_errors().count()` leaves it out.

    >>> hr.Dataset.range(10).filter(lambda x: x % 3 == 0).count()
    4
    """
    run = Run(optimised, options=merged(self._node))
    context = Context(run).epoch(0)
    pace = run.pace() if self._node.pure else None
    try:
        source = context.open(run.prepare(self._node), any_order=True)
        while (item := source.pull(pace.ROWS if pace else 1)) is not END:
            if isinstance(item, Failure):
                raise item.error.copy()
        return source.ordinal
    finally:
        run.cancel()
        for opened in list(context.opened):
            opened.close()
        run.shared.clear()
