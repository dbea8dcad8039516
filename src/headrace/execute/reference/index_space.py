"""What the operations mean that deal elements out and pack them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.execute.reference.base import Place, Row, folded, pair, rows
from headrace.execute.reference.rows import stacked
from headrace.ops.distribute import FILLED, Distribute


@rows.register
def _(node: Distribute, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    for number, first in enumerate(range(0, len(everything), node.together)):
        places = range(first + node.rank * node.share, first + (node.rank + 1) * node.share)
        short = first + node.together > len(everything)
        if short and node.uneven == "drop":
            return
        real = [place < len(everything) for place in places]
        mine = []
        for place in places:
            filling = first if node.uneven == "pad" else (place - len(everything)) % len(everything)
            mine.append(everything[place if place < len(everything) else filling])
        failed = next((row.value for row in mine if isinstance(row.value, ElementError)), None)
        made, mask, known = mine[0].value, np.array(real)[0], mine[0].id
        if node.batch_size is not None:
            made, mask = failed or stacked(node, [row.value for row in mine], number), np.array(real)
            known = folded(known, 3)
        if node.uneven == "pad" and not isinstance(made, ElementError):
            made = pair(made, mask)
        yield Row(folded(known, FILLED) if short else known, made)
