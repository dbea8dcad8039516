"""A uniform shuffle of everything, by row numbers: `shuffle()` without a buffer size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace import _native, keys
from headrace.block import Block, Indices, Mark
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.gather import NumberStream
from headrace.ops.passing import Moving
from headrace.plan.cardinality import Cardinality

TABLE = 1 << 16
"""Up to this many rows the whole order is computed at once; the kernel needs no table beyond."""


@dataclass(frozen=True, eq=False)
class Permute(Moving):
    """Row i is row p(i) of the input, p a permutation given by the key."""

    seed: keys.Seed
    reshuffle: bool = True

    positional = True

    @property
    def operation(self) -> str:
        return "shuffle"

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    def numbers(self, ctx: Context, indices: Indices) -> Indices:
        """p of these."""
        out = np.empty(len(indices), np.int64)
        key = self.seed.key(ctx.path if self.reshuffle else keys.ROOT)
        _native.permute(key, self.cardinality, np.ascontiguousarray(indices), out)
        return out

    def open(self, ctx: Context, mark: Mark) -> Stream:  # noqa: ARG002
        count = int(self.cardinality)
        order = None if count > TABLE else self.numbers(ctx, np.arange(count))

        def numbers(start: int, stop: int) -> Indices:
            return self.numbers(ctx, np.arange(start, stop)) if order is None else order[start:stop]

        return NumberStream(ctx, self.input, count, numbers, scattered=self.input.coarse)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return self.input.at(ctx, self.numbers(ctx, indices))
