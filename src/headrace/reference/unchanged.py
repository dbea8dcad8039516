"""What the operations that change nothing mean."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.distribute.broadcast import Broadcast
from headrace.ops.prefetch import Prefetch
from headrace.ops.progress import Progress
from headrace.ops.throttle import Throttle
from headrace.ops.with_options import WithOptions
from headrace.reference.base import Place, Row, rows


@rows.register(Broadcast)
@rows.register(Prefetch)
@rows.register(Throttle)
@rows.register(Progress)
@rows.register(WithOptions)
def _(node: Broadcast | Prefetch | Throttle | Progress | WithOptions, at: Place) -> Iterator[Row]:
    return rows(node.input, at)
