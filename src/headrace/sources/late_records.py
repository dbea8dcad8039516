"""Records of files on this machine that are copied out of them, and verified, where they are used."""

from __future__ import annotations

from headrace.block import Block, Ids
from headrace.late_block import LateBlock
from headrace.plan.structure import LEAF
from headrace.pointed_text import PointedText
from headrace.records.format import Frames


class LateRecords(LateBlock):
    """Records one after another in one file, by where they lie."""

    __slots__ = ("frames",)

    def __init__(self, frames: Frames, ids: Ids | None) -> None:
        bounds = frames.bounds
        super().__init__(LEAF, len(bounds) - 1, int(bounds[-1] - bounds[0]), None, ids)
        self.frames = frames

    def make(self) -> None:
        if self._columns is None:
            self._columns = [self.pointed().copy()]

    def pointed(self) -> PointedText:
        return PointedText([self.frames.file], self.frames.bounds)

    def _part(self, start: int, stop: int) -> Block:
        frames = self.frames._replace(bounds=self.frames.bounds[start : stop + 1])
        return LateRecords(frames, None if self.ids is None else self.ids[start:stop])
