"""The meaning of `shuffle`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from headrace.core.keys import ROOT, Seed
from headrace.ops.shuffle.permute import Permute
from headrace.ops.shuffle.shuffle import EVERYTHING, Shuffle
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
    everything = list(rows(node.input, replace(at, by_number=True)))
    key = Seed.key(node.seed, at.path if node.reshuffle else ROOT)
    if len(everything) > 1 << 16:
        return (everything[i] for i in _feistel(key, len(everything)))
    order = list(range(len(everything)))
    for i in range(len(order) - 1, 0, -1):
        j = draw(key, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return iter([everything[i] for i in order])


def _feistel(key: int, size: int) -> Iterator[int]:
    """Yield the images of each number under a keyed permutation of a power of two, repeated until below `size`."""
    bits = (size - 1).bit_length()
    left_bits, right_bits = bits // 2, bits - bits // 2
    numbers = [draw(key, n, 1 << 64) for n in (0, 1, 8, 9)]
    round_keys = [number >> shift & 0xFFFFFFFF for number in numbers for shift in (0, 32)]
    for start in range(size):
        value = start
        while True:
            left, right = value >> right_bits, value & (1 << right_bits) - 1
            for one, other in zip(round_keys[::2], round_keys[1::2], strict=True):
                left ^= _stirred(right, one) & (1 << left_bits) - 1
                right ^= _stirred(left, other) & (1 << right_bits) - 1
            value = left << right_bits | right
            if value < size:
                break
        yield value


def _stirred(x: int, key: int) -> int:
    x ^= key
    x = ((x ^ x >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ x >> 13) + key) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16
