"""A uniform shuffle of everything, by row numbers: `shuffle()` without a buffer size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headrace import _native, keys
from headrace.block import Block, Indices
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.ops.gather import NumberStream
from headrace.ops.passing import Moving
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING

TABLE = 1 << 16
"""Up to this many rows the whole order is computed at once; the kernel needs no table beyond."""


@dataclass(frozen=True, eq=False)
class Permute(Moving):
    """Row i is row p(i) of the input, p a permutation given by the key."""

    seed: keys.Seed
    reshuffle: bool = True
    window: int | None = field(default=None, metadata=TUNING)

    positional = True

    @property
    def operation(self) -> str:
        return "shuffle"

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


def permuted(node: Permute, ctx: Context, indices: Indices) -> Indices:
    """p of these."""
    out = np.empty(len(indices), np.int64)
    key = node.seed.key(ctx.path if node.reshuffle else keys.ROOT)
    _native.permute(key, node.cardinality, np.ascontiguousarray(indices), out)
    return out


@opens(Permute)
def open_permuted(node: Permute, ctx: Context, at: At) -> Stream:  # noqa: ARG001 - a place is a number
    """The rows by number."""
    count = int(node.cardinality)
    order = None if count > TABLE else permuted(node, ctx, np.arange(count))

    def numbers(start: int, stop: int) -> Indices:
        return permuted(node, ctx, np.arange(start, stop)) if order is None else order[start:stop]

    return NumberStream(ctx, node.input, count, numbers, lot=node.window, scattered=node.input.coarse)


@fetches(Permute)
def fetch_permuted(node: Permute, ctx: Context, indices: Indices) -> Block:
    """Rows by their new numbers."""
    return ctx.fetch(node.input, permuted(node, ctx, indices))
