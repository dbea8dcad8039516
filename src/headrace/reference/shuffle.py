"""What `shuffle` means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headrace.keys import ROOT, Seed
from headrace.ops.permute import Permute
from headrace.ops.shuffle import EVERYTHING, Shuffle
from headrace.options import AUTOTUNE
from headrace.reference.base import Place, Row, draw, rows


@rows.register
def _(node: Shuffle, at: Place) -> Iterator[Row]:
    key = node.seed.key(at.path if node.reshuffle else ROOT)
    size = EVERYTHING if node.buffer_size == AUTOTUNE else node.buffer_size
    source = rows(node.input, at)
    buffer = list(islice(source, size - 1))
    hole = size - 1
    t = 0
    for row in source:
        buffer[hole : hole + 1] = [row]
        hole = draw(key, t, size)
        yield buffer[hole]
        t += 1
    if t:
        buffer[hole] = buffer[-1]
        buffer.pop()
    while buffer:
        slot = draw(key, t, len(buffer))
        yield buffer[slot]
        buffer[slot] = buffer[-1]
        buffer.pop()
        t += 1


@rows.register
def _(node: Permute, at: Place) -> Iterator[Row]:
    everything = list(rows(node.input, at))
    order = list(range(len(everything)))
    key = Seed.key(node.seed, at.path if node.reshuffle else ROOT)
    for i in range(len(order) - 1, 0, -1):
        j = draw(key, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return iter([everything[i] for i in order])
