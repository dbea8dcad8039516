"""Apply a function to every element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.block import Block, Failure, Indices, Item, Mark, concat, element, from_elements, shifted
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import function, width
from headrace.ops.calls import Calls, CallStream, Outcome, outcomes, with_failures
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Probe, Spec
from headrace.trace.function import Function
from headrace.trace.graph import Graph

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def map(
    self: Dataset,
    map_func: Callable[..., Any],
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    synchronous: bool | None = None,
    use_unbounded_threadpool: bool = False,  # noqa: ARG001 - threads are bounded by num_parallel_calls
    *,
    mode: str = "auto",
    output_signature: Any = None,
    name: str | None = None,
) -> Dataset:
    """Replace each element by what `map_func` makes of it. Tuples arrive as separate arguments.

    With `num_parallel_calls` that many calls run at a time, on threads; the order stays, unless `deterministic=False`.
    `synchronous=True` has the calls run in the consumer's own thread all the same. A closure's variables are those of
    the moment `map` is called, unless the function writes to them.

    A function of plain NumPy code runs on whole blocks of elements, with the same results to the last bit; one that has
    effects, or decides by data, is called on each (`explain()` says which and why). `mode="eager"` has it called on
    each in any case; `mode="vectorized"` never, last bits may differ, and what cannot be vectorised is an error.

    >>> list(hr.Dataset.range(3).map(lambda x: (x, x * x)))
    [(np.int64(0), np.int64(0)), (np.int64(1), np.int64(1)), (np.int64(2), np.int64(4))]
    """
    signature = None if output_signature is None else Spec.of_signature(output_signature)
    fn = function("map", map_func, self._node.spec)
    calls = None if synchronous else width(num_parallel_calls)
    traced = Function(fn, mode)
    traced.check(self._node.spec)
    return self._then(Map, fn, calls, deterministic, Probe(signature), traced, name=name)


@dataclass(frozen=True, eq=False)
class Map(Calls):
    """Calls the function, on blocks if nobody can tell."""

    input: Node
    fn: Callable[..., Any]
    num_parallel_calls: int | None = field(metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))
    function: Function = field(repr=False, default_factory=lambda: Function(bool))

    one_to_one = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def spec(self) -> Spec:
        if self.probe.spec is not None:
            return self.probe.spec
        graph = self.graph
        return graph.spec if isinstance(graph, Graph) else Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    def open(self, ctx: Context, mark: Mark) -> Stream:
        apply = partial(mapped_block, self)
        width = ctx.width(self.num_parallel_calls)
        if width is None and not isinstance(mark, dict):
            return CallStream(ctx, self, mark, apply)
        work = partial(_work, apply)
        ordered = ctx.ordered(self.deterministic)
        return ctx.parallel(self.input, mark, work, width=width or 1, ordered=ordered, one_by_one=not self.traced)

    def at(self, ctx: Context, indices: Indices) -> Block:
        items = mapped_block(self, self.input.at(ctx, indices), indices)
        for item in items:
            if isinstance(item, Failure):
                raise item.error
        return concat([item for item in items if isinstance(item, Block)])


def mapped_block(node: Map, block: Block, numbers: Indices | None = None) -> list[Item]:
    """What the function makes of a block: blocks, and failures where it raised."""
    found = node.whole(block)
    if found is not None:
        return [Block(found[0].structure, found[1], block.rows, block.mark, block.ids)]
    results: list[Outcome] = []
    for fine, value in outcomes(node.fn, block):
        if fine:
            try:
                results.append((True, element(value)))
            except Exception as error:
                results.append((False, error))
        else:
            results.append((False, value))

    def good(start: int, stop: int) -> list[Item]:
        ids = None if block.ids is None else block.ids[start:stop]
        made: list[Item] = []
        for part in from_elements([value for _, value in results[start:stop]], ids):
            part.mark = shifted(block.mark, start)
            start += part.rows
            made.append(part)
        return made

    return with_failures(node, block, results, good, numbers)


def _work(apply: Callable[[Block], list[Item]], item: Item) -> list[Item]:
    return apply(item) if isinstance(item, Block) else [item]
