"""Apply a function that draws random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace import keys
from headrace.block import Block, Indices, Mark
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.arguments import execution, function, integer, width
from headrace.ops.calls import fetched, mapped, open_calls
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import TUNING, Node, walk
from headrace.plan.spec import Probe, Spec
from headrace.random import RowGenerator, row_key

if TYPE_CHECKING:
    from headrace.dataset import Dataset


def random_map(
    self: Dataset,
    map_func: Callable[..., Any],
    seed: int | None = None,
    num_parallel_calls: int | None = None,
    deterministic: bool | None = None,
    *,
    mode: str = "auto",
    output_signature: Any = None,
    name: str | None = None,
) -> Dataset:
    """As `map`, of a function that gets one more argument: a random generator that belongs to the element.

    It has the methods `random`, `uniform`, `normal`, `integers`, `choice`, `permutation` and `shuffle` of NumPy's
    Generator, and `bernoulli`. What an element draws depends on the seed, the epoch and the element alone, not on
    threads, processes, or where a pass was resumed. Every epoch draws anew. Two datasets mapped with the same seed draw
    alike, so that images and their masks can be turned alike; two such maps in one chain do not.

    >>> ds = hr.Dataset.range(4).random_map(lambda x, rng: x + rng.uniform(-0.1, 0.1), seed=1)
    >>> [round(x) for x in ds], list(ds) == list(ds)
    ([0, 1, 2, 3], False)
    """
    signature = None if output_signature is None else Spec.of_signature(output_signature)
    fn = function("random_map", map_func, self._node.spec, and_a="generator")
    made = keys.seed(None if seed is None else integer("seed", seed))
    place = sum(isinstance(node, RandomMap) and node.seed == made for node in walk(self._node))
    return self._then(
        RandomMap,
        fn,
        made,
        place,
        width(num_parallel_calls),
        deterministic,
        Probe(signature),
        execution(mode),
        name=name,
    )


@dataclass(frozen=True, eq=False)
class RandomMap(Node):
    """Calls the function row by row, each with the generator of its id."""

    input: Node
    fn: Callable[..., Any]
    seed: keys.Seed
    place: int = 0
    num_parallel_calls: int | None = field(default=None, metadata=TUNING)
    deterministic: bool | None = field(default=None, metadata=TUNING)
    probe: Probe = field(repr=False, default_factory=lambda: Probe(None))
    mode: str = field(default="auto", metadata=TUNING)

    one_to_one = True
    costly = True
    pure = False
    live = True
    traced = False

    @property
    def operation(self) -> str:
        return "random_map"

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    @property
    def ready_made(self) -> bool:
        return self.mode == "process"

    @property
    def spec(self) -> Spec:
        return self.probe.spec or Spec.UNKNOWN

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality

    @property
    def key(self) -> int:
        """The key of the draws. Epoch and branch are in the rows' ids."""
        return row_key(self.seed, self.place)

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return open_calls(self, ctx, mark, partial(randomly_mapped, self.fn, self.key), with_ids=True)

    def at(self, ctx: Context, indices: Indices) -> Block:
        return fetched(self, ctx, indices, partial(randomly_mapped, self.fn, self.key), with_ids=True)


def randomly_mapped(fn: Callable[..., Any], key: int, block: Block) -> list[Block | Exception]:
    """What a function makes of each row and its generator."""
    assert block.ids is not None, "rows are read with ids"
    ids = iter(block.ids)

    def call(*args: Any) -> Any:
        rng = RowGenerator(key, next(ids))
        try:
            return fn(*args, rng)
        finally:
            rng.expire()

    return mapped(call, None, block)
