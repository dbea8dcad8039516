"""What `skip_steps` means."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.ops.skip_steps import SkipSteps
from headrace.reference.base import Place, Row, rows


@rows.register
def _(node: SkipSteps, at: Place) -> Iterator[Row]:
    return (row for step, row in enumerate(rows(node.input, at)) if step not in node.steps)
