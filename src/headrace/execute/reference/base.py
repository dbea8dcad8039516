"""What the reference executor's functions share: places, rows, the dispatch, the draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from headrace.block import element
from headrace.keys import ROOT, mix
from headrace.plan.node import Node
from headrace.plan.structure import flatten

_MASK = 2**64 - 1


@dataclass(frozen=True)
class Place:
    """The path a node is run on."""

    path: int = ROOT
    level: int = 0

    def epoch(self, number: int) -> Place:
        """In another epoch."""
        return Place(mix(self.path, self.level, number) if number else self.path, self.level + 1)

    def branch(self, *values: int) -> Place:
        """Under a parent row, or in a second place."""
        return Place(mix(self.path, *values), self.level)


@dataclass
class Row:
    """An element or the error in its place, with its id."""

    id: tuple[int, int]
    value: Any


@singledispatch
def rows(node: Node, at: Place) -> Iterator[Row]:
    """The rows of one node, which pulls those of its inputs."""
    raise NotImplementedError(f"the reference executor does not know {type(node).__name__}")


def folded(id: tuple[int, int], value: int) -> tuple[int, int]:
    """The id of a row that has become another."""
    return ((id[0] * 0x9E3779B97F4A7C15 + value) & _MASK, id[1])


def value_of(value: Any) -> Any:
    """A user's value as headrace keeps it."""
    structure, leaves = element(value)
    return structure.pack(leaves)


def call(fn: Any, value: Any) -> Any:
    """The user's function on one element."""
    return fn(*value) if type(value) is tuple else fn(value)


def boxed(value: Any) -> Any:
    """A component as an array; what is none becomes an array of one object."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    box = np.empty((), object)
    box[()] = value
    return box


def private(value: Any) -> Any:
    """An element with arrays of its own."""
    structure, leaves = flatten(value)
    return structure.pack(v.copy() if isinstance(v, np.ndarray) else v for v in leaves)


def draw(key: int, n: int, bound: int) -> int:
    """The n-th number of a Philox4x32-10 stream, in [0, bound)."""
    counter = [(n >> 1) & 0xFFFFFFFF, n >> 33, 0, 0]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (p1 >> 32) ^ counter[1] ^ k0,
            p1 & 0xFFFFFFFF,
            (p0 >> 32) ^ counter[3] ^ k1,
            p0 & 0xFFFFFFFF,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    half = counter[2 * (n & 1)] | counter[2 * (n & 1) + 1] << 32
    return (half * bound) >> 64
