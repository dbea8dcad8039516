"""Leave out the elements that could not be made."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.block import Block, Failure, Item
from headrace.errors import ElementError
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.ops.calls import each
from headrace.ops.unchanged_rows import UnchangedRows
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
class IgnoreErrors(UnchangedRows):
    """The rows of the input that are no failures."""

    log_warning: bool = field(default=False, metadata=TUNING)

    divides = True
    keeps_runs = True

    @property
    def operation(self) -> str:
        return "ignore_errors"

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(IgnoreErrors)
class IgnoreErrorsStream(Stream):
    """Pulls until something is no failure. An element that its class refuses is one as well."""

    def __init__(self, node: IgnoreErrors, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if isinstance(item, Failure):
            self._ignore(item.error)
            return []
        return self._kept(item) if isinstance(item, Block) and item.structure.custom else item

    def _kept(self, block: Block) -> list[Item]:
        """The rows that can be put together."""
        kept = []
        for i, (fine, value) in enumerate(each(block.elements())):
            if fine:
                kept.append(i)
            else:
                self._ignore(self._node.error(value, block.mark.ordinal + i))
        if len(kept) == block.rows:
            return [block]
        return [block.take(np.array(kept))] if kept else []

    def _ignore(self, error: ElementError) -> None:
        if self._node.log_warning:
            log.warning("ignored: %s", error)
