"""Make one element again under a debugger: `ds.debug(step)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.columns.block import Failure
from headrace.core.types import JsonObject, Nested
from headrace.execute.run import Pass
from headrace.execute.stream import END
from headrace.observe.alone import element_alone
from headrace.observe.steps import NoSuchStepError, Step, step_of
from headrace.ops.with_options import merge_options
from headrace.plan.capabilities import begin_pass
from headrace.plan.prepared import Prepared

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def debug(
    self: Dataset,
    step: int | None = None,
    row: int | None = None,
    *,
    epoch: int = 0,
    state: JsonObject | None = None,
) -> Nested:
    """Make element `step` again, with each function called by itself on the calling thread.

    Breakpoints and pdb work inside your functions. Inputs and random draws are those of the run. Functions are called
    on this element alone, unless an operation such as `filter` needs their results for the elements before it.

    Args:
        step: The number of the element in its epoch, counted from 0.
        row: Make only this row of the batch: the functions before `batch` run once. The functions after `batch` do not
            run.
        epoch: Which pass over this dataset, counted from 0.
        state: A state of an iterator, which holds the epoch and the seeds. Without `step`, the last element that was
            delivered before the state was taken is meant.

    Returns:
        The element, or with `row` the row as it goes into the batch.

    Raises:
        Exception: What your function raises, as it is: `pdb.pm()` stands in your code.
        IndexError: There is no such step or row.

    >>> ds = hr.Dataset.range(10).shuffle(10, seed=1).map(lambda x: x * 100).batch(4)
    >>> ds.debug(step=1, row=2) == ds[1][2]
    np.True_
    """
    return element_again(step_of(self, "debug", step, epoch, state), row)


def element_again(at: Step, row: int | None) -> Nested:
    """The element of a step, or one row of it."""
    plan = element_alone(at.plan, row)
    begin_pass(at.plan)
    run = Pass(options=merge_options(at.plan), sizes=at.sizes)
    run.origins = {}  # sources are read in order, on this thread
    try:
        run.open(run.context(Prepared.of(plan)).epoch(at.epoch))
        item = run.pull(1) if run.root.skip(at.step, replay=True) == at.step else END
        if item is END:
            what = "ends before" if row is None else f"has no row {row} at"
            raise NoSuchStepError(f"debug: the dataset {what} step {at.step}")
        if isinstance(item, Failure):
            raise item.error.__cause__ or item.error
        return next(iter(item.elements()))
    finally:
        run.close()
