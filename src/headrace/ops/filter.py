"""Keep the elements for which a function is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.block import Block, Item
from headrace.columns.lazy_block import look_at
from headrace.core.types import Array, UserFunction
from headrace.errors import SpecError
from headrace.execute.context import Context, Form
from headrace.execute.processes.block_workers import IdleWorkers, Processes
from headrace.execute.registry import opens
from headrace.execute.row_buffer import RowBuffer
from headrace.execute.row_by_row import IsLast, Leaves, arguments_of
from headrace.execute.stages.parallel import process_count, work_in_parallel
from headrace.execute.stages.workers import Task
from headrace.execute.stream import END, Made, Stream
from headrace.ops.shared.arguments import Mode, execution, function, width
from headrace.ops.shared.calls import (
    CallOutcome,
    Calls,
    ParallelCalls,
    call_each_row,
    call_on_rows,
    single,
    with_failures,
)
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, AnyNode, Divides, Node
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.trace.function import Function
from headrace.trace.graph import Graph

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Element


@explain_keywords
def filter(
    self: Dataset[Element],
    predicate: Callable[..., object],
    name: str | None = None,
    *,
    num_parallel_calls: int | None = None,
    mode: Mode = "auto",
) -> Dataset[Element]:
    """Keep the elements for which `predicate` returns True, in their order.

    `num_parallel_calls` and `mode` mean what they mean for `map`: how many calls run at a time, on threads or in
    processes.

    Args:
        predicate: Function of one element that returns True or False.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        mode: How to call the function: "auto", "vectorized" (on blocks), "eager" (on each element) or "process".

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(6).filter(lambda x: x % 2 == 1))
    [np.int64(1), np.int64(3), np.int64(5)]
    """
    fn = function("filter", predicate, self._node.spec, mode=mode)
    chosen = execution(mode)
    traced = Function(fn, "eager" if chosen == "process" else chosen)
    traced.check(self._node.spec)
    return self._then(Filter, fn, traced, width(num_parallel_calls), chosen, name=name)


@dataclass(frozen=True, eq=False)
class Deciding(Calls):
    """Rows of the input for which a function decides whether they stay."""

    input: Node
    predicate: UserFunction
    function: Function = field(repr=False, default_factory=lambda: Function(bool))

    @property
    def spec(self) -> Spec:
        return self.input.spec

    @property
    def leading(self) -> int | None:
        return self.input.leading

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN


@dataclass(frozen=True, eq=False)
class Filter(Deciding, ParallelCalls):
    """Keeps the rows that the predicate is true for."""

    num_parallel_calls: int | None = field(default=None, metadata=TUNING)
    mode: str = field(default="auto", metadata=TUNING)
    idle: IdleWorkers = field(default_factory=IdleWorkers, kw_only=True, repr=False, metadata=TUNING)

    divides = Divides.RUNS

    @property
    def decides(self) -> Graph | None:
        """The graph of the predicate, if it runs in the thread that pulls."""
        graph = self.graph
        here = self.num_parallel_calls is None and self.mode == "auto"
        return graph if here and isinstance(graph, Graph) else None


@opens(Filter, calls=True)
def open_filter(node: Filter, ctx: Context, at: At) -> Stream:
    """Return rows that stay, decided here, on threads or in processes."""
    calls, remote = node.num_parallel_calls, None
    if node.mode == "process":
        calls = process_count(ctx, node.input, calls)
        remote = Processes(partial(call_on_rows, partial(_decide, node.predicate), None), node.idle)
    elif calls is None:
        return FilterStream(node, ctx, at, partial(keep_rows, node), predicate=node.predicate)
    work = partial(_keep_of_item, node, remote)
    one_by_one = not (node.input.pure if remote else node.traced)
    task = Task(work, one_by_one=one_by_one, one_to_one=False, remote=remote)
    return work_in_parallel(ctx, node.input, at, task, width=calls, ordered=True)


class FilterStream(Stream):
    """Read as many rows as it must keep; if reading is unobservable, as many as needed at the rate so far."""

    MAX_ROWS_PER_PULL = 1 << 15

    def __init__(
        self,
        node: AnyNode,
        ctx: Context,
        at: At,
        keep: Callable[[Block], list[Item]],
        *,
        predicate: UserFunction | None = None,
    ) -> None:
        self._node = node
        self._keep = keep
        self._predicate = predicate
        rows = ctx.open(node.input, at.inputs, any_order=True, form=Form(late=ctx.late and node.pure))
        self._input = RowBuffer(rows) if node.input.pure and not node.pure else rows
        self._seen = self._kept = 1

    def pull(self, want: int) -> Made:
        ask = want
        if self._node.pure:
            ask = max(want, min(self.MAX_ROWS_PER_PULL, want * 9 * self._seen // (8 * self._kept) + 1))
        item = self._input.pull(ask)
        if not isinstance(item, Block):
            return item
        self._seen += item.rows
        made = self._keep(item)
        look_at(item)
        self._kept += sum(part.rows for part in made)
        return made

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        predicate, kept = self._predicate, 0
        if predicate is None:
            return None
        results: list[CallOutcome] = []

        def ends(structure: Structure, leaves: Leaves) -> bool:
            nonlocal kept
            try:
                stays = truth(predicate(*arguments_of(structure, leaves)))
            except Exception as error:
                results.append((False, error))
                return True
            results.append((True, stays))
            kept += stays
            return stays and (is_last(structure, leaves) or kept == want)

        items = self._input.pull_until(self.MAX_ROWS_PER_PULL, ends)
        if items is END:
            return END
        made: list[Item] = []
        for item in items:
            if isinstance(item, Block):
                made += _keep_decided(self._node, item, results[: item.rows])
                del results[: item.rows]
            else:
                made.append(item)
        return made


def keep_rows(node: Filter, block: Block, remote: Processes | None = None) -> list[Item]:
    """Return the rows that stay, and failures for rows whose predicate raised. `remote` runs it in another process.

    Marks: an item begins after the rows that were decided before it, so that none is decided twice or left out.
    """
    decided = None if remote else single(node.whole(block), "b")
    if decided is not None:
        return _keep_where(block, decided)
    if remote:
        results = [outcome for part in remote(block) for outcome in _outcomes_of(part)]
    else:
        results = list(call_each_row(partial(_decide, node.predicate), block, keep=True))
    return _keep_decided(node, block, results)


def _keep_decided(node: Filter, block: Block, results: list[CallOutcome]) -> list[Item]:
    """Return the rows for which the predicate returned True."""

    def good(start: int, stop: int) -> list[Item]:
        rows = block if stop - start == block.rows else block.slice(start, stop)
        return _keep_where(rows, np.array([value for _, value in results[start:stop]], bool))

    return with_failures(node, block, results, good)


def _decide(predicate: Callable[..., object], *components: object) -> bool:
    return truth(predicate(*components))


def _outcomes_of(part: Block | Exception) -> list[CallOutcome]:
    """Return what another process found out about some rows, or about one that it could not decide."""
    return [(False, part)] if isinstance(part, Exception) else [(True, bool(value)) for value in part.elements()]


def _keep_of_item(node: Filter, remote: Processes | None, item: Item) -> list[Item]:
    return keep_rows(node, item, remote) if isinstance(item, Block) else [item]


def _keep_where(block: Block, keep: Array) -> list[Item]:
    if keep.all():
        return [block]
    chosen = block.take(np.flatnonzero(keep))
    return [chosen] if chosen.rows else []


def truth(value: object) -> bool:
    """Return what a predicate may return: a bool, NumPy's or Python's, or an array that holds just one."""
    if value is True or value is False:
        return value
    array = np.asarray(value)
    if array.dtype != bool or array.ndim:
        raise SpecError(f"the predicate must return a bool, not {value!r}")
    return bool(array)
