"""What `weighted_sample` means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from headrace.core.keys import ROOT
from headrace.ops.weighted_sample import BITS, WeightedSample
from headrace.reference.base import Place, Row, draw, fold_id, rows


@rows.register
def _(node: WeightedSample, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, replace(at, dropped=[], by_number=True)))
    key = node.seed.key(at.path if node.reshuffle else ROOT)
    weights = node.table.weights.tolist()

    def unit(number: int) -> float:
        return (draw(key, number, 1 << BITS) + 0.5) / (1 << BITS)

    if not node.replacement:
        times = [-math.log(unit(i)) / w if w else math.inf for i, w in enumerate(weights)]
        for number in sorted(range(len(times)), key=times.__getitem__)[: node.count]:
            yield everything[number]
        return
    steps = list(accumulate(weights))
    for place in range(node.count):
        at_step = unit(place) * steps[-1]
        row = everything[next(i for i, step in enumerate(steps) if step > at_step)]
        yield Row(fold_id(row.id, place + 1), row.value)
