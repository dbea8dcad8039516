"""Make elements before they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from headrace.execute.context import Context
from headrace.execute.parallel import read_ahead
from headrace.execute.plan_process import ProcessKeeper, ProcessStream
from headrace.execute.registry import opens
from headrace.execute.stream import Stream
from headrace.ops.arguments import integer, one_of
from headrace.ops.unchanged_rows import PassThrough
from headrace.options import AUTOTUNE
from headrace.plan.marks import At
from headrace.plan.node import FOUND_WHILE_RUNNING, TUNING, Ahead, walk

if TYPE_CHECKING:
    from headrace.dataset import Dataset


Where = Literal["thread", "process"]


def prefetch(self: Dataset, buffer_size: int | None, name: str | None = None, *, mode: Where = "thread") -> Dataset:
    """Have a thread make up to `buffer_size` elements ahead of what was consumed.

    AUTOTUNE chooses how many; none, and no thread, while that is seen to be faster and nobody can tell.

    With `mode="process"` all that comes before runs in a process of its own, and a trainer that keeps Python busy is
    not held up by it. The process stays for the next pass. It has copies of all functions, generators and arrays: what
    they change there is not seen here, and a `cache()` in memory belongs after the prefetch.

    >>> list(hr.Dataset.range(3).prefetch(1))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    size = AUTOTUNE if buffer_size is None else integer("buffer_size", buffer_size)
    if size < AUTOTUNE:
        raise ValueError(f"buffer_size must be at least 0, or AUTOTUNE, not {size}")
    one_of("mode", mode, Where)
    kept = next((node for node in walk(self._node) if node.outlives), None) if mode == "process" else None
    if kept is not None:
        raise ValueError(
            f'prefetch(mode="process") would lose what {kept.operation} ({kept.site}) keeps beyond a pass: '
            f"have {kept.operation} after it"
        )
    if size == 0:
        return self
    return self._then(Prefetch, None if size == AUTOTUNE else size, mode, size == AUTOTUNE, name=name)


@dataclass(frozen=True, eq=False)
class Prefetch(PassThrough):
    """Reads its input on a thread or in a process, at most `buffer_size` rows ahead, None a sensible number.

    `if_it_helps`: only once that is seen to save the consumer time, where nobody can tell. `final`: no user wrote
    it, and it is the whole pipeline that may be read ahead. `lent`: of rows made in a process, nobody needs the columns
    any more when the next ones are asked for.
    """

    buffer_size: int | None = field(metadata=FOUND_WHILE_RUNNING)
    mode: str = field(default="thread", metadata=TUNING)
    if_it_helps: bool = field(default=False, repr=False, metadata=TUNING)
    final: bool = field(default=False, repr=False, metadata=TUNING)
    lent: bool = field(default=False, repr=False, metadata=TUNING)
    keeper: ProcessKeeper = field(default_factory=ProcessKeeper, repr=False, metadata=TUNING)

    def remark(self) -> str | None:
        return "if it helps" if self.final else None

    @property
    def ahead(self) -> Ahead:
        return Ahead.READY if self.buffer_size is None and not self.final else Ahead.RUNS


@opens(Prefetch)
def open_prefetch(node: Prefetch, ctx: Context, at: At) -> Stream:
    """Rows read on a thread, or in a process."""
    if node.mode == "process":
        inside = replace(node, mode="thread", if_it_helps=False, lent=False)
        return ProcessStream(inside, ctx, at.inputs, node.keeper, lent=node.lent)
    stage = "final prefetch" if node.final else ctx.stage.path
    tuned = stage if node.if_it_helps and node.input.pure else None
    return read_ahead(ctx, node.input, at.inputs, rows=node.buffer_size, if_it_helps=tuned)
