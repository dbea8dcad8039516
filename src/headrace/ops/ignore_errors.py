"""Leave out the elements that could not be made."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.block import Block, Failure, Item
from headrace.errors import ElementError, unopened_file, warn_once
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.stream import Made, Stream
from headrace.ops.shared.calls import each
from headrace.ops.shared.unchanged_rows import UnchangedRows
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Divides

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element

log: logging.Logger = logging.getLogger("headrace")


def ignore_errors(self: Dataset[Element], log_warning: bool = False, name: str | None = None) -> Dataset[Element]:
    """Drop the elements that fail; with `log_warning` each is logged.

    A file that cannot be opened is such an element, with all its records: a warning names each, once.

    Args:
        log_warning: Whether to log each failed element.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.from_tensor_slices(["1", "x", "3"]).map(int).ignore_errors())
    [np.int64(1), np.int64(3)]
    """
    return self._then(IgnoreErrors, bool(log_warning), name=name)


@dataclass(frozen=True, eq=False)
class IgnoreErrors(UnchangedRows):
    """The rows of the input that are no failures."""

    log_warning: bool = field(default=False, metadata=TUNING)

    divides = Divides.RUNS
    follows_device = True

    @property
    def operation(self) -> str:
        return "ignore_errors"

    has_extra_failures = False

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@opens(IgnoreErrors)
class IgnoreErrorsStream(Stream):
    """Pull until an item is no failure. An element that its class rejects is a failure as well."""

    def __init__(self, node: IgnoreErrors, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs, any_order=True, flush=True)

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if isinstance(item, Failure):
            self._ignore(item.error)
            return []
        return self._kept(item) if isinstance(item, Block) and item.structure.custom else item

    def _kept(self, block: Block) -> list[Item]:
        """Return the rows that can be assembled."""
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
        warn_of_dropped_file(self._node, error)
        if self._node.log_warning:
            log.warning("ignored: %s", error)


def warn_of_dropped_file(node: IgnoreErrors, error: BaseException) -> None:
    """Warn, once for each file and line of user code, if an element is dropped because a whole file is unreadable."""
    file = unopened_file(error)
    if file is not None:
        where = f" added at {node.site}" if node.site else ""
        warn_once(
            ("dropped file", node.site, file),
            f"ignore_errors{where} drops all of {file}, which cannot be opened; if such a file is to be an error, give "
            "the reader on_error='skip' in place of ignore_errors",
        )
