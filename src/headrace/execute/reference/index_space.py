"""What the operations mean that deal elements out and pack them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import ElementError
from headrace.execute.reference.base import Place, Row, draw, folded, pair, rows
from headrace.execute.reference.rows import stacked
from headrace.keys import mix
from headrace.ops.choose import Choose
from headrace.ops.distribute import FILLED, Distribute
from headrace.ops.mix import UNIT, Mix, MixChoices, halved


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


@rows.register
def _(node: Mix, at: Place) -> Iterator[Row]:
    return rows(Choose(node.branches, node.places, True, "mix", site=node.site), at)


@rows.register
def _(node: MixChoices, at: Place) -> Iterator[Row]:
    number = 0
    stops = [start for start, _ in node.segments[1:]]
    for segment, (start, weights) in enumerate(node.segments):
        key = mix(node.seed.key(at.path), segment)
        shares = halved(weights).tolist()
        stop = stops[segment] if segment < len(stops) else None
        while stop is None or number < stop:
            first = number - start
            block = [_branch(shares, first + i) for i in range(256)]
            for i in range(255, 0, -1):
                j = draw(key, first + i, i + 1)
                block[i], block[j] = block[j], block[i]
            for branch in block if stop is None else block[: stop - number]:
                yield Row((at.path, number), np.int64(branch))
                number += 1


def _branch(shares: list[int], n: int) -> int:
    """Whose the n-th row would be if rows did not change places."""
    first, stop = 0, len(shares)
    while stop - first > 1:
        middle = first + (stop - first) // 2
        left = (n * shares[middle] + UNIT // 2) // UNIT
        if ((n + 1) * shares[middle] + UNIT // 2) // UNIT > left:
            stop, n = middle, left
        else:
            first, n = middle, n - left
    return first
