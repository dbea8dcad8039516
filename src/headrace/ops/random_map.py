"""Apply a function that draws random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.core import keys
from headrace.core.random import RowGenerator, row_key
from headrace.core.types import AnyFunction, Component, DeviceLike, Nested, UserFunction
from headrace.execute.context import Context
from headrace.execute.processes.block_workers import IdleWorkers
from headrace.execute.registry import fetches, opens
from headrace.execute.stages.unordered import Unordered
from headrace.execute.stream import Stream
from headrace.ops.shared.arguments import Mode, execution, function, integer, width
from headrace.ops.shared.calls import (
    CallOutcome,
    MappingCalls,
    call_each_row,
    call_on_rows,
    fetch_call,
    make_rows,
    open_calls,
    rows_as_arguments,
)
from headrace.plan.capabilities import device_of_rows
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node, function_name, walk
from headrace.plan.spec import Probe, Spec
from headrace.trace.draws import generator_column
from headrace.trace.function import Function

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Mapped


def random_map(
    self: Dataset,
    map_func: Callable[..., Mapped],
    seed: int | None = None,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    *,
    mode: Mode = "auto",
    output_signature: Nested = None,
    name: str | None = None,
    device: DeviceLike = None,
    approximate: bool = False,
) -> Dataset[Mapped]:
    """Like `map`, with a function that also receives a random generator that belongs to the element.

    It has the methods `random`, `uniform`, `normal`, `integers`, `choice`, `permutation` and `shuffle` of NumPy's
    Generator, and `bernoulli`. What an element draws depends on the seed, the epoch and the element alone, not on
    threads, processes, or on where a pass was resumed. Every epoch draws again. Two datasets mapped with the same seed
    draw alike, so that images and their masks can be turned alike; two such maps in one chain do not.

    As for `map`, a function of plain NumPy code runs on whole blocks of elements, with one kernel call for each draw of
    all of them. `if rng.bernoulli(): ...` is fine: each element takes its own path.

    `device=` is as for `map`: whole batches run on a GPU. The numbers are still drawn on the CPU, so crops, flips and
    colours are chosen exactly as without it.

    Args:
        map_func: Function of one element and, as its last argument, a random generator.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        deterministic: Whether to keep the order of elements. Default: the option of the pipeline, which keeps it.
        mode: How to call the function: "auto", "vectorized" (on blocks), "eager" (on each element) or "process".
        output_signature: Structure, shapes and dtypes of the results. Default: found by tracing or from the first
            element.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        device: "cuda", "cuda:1", "cpu" or "auto" to run whole batches by PyTorch. Default: NumPy on the CPU.
        approximate: Whether a GPU may decode JPEGs to somewhat other pixels than the arguments of `decode_jpeg` say.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(4).random_map(lambda x, rng: x + rng.uniform(-0.1, 0.1), seed=1)
    >>> [round(x) for x in ds], list(ds) == list(ds)
    ([0, 1, 2, 3], False)
    """
    signature = None if output_signature is None else Spec.of_signature(output_signature)
    fn = function("random_map", map_func, self._node.spec, and_a="generator", mode=mode)
    made = keys.seed(None if seed is None else integer("seed", seed))
    place = sum(node.operation == "random_map" and getattr(node, "seed", None) == made for node in walk(self._node))
    if device is not None or device_of_rows(self._node) is not None:
        from headrace.ops.device_map import checked_device, device_random_map

        there = checked_device(
            "random_map",
            self._node,
            device,
            num_parallel_calls=num_parallel_calls,
            deterministic=deterministic,
            mode=mode,
            output_signature=output_signature,
        )
        return self._then(partial(device_random_map, approximate=approximate), fn, made, place, there, name=name)
    if approximate:
        raise ValueError("approximate=True has a meaning only with device=")
    chosen = execution(mode)
    traced = Function(fn, "eager" if chosen == "process" else chosen, draws=True)
    traced.check(self._node.spec)
    return self._then(
        RandomMap,
        fn,
        made,
        place,
        width(num_parallel_calls),
        deterministic,
        Probe(signature),
        chosen,
        traced,
        name=name,
    )


@dataclass(frozen=True, eq=False)
class RandomMap(MappingCalls):
    """Call the function with the generators of the rows' ids, on blocks if that is unobservable."""

    input: Node
    fn: UserFunction
    seed: keys.Seed
    place: int = 0
    num_parallel_calls: int | None = field(default=None, metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))
    mode: str = field(default="auto", metadata=TUNING)
    lot: int = field(default=1, kw_only=True, metadata=TUNING)
    idle: IdleWorkers = field(default_factory=IdleWorkers, kw_only=True, repr=False, metadata=TUNING)
    function: Function = field(repr=False, default_factory=lambda: Function(bool))

    @property
    def operation(self) -> str:
        return "random_map"

    @property
    def key(self) -> int:
        """The key of the draws. Epoch and branch are in the rows' ids."""
        return row_key(self.seed, self.place)

    def call_on_row(self, row: Block) -> Nested:
        assert row.ids is not None, "rows are read with ids"
        return with_generator(self.fn, self.key)(row.ids[0], *next(rows_as_arguments(row, keep=True)))


@opens(RandomMap, own=Unordered, calls=True)
def open_random_map(node: RandomMap, ctx: Context, at: At) -> Stream:
    """Return rows and their generators through the function, here or in another process."""
    in_process = node.mode == "process"
    here = partial(map_randomly, node, cancelled=ctx.run.is_cancelled if node.lot > 1 else None)
    call = partial(call_randomly, node.fn, node.key) if in_process else here
    rows = partial(make_rows, with_generator(node.fn, node.key), None, with_ids=True)
    return open_calls(node, ctx, at, call, whole=partial(map_whole_randomly, node), rows=rows, with_ids=True)


@fetches(RandomMap)
def fetch_randomly_mapped(node: RandomMap, ctx: Context, indices: Indices) -> Block:
    """Return what the function makes of these rows and their generators."""
    return fetch_call(node, ctx, indices, partial(map_randomly, node), with_ids=True)


def map_randomly(
    node: RandomMap, block: Block, *, cancelled: Callable[[], bool] | None = None
) -> list[Block | Exception]:
    """Return what the function makes of a block: as a whole, or of each row."""
    whole = map_whole_randomly(node, block)
    return [whole] if whole is not None else call_randomly(node.fn, node.key, block, cancelled=cancelled)


def map_whole_randomly(node: RandomMap, block: Block) -> Block | None:
    """Apply the function to a block as a whole; None if it must be called on each row."""
    assert block.ids is not None, "rows are read with ids"
    key = node.key

    def rows(head: Block) -> Iterator[CallOutcome]:
        return call_each_row(with_generator(node.fn, key), head, keep=True, with_ids=True)

    found = node.function.columns(block, rows, generator_column(key, block.ids))
    return None if found is None else Block(found[0].structure, found[1], block.rows)


def call_randomly(
    fn: Callable[..., object], key: int, block: Block, *, cancelled: Callable[[], bool] | None = None
) -> list[Block | Exception]:
    """Return what a function makes of each row and its generator."""
    return call_on_rows(with_generator(fn, key), None, block, with_ids=True, cancelled=cancelled)


def with_generator(fn: Callable[..., object], key: int) -> AnyFunction:
    """Return the function as it is called on the id of a row and the row."""

    def call(id: Component, *args: object) -> Nested:
        rng = RowGenerator(key, id)
        try:
            return fn(*args, rng)
        finally:
            rng.expire()

    call.__name__ = function_name(fn)
    return call
