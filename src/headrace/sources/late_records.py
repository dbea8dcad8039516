"""Records of files on this machine that are copied out of them, and verified, where they are used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace import _native
from headrace.arrow_text import binary
from headrace.block import Block, Ids
from headrace.columns import Indices
from headrace.late_block import LateBlock, UnsoundError
from headrace.plan.structure import LEAF
from headrace.records.format import ALL, Frames


class LateRecords(LateBlock):
    """Records one after another in one file, by where they lie."""

    __slots__ = ("frames",)

    def __init__(self, frames: Frames, ids: Ids | None) -> None:
        bounds = frames.bounds
        super().__init__(LEAF, len(bounds) - 1, int(bounds[-1] - bounds[0]), None, ids)
        self.frames = frames

    def make(self) -> None:
        if self._columns is not None:
            return
        file, bounds = self.frames
        file.load(int(bounds[0]), int(bounds[-1]))
        values, offsets, _, problem = _native.unframe(file.data[bounds[0] : bounds[-1]].data, 0, ALL, ALL)
        if problem or len(offsets) != len(bounds) or not file.intact:
            raise _unsound([self.frames])
        self._columns = [binary(values, offsets)]

    def _part(self, start: int, stop: int) -> Block:
        frames = self.frames._replace(bounds=self.frames.bounds[start : stop + 1])
        return LateRecords(frames, None if self.ids is None else self.ids[start:stop])

    @staticmethod
    def merging(parts: Sequence[Block], order: Indices) -> Block:
        """Records of several files, in this order; each is copied once."""
        frames = [part.frames for part in parts if isinstance(part, LateRecords)]
        for each in frames:
            each.file.load(int(each.bounds[0]), int(each.bounds[-1]))
        found = _native.unframe_rows([(f.file.data, f.bounds) for f in frames], order)
        if found is None or not all(f.file.intact for f in frames):
            raise _unsound(frames)
        return Block(LEAF, [binary(*found)], len(order))


def _unsound(frames: list[Frames]) -> UnsoundError:
    return UnsoundError([f.file for f in frames], [np.stack([f.bounds[:-1], f.bounds[1:]], 1) for f in frames])
