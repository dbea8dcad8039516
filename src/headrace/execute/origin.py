"""Which record of which file a row was made of: found out when an error about it is shown, by reading it once more."""

from __future__ import annotations

import _thread
import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.block import Block
from headrace.execute.channel import Cancelled
from headrace.plan.marks import Mark, Marks, Position
from headrace.plan.node import Node, waits

if TYPE_CHECKING:
    from headrace.execute.context import Context
    from headrace.plan.prepared import Prepared

SECONDS = 1.0
"""No more time is spent on one row: to read one again that was shuffled may mean to read many."""
SECONDS_A_PASS = 10.0
"""No more time is spent on the rows of a pass: there may be many errors in it."""


class Patience:
    """How much time is left for the errors of a pass."""

    def __init__(self) -> None:
        self.seconds = SECONDS_A_PASS


class Origin:
    """Where a row of an input came from, by its mark or its number. No user's function is called on a row for it."""

    def __init__(self, node: Node, context: Context, row: Mark | int) -> None:
        self._node = node
        self._row = row
        self._prepared = context.prepared
        self._path, self._level = context.path, context.level
        self._run = (context.run.prepare, context.run.options, dict(context.run.sizes))
        self._patience = context.run.patience

    def find(self) -> str | None:
        """The file and the record, None if that cannot be told."""
        if self._patience.seconds <= 0:
            return None
        started = time.monotonic()
        try:
            node = _first_made(self._node)
            return None if waits(node) else self._found(node)
        except (Exception, Cancelled):  # it is about another error, which is to be shown
            return None
        except KeyboardInterrupt:
            _thread.interrupt_main()  # after that error
            return None
        finally:
            self._patience.seconds -= time.monotonic() - started

    def _found(self, node: Node) -> str | None:
        from headrace.execute.passes import Pass

        prepare, options, sizes = self._run

        def careful(node: Node) -> Prepared:
            if waits(node):
                raise _UnknownError
            return prepare(node)

        run = Pass(careful, options=options, sizes=sizes)
        run.origins = {}
        context = run.context(self._prepared, path=self._path, level=self._level, with_ids=True)
        timer = threading.Timer(SECONDS, run.cancel)
        timer.daemon = True
        timer.start()
        try:
            row: Any = context.open(node, self._marks(node)).pull(1)
            if not isinstance(row, Block) or row.ids is None:
                return None
            path, number = (int(n) for n in row.ids[0])
            return f"{run.origins[path]}, record {number}" if path in run.origins else None
        finally:
            timer.cancel()
            run.close()

    def _marks(self, node: Node) -> Marks:
        if isinstance(self._row, Mark):
            return self._row.marks()
        return {self._prepared.number(node): Position(self._row, self._row, None, rooted=False)}


def _first_made(node: Node) -> Node:
    """Where a row was before all that made one row of it, and kept its id."""
    while node.one_to_one and len(node.inputs) == 1:
        (node,) = node.inputs
    return node


class _UnknownError(Exception):
    """Only a user's function could tell."""
