"""Leave out the elements that could not be made."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.block import Failure
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.ops.passing import Keeping
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING

if TYPE_CHECKING:
    from headrace.dataset import Dataset

log = logging.getLogger("headrace")


def ignore_errors(self: Dataset, log_warning: bool = False, name: str | None = None) -> Dataset:
    """Drop the elements that fail; with `log_warning` each is logged.

    >>> list(hr.Dataset.from_tensor_slices(["1", "x", "3"]).map(int).ignore_errors())
    [np.int64(1), np.int64(3)]
    """
    return self._then(IgnoreErrors, bool(log_warning), name=name)


@dataclass(frozen=True, eq=False)
class IgnoreErrors(Keeping):
    """The rows of the input that are no failures."""

    log_warning: bool = field(default=False, metadata=TUNING)

    @property
    def operation(self) -> str:
        return "ignore_errors"

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(IgnoreErrors)
class IgnoreErrorsStream(Stream):
    """Pulls until something is no failure."""

    def __init__(self, node: IgnoreErrors, ctx: Context, at: At) -> None:
        self._log = node.log_warning
        self._input = ctx.open(node.input, at.inputs, any_order=True)

    def pull(self, want: int) -> Made:
        while isinstance(item := self._input.pull(want), Failure):
            if self._log:
                log.warning("ignored: %s", item.error)
        return item
