"""The naive executor: one element at a time, one generator a node, no blocks, no threads, no marks.

It says what a plan means. The block engine must give the same elements, errors and ids; the property tests see to it.
Nothing here is shared with the engine but the plan and the conversion of users' values.
"""

from __future__ import annotations

from headrace.reference.base import Row, draw, rows_of, run

__all__ = ["Row", "draw", "rows_of", "run"]
