"""What the operations mean that deal elements out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.core.keys import mix_key
from headrace.distribute.distribute import FILLED, Distribute
from headrace.errors import ElementError
from headrace.ops.choose import Choose
from headrace.ops.mix import Mix, MixChoices
from headrace.ops.shared.mix_history import UNIT, halved
from headrace.reference.base import Place, Row, draw, fold_id, pair, rows
from headrace.reference.batch import stack_elements


@rows.register
def _(node: Distribute, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    for number, first in enumerate(range(0, len(everything), node.together)):
        places = range(first + node.rank * node.share, first + (node.rank + 1) * node.share)
        short = first + node.together > len(everything)
        if short and node.uneven == "drop":
            return at.drop(everything[first:])
        real = [place < len(everything) for place in places]
        mine = []
        for place in places:
            filling = first if node.uneven == "pad" else (place - len(everything)) % len(everything)
            mine.append(everything[place if place < len(everything) else filling])
        failed = next((row.value for row in mine if isinstance(row.value, ElementError)), None)
        made, mask, known = mine[0].value, np.array(real)[0], mine[0].id
        if node.batch_size is not None:
            made, mask = failed or stack_elements(node, [row.value for row in mine], number), np.array(real)
            known = fold_id(known, 3)
        if node.uneven == "pad" and not isinstance(made, ElementError):
            made = pair(made, mask)
        yield Row(fold_id(known, FILLED) if short else known, made)


@rows.register
def _(node: Mix, at: Place) -> Iterator[Row]:
    return rows(Choose(node.branches, node.places, True, "mix", site=node.site), at)


@rows.register
def _(node: MixChoices, at: Place) -> Iterator[Row]:
    history = node.history
    number = history.segments[0].start
    stops = [segment.start for segment in history.segments[1:]]
    for place, segment in enumerate(history.segments):
        key = mix_key(node.seed.key(at.path), history.forgotten + place)
        shares = halved(segment.weights).tolist()
        stop = stops[place] if place < len(stops) else None
        while stop is None or number < stop:
            first = number - segment.start
            block = [_branch(shares, first + i) for i in range(256)]
            for i in range(255, 0, -1):
                j = draw(key, first + i, i + 1)
                block[i], block[j] = block[j], block[i]
            for branch in block if stop is None else block[: stop - number]:
                yield Row((at.path, number), np.int64(node.names.index(segment.names[branch])))
                number += 1


def _branch(shares: list[int], n: int) -> int:
    """Return the branch of the n-th row before rows are permuted."""
    first, stop = 0, len(shares)
    while stop - first > 1:
        middle = first + (stop - first) // 2
        left = (n * shares[middle] + UNIT // 2) // UNIT
        if ((n + 1) * shares[middle] + UNIT // 2) // UNIT > left:
            stop, n = middle, left
        else:
            first, n = middle, n - left
    return first
