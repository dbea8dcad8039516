"""Apply a function to every element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.core.types import Component, DeviceLike, Nested, UserFunction
from headrace.execute.context import Context
from headrace.execute.processes.block_workers import IdleWorkers
from headrace.execute.registry import fetches, opens
from headrace.execute.stages.unordered import Unordered
from headrace.execute.stream import Stream
from headrace.ops.shared.arguments import Mode, execution, function, width
from headrace.ops.shared.calls import MappingCalls, call_on_rows, check_promise, fetch_call, make_rows, open_calls
from headrace.ops.shared.keywords import explain_keywords
from headrace.plan.capabilities import device_of_rows
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node
from headrace.plan.spec import Probe, Spec
from headrace.plan.structure import Structure
from headrace.trace.function import Function
from headrace.trace.graph import Graph

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.plan.element import Mapped


@explain_keywords
def map(
    self: Dataset,
    map_func: Callable[..., Mapped],
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    synchronous: bool | None = None,
    use_unbounded_threadpool: bool = False,  # noqa: ARG001 - threads are bounded by num_parallel_calls
    name: str | None = None,
    *,
    mode: Mode = "auto",
    output_signature: Nested = None,
    device: DeviceLike = None,
    approximate: bool = False,
) -> Dataset[Mapped]:
    """Replace each element by the result of `map_func`. Components of a tuple arrive as separate arguments.

    With `num_parallel_calls` that many calls run at a time, on threads; the order stays, unless `deterministic=False`.
    Right before a batch, a thread makes several quick calls in a row. `synchronous=True` runs the calls in the
    consumer's thread all the same. The variables that the function reads, in its closure and among globals, are those
    of the moment `map` is called, unless it assigns them; a global that is a mutable object is looked up at each use.
    `output_signature` says in advance what comes out: an element that is something else is an error.

    `mode="process"` makes the calls in `num_parallel_calls` worker processes (None: one for each CPU), for functions
    that hold the GIL. They start at the first element, and stay for the next pass while the dataset lives. Elements
    travel through shared memory, several at a time if they take less than some milliseconds; the function is sent once,
    with all it captures, so what it changes stays in its worker; it is sent to new workers if a pass finds that it, or
    what it captures, has changed here. If a worker dies, the elements it had are tried once more, one by one; one that
    kills its worker again is an error.

    A function of plain NumPy code runs on whole blocks of elements, with the same results to the last bit; an `if` on
    data has each element take its own path. One that has effects, loops by data, or gives another structure, dtype or
    shape on another path is called on each (`explain()` says which and why). `mode="eager"` has it called on each in
    any case; `mode="vectorized"` never, last bits may differ, and what cannot be vectorised is an error.

    `device="cuda"` has whole batches run there by PyTorch, in place of each element on the CPU: see docs/device.md.
    What reads text and bytes, and what is drawn, runs on the CPU as always; pixels may differ within stated bounds. A
    function that cannot run there is an error. `"cpu"` runs the same on the CPU, `"auto"` on the device of the
    `to_torch` that follows. Maps that follow run on the same device. If a batch comes after it, elements are batched on
    the device. Without an adapter the elements are NumPy arrays, copied back.

    Args:
        map_func: Function of one element. Components of a tuple arrive as separate arguments.
        num_parallel_calls: Number of concurrent calls of a Python function, or `hr.AUTOTUNE`. Default: one at a time.
            Functions that are vectorised use all cores in any case.
        deterministic: Whether to keep the order of elements. Default: the option of the pipeline, which keeps it.
        synchronous: Whether to call the function in the consumer's thread.
        use_unbounded_threadpool: Accepted for compatibility with tf.data.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        mode: How to call the function: "auto", "vectorized" (on blocks), "eager" (on each element) or "process".
        output_signature: Structure, shapes and dtypes of the results. Default: found by tracing or from the first
            element.
        device: "cuda", "cuda:1", "cpu" or "auto" to run whole batches by PyTorch. Default: NumPy on the CPU.
        approximate: Whether a GPU may decode JPEGs to somewhat other pixels than the arguments of `decode_jpeg` say.

    Returns:
        A new dataset.

    >>> list(hr.Dataset.range(3).map(lambda x: (x, x * x)))
    [(np.int64(0), np.int64(0)), (np.int64(1), np.int64(1)), (np.int64(2), np.int64(4))]
    """
    signature = None if output_signature is None else Spec.of_signature(output_signature)
    fn = function("map", map_func, self._node.spec, mode=mode)
    if device is not None or device_of_rows(self._node) is not None:
        from headrace.ops.device_map import checked_device, device_map

        there = checked_device(
            "map",
            self._node,
            device,
            num_parallel_calls=num_parallel_calls,
            deterministic=deterministic,
            synchronous=synchronous,
            mode=mode,
            output_signature=output_signature,
        )
        return self._then(partial(device_map, approximate=approximate), fn, there, name=name)
    if approximate:
        raise ValueError("approximate=True has a meaning only with device=")
    calls = None if synchronous else width(num_parallel_calls)
    chosen = execution(mode, synchronous=bool(synchronous))
    traced = Function(fn, "eager" if chosen == "process" else chosen)
    traced.check(self._node.spec)
    return self._then(Map, fn, calls, deterministic, Probe(signature), signature, chosen, traced, name=name)


@dataclass(frozen=True, eq=False)
class Map(MappingCalls):
    """Call the function, on blocks if that is unobservable."""

    input: Node
    fn: UserFunction
    num_parallel_calls: int | None = field(metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))
    signature: Spec | None = field(default=None, repr=False)
    mode: str = field(default="auto", metadata=TUNING)
    lot: int = field(default=1, kw_only=True, metadata=TUNING)
    idle: IdleWorkers = field(default_factory=IdleWorkers, kw_only=True, repr=False, metadata=TUNING)
    function: Function = field(repr=False, default_factory=lambda: Function(bool))

    @cached_property
    def fallible(self) -> bool:
        return not self.cannot_fail or self.input.fallible

    @property
    def maps(self) -> Graph | None:
        """The graph of the function, if it runs in the thread that pulls."""
        graph = self.graph
        here = self.num_parallel_calls is None and self.mode in ("auto", "vectorized")
        return graph if here and isinstance(graph, Graph) else None

    @property
    def spreads(self) -> bool:
        """Whether several threads may run the graph of the function."""
        return self.num_parallel_calls not in (None, 1) and self.mode != "process" and self.traced

    @property
    def cannot_fail(self) -> bool:
        """Whether no values can keep it from making a row of each row of its input."""
        graph = self.graph
        return self.signature is None and isinstance(graph, Graph) and graph.infallible


@opens(Map, own=Unordered, calls=True)
def open_map(node: Map, ctx: Context, at: At) -> Stream:
    """Return rows through the function, here or in another process."""
    in_process = node.mode == "process"
    here = partial(map_rows, node, cancelled=ctx.run.is_cancelled if node.lot > 1 else None)
    call = partial(call_on_rows, node.fn, node.signature) if in_process else here
    rows = partial(make_rows, node.fn, node.signature)
    return open_calls(node, ctx, at, call, whole=partial(map_whole, node), rows=rows, one=partial(map_one, node))


@fetches(Map)
def fetch_mapped(node: Map, ctx: Context, indices: Indices) -> Block:
    """Return what the function makes of these rows."""
    return fetch_call(node, ctx, indices, partial(map_rows, node))


def map_one(node: Map, *args: object) -> tuple[Structure, list[Component]]:
    """Return what the function makes of one row."""
    return check_promise(node.fn, node.fn(*args), node.signature)


def map_rows(node: Map, block: Block, *, cancelled: Callable[[], bool] | None = None) -> list[Block | Exception]:
    """Return what the function makes of a block: as a whole, or of each row."""
    whole = map_whole(node, block)
    return [whole] if whole is not None else call_on_rows(node.fn, node.signature, block, cancelled=cancelled)


def map_whole(node: Map, block: Block) -> Block | None:
    """Apply the function to a block as a whole; None if it must be called on each row."""
    found = node.whole(block)
    if found is None or (node.signature and node.signature.conflict(found[0].spec)):
        return None
    return Block(found[0].structure, found[1], block.rows)
