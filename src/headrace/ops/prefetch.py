"""Make elements before they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.block import Mark
from headrace.execute.context import AUTOTUNE, Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import integer
from headrace.ops.passing import Passing

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def prefetch(self: Dataset, buffer_size: int | None, name: str | None = None) -> Dataset:
    """Have a thread make up to `buffer_size` elements ahead of what was consumed; AUTOTUNE chooses how many.

    >>> list(hr.Dataset.range(3).prefetch(1))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    size = AUTOTUNE if buffer_size is None else integer("buffer_size", buffer_size)
    if size < AUTOTUNE:
        raise ValueError(f"buffer_size must be at least 0, or AUTOTUNE, not {size}")
    return self if size == 0 else self._then(Prefetch, None if size == AUTOTUNE else size, name=name)


@dataclass(frozen=True, eq=False)
class Prefetch(Passing):
    """Reads its input on a thread, at most `buffer_size` rows ahead, None a sensible number."""

    buffer_size: int | None = None

    @property
    def ready_made(self) -> bool:
        return self.buffer_size is None

    @property
    def runs_ahead(self) -> bool:
        return True

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return ctx.ahead(self.input, mark, rows=self.buffer_size)


@dataclass(frozen=True, eq=False)
class PrefetchIfItHelps(Passing):
    """Reads its input on a thread once that is seen to save the consumer time; `final` that of the whole pipeline."""

    final: bool = False

    @property
    def operation(self) -> str:
        return "prefetch"

    def remark(self) -> str:
        return "a prefetch of its own, whose thread starts if what the consumer waits and computes shows a gain"

    def open(self, ctx: Context, mark: Mark) -> Stream:
        name = "final prefetch" if self.final else f"{ctx.stage.path}/{self.input.operation} ahead"
        return ctx.ahead(self.input, mark, if_it_helps=name)
