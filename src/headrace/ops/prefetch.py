"""Make elements before they are requested."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from headrace.execute.context import Context
from headrace.execute.processes.plan_process import ProcessKeeper, ProcessStream
from headrace.execute.registry import opens
from headrace.execute.stages.parallel import read_ahead
from headrace.execute.stream import Stream
from headrace.ops.shared.arguments import integer, one_of
from headrace.ops.shared.keywords import explain_keywords
from headrace.ops.shared.unchanged_rows import PassThrough
from headrace.options import AUTOTUNE
from headrace.plan.capabilities import device_of_rows
from headrace.plan.marks import At
from headrace.plan.node import FOUND_WHILE_RUNNING, TUNING, Ahead, walk

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


Where = Literal["thread", "process"]


@explain_keywords
def prefetch(
    self: Dataset[Element], buffer_size: int | None, name: str | None = None, *, mode: Where = "thread"
) -> Dataset[Element]:
    """Prepare up to `buffer_size` elements ahead of the consumer, on a thread.

    AUTOTUNE chooses how many; none, and no thread, while that is measured to be faster and makes no observable
    difference.

    With `mode="process"` all that comes before runs in a separate process, which does not compete with the trainer for
    the GIL. The process stays for the next pass. It has copies of all functions, generators and arrays: what they
    change there is not seen here, and a `cache()` in memory belongs after the prefetch.

    Args:
        buffer_size: Number of elements to prepare ahead, or `hr.AUTOTUNE`.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        mode: "thread", or "process" to run everything before it in another process.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(3).prefetch(1))
    [np.int64(0), np.int64(1), np.int64(2)]
    """
    size = AUTOTUNE if buffer_size is None else integer("buffer_size", buffer_size)
    if size < AUTOTUNE:
        raise ValueError(f"buffer_size must be at least 0, or AUTOTUNE, not {size}")
    one_of("mode", mode, Where)
    if mode == "process" and device_of_rows(self._node) is not None:
        raise ValueError(
            'prefetch(mode="process") after a map on a device would copy its results back: put the prefetch before it'
        )
    kept = next((node for node in walk(self._node) if node.outlives), None) if mode == "process" else None
    if kept is not None:
        raise ValueError(
            f'prefetch(mode="process") would lose what {kept.operation} ({kept.site}) keeps beyond a pass: '
            f"put {kept.operation} after it"
        )
    if size == 0:
        return self
    return self._then(Prefetch, None if size == AUTOTUNE else size, mode, size == AUTOTUNE, name=name)


@dataclass(frozen=True, eq=False)
class Prefetch(PassThrough):
    """Read the input on a thread or in a process, at most `buffer_size` rows ahead; None chooses a number.

    `if_it_helps`: only once that is measured to save the consumer time, if it is unobservable. `final`: the executor
    added it, and the whole pipeline may be read ahead. `lent`: the consumer no longer needs the columns of rows made in
    a process when it requests the next ones.
    """

    follows_device = True

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
    """Return rows read on a thread, or in a process."""
    if node.mode == "process":
        inside = replace(node, mode="thread", if_it_helps=False, lent=False)
        return ProcessStream(inside, ctx, at.inputs, node.keeper, lent=node.lent)
    stage = "final prefetch" if node.final else ctx.stage.path
    tuned = stage if node.if_it_helps and node.input.pure else None
    return read_ahead(ctx, node.input, at.inputs, rows=node.buffer_size, if_it_helps=tuned)
