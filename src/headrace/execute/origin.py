"""Find the record of a file that a row was made from, by re-reading it when an error about the row is shown."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.columns.block import Block, Failure
from headrace.core.types import Nested
from headrace.errors import ElementError, HeadraceError
from headrace.execute.stages.channel import Cancelled
from headrace.plan.capabilities import CallsOnRow, provides
from headrace.plan.marks import Mark, Marks, Position
from headrace.plan.node import Node, waits

if TYPE_CHECKING:
    from headrace.execute.context import Context
    from headrace.plan.prepared import Prepared

MAX_SECONDS_PER_ROW = 1.0
"""Time limit for one row: re-reading a shuffled row may mean reading many."""
MAX_SECONDS_PER_PASS = 10.0
"""Time limit for all rows of a pass, because it may have many errors."""


class Patience:
    """The time left for the errors of a pass."""

    def __init__(self) -> None:
        self.seconds = MAX_SECONDS_PER_PASS


class Origin:
    """Where a row of an input came from, by its mark or ordinal. Finding it calls no user function."""

    def __init__(self, node: Node, context: Context, row: Mark | int) -> None:
        self._node = node
        self._row = row
        self._prepared = context.prepared
        self._path, self._level = context.path, context.level
        self._run = (context.run.prepare, context.run.options, dict(context.run.sizes))
        self._patience = context.run.patience

    def find(self) -> str | None:
        """Return the file and the record, or None if they cannot be determined."""
        if self._patience.seconds <= 0:
            return None
        started = time.monotonic()
        try:
            node = _first_made(self._node)
            return None if waits(node) else self._found(node)
        except (Exception, Cancelled):  # the other error, which is about to be shown, matters more
            return None
        except KeyboardInterrupt:
            _thread.interrupt_main()  # after that error
            return None
        finally:
            self._patience.seconds -= time.monotonic() - started

    def _found(self, node: Node) -> str | None:
        from headrace.execute.run import Pass

        prepare, options, sizes = self._run

        def careful(node: Node) -> Prepared:
            if waits(node):
                raise _UnknownError
            return prepare(node)

        run = Pass(careful, options=options, sizes=sizes)
        timer = threading.Timer(MAX_SECONDS_PER_ROW, run.cancel)
        timer.daemon = True
        try:
            timer.start()  # threads that an interrupt kept from starting are never forgotten, nor is the pass
            run.origins = {}
            context = run.context(self._prepared, path=self._path, level=self._level, with_ids=True)
            row: Any = context.open(node, self._marks(node)).pull(1)
            if not isinstance(row, Block) or row.ids is None:
                return None
            path, number = (int(n) for n in row.ids[0])
            return f"{run.origins[path]}, record {number}" if path in run.origins else None
        finally:
            timer.cancel()
            run.close()

    def replay(self, call: Callable[[Block], object]) -> Nested:
        """Make the row once more, on this thread, and call a function on it."""
        from headrace.execute.run import Pass

        prepare, options, sizes = self._run
        run = Pass(prepare, options=options, sizes=sizes)
        run.origins = {}  # one row after another, on this thread
        try:
            context = run.context(self._prepared, path=self._path, level=self._level, with_ids=True)
            row: Any = context.open(self._node, self._marks(self._node)).pull(1)
            if isinstance(row, Failure):
                raise row.error.__cause__ or row.error
            if not isinstance(row, Block):
                raise HeadraceError("the element does not exist any more: its source has changed")
            return call(row)
        finally:
            run.close()

    def _marks(self, node: Node) -> Marks:
        if isinstance(self._row, Mark):
            return self._row.marks()
        return {self._prepared.number(node): Position(self._row, self._row, None, rooted=False)}


def attach_origin(error: ElementError, origin: Origin, node: Node) -> None:
    """Attach to the error of a user's function how to find its record, and how to call the function again."""
    error.find_origin = origin.find
    if provides(node, CallsOnRow):
        error.run_again = partial(origin.replay, node.call_on_row)


def _first_made(node: Node) -> Node:
    """Return the node at which the row had its id before one-to-one operations changed it."""
    while node.one_to_one and len(node.inputs) == 1:
        (node,) = node.inputs
    return node


class _UnknownError(Exception):
    """Only a user's function could find the record."""
