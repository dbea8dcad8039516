"""All but some elements, named by their step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.execute.context import OBJECTS, Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.arguments import integer
from headrace.ops.shared.unchanged_rows import MovedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def skip_steps(self: Dataset, steps: Iterable[int], name: str | None = None) -> Dataset:
    """Leave out the elements at these steps and keep all others bit for bit.

    The elements that are left out are not made, unless a function that makes them has effects. Shuffles and random
    draws of the other elements are those of the run without `skip_steps`: they do not depend on what is delivered.

    Args:
        steps: The numbers of the elements to leave out, counted from 0 in each epoch of this dataset. Steps beyond the
            end leave out nothing.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A dataset without these elements.

    Raises:
        ValueError: A step is negative.

    >>> list(hr.Dataset.range(6).skip_steps([1, 4]))
    [np.int64(0), np.int64(2), np.int64(3), np.int64(5)]
    """
    numbers = sorted({integer("steps", step) for step in steps})
    if numbers and numbers[0] < 0:
        raise ValueError(f"skip_steps: steps are counted from 0; {numbers[0]} is negative")
    return self._then(SkipSteps, tuple(numbers), name=name)


@dataclass(frozen=True, eq=False)
class SkipSteps(MovedRows):
    """All rows but those with these ordinals."""

    steps: tuple[int, ...]

    @property
    def operation(self) -> str:
        return "skip_steps"

    @property
    def cardinality(self) -> Cardinality:
        rows = self.input.cardinality
        return rows.less(bisect_left(self.steps, int(rows))) if rows.known else rows

    @cached_property
    def kept_before(self) -> Indices:
        """For each step, how many rows before it are kept."""
        return np.array(self.steps, np.int64) - np.arange(len(self.steps))


@fetches(SkipSteps)
def fetch_kept(node: SkipSteps, ctx: Context, indices: Indices) -> Block:
    """Rows of the input, past the steps that are left out."""
    return ctx.fetch(node.input, indices + np.searchsorted(node.kept_before, indices, side="right"))


@opens(SkipSteps)
class SkipStepsStream(Stream):
    """Pulls up to the next step that is left out, and passes over that one."""

    def __init__(self, node: SkipSteps, ctx: Context, at: At) -> None:
        self._steps = node.steps
        self._input = ctx.open(node.input, at.inputs, any_order=False, form=OBJECTS)

    def _rows_before_step(self) -> int | None:
        """Pass over steps that come now; how many rows come before the next one, None if there is none."""
        steps = self._steps
        following = bisect_left(steps, self._input.ordinal)
        while following < len(steps) and steps[following] == self._input.ordinal:
            if not self._input.skip(1):
                return None
            following += 1
        return steps[following] - self._input.ordinal if following < len(steps) else None

    def pull(self, want: int) -> Made:
        rows = self._rows_before_step()
        return self._input.pull(want if rows is None else min(want, rows))

    def skip(self, count: int, *, replay: bool = False) -> int:
        done = 0
        while done < count:
            rows = self._rows_before_step()
            wanted = count - done if rows is None else min(count - done, rows)
            passed = self._input.skip(wanted, replay=replay)
            done += passed
            if passed < wanted:
                break
        return done
