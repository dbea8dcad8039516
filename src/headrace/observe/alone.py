"""Plans that make one element by itself: on the calling thread, each function called on that element alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

from headrace.columns import Indices
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.types import KeywordArguments
from headrace.errors import HeadraceError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Made, Stream
from headrace.observe.steps import NoSuchStepError
from headrace.observe.tagging import LOOK_AT_VALUES
from headrace.ops.cache import Cache
from headrace.ops.interleave import Interleave
from headrace.ops.random_map import RandomMap
from headrace.ops.repeat import Repeat
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.calls import Calls, MappingCalls
from headrace.ops.shared.unchanged_rows import MovedRows, PassThrough, UnchangedRows
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import At
from headrace.plan.node import AnyNode, Node, rewrite
from headrace.trace.function import Function


@dataclass(frozen=True, eq=False)
class PickRow(MovedRows):
    """Of every `size` rows the one with number `row`: what a batch would have there."""

    size: int
    row: int

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.in_groups(self.size, up=True)


@fetches(PickRow)
def fetch_picked(node: PickRow, ctx: Context, indices: Indices) -> Block:
    """Rows of the input."""
    return ctx.fetch(node.input, indices * node.size + node.row)


@opens(PickRow)
class PickRowStream(Stream):
    """Passes over the other rows of each group."""

    def __init__(self, node: PickRow, ctx: Context, at: At) -> None:
        self._node = node
        self._input = ctx.open(node.input, at.inputs)

    @override
    def pull(self, want: int) -> Made:  # one is enough
        self._input.skip((self._node.row - self._input.ordinal) % self._node.size, replay=True)
        return self._input.pull(1)

    def skip(self, count: int, *, replay: bool = False) -> int:
        whole = count * self._node.size - self._input.ordinal % self._node.size
        return -(-self._input.skip(whole, replay=replay) // self._node.size)


@dataclass(frozen=True, eq=False)
class OnSharedPath(MovedRows):
    """The rows that a cache would keep: those of the path that all passes share."""

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


@fetches(OnSharedPath)
def fetch_shared(node: OnSharedPath, ctx: Context, indices: Indices) -> Block:
    """Rows of the input."""
    return ctx.shared_path().fetch(node.input, indices)


@opens(OnSharedPath)
class SharedPathStream(Stream):
    """The input, opened on that path."""

    def __init__(self, node: OnSharedPath, ctx: Context, at: At) -> None:
        self._input = ctx.shared_path().open(node.input, at.inputs)

    def pull(self, want: int) -> Made:
        return self._input.pull(want)

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay)


def element_alone(plan: Node, row: int | None) -> Node:
    """A plan whose element N is that of `plan`, or one `row` of it, with no other element made if that can be."""
    if row is not None:
        plan = _pick(plan, row)
    return _hoist_maps(rewrite(plan, _called_here))


def _pick(node: Node, row: int) -> Node:
    """The plan with the topmost batch replaced by one of its rows, without the functions that take whole batches."""
    if isinstance(node, Batching):
        if row >= node.batch_size:
            raise NoSuchStepError(f"debug: a batch has {node.batch_size} rows, there is no row {row}")
        return PickRow(node.input, node.batch_size, row, site=node.site)
    if isinstance(node, MappingCalls | PassThrough):
        return _pick(node.inputs[0], row)
    if isinstance(node, UnchangedRows) and not isinstance(node, LOOK_AT_VALUES):
        return node.with_inputs((_pick(node.inputs[0], row),))
    raise HeadraceError(
        f"debug: {node.operation} ({node.site}) does not make batches of a fixed number of rows; leave out row= to "
        "make the whole element"
    )


@singledispatch
def _called_here(node: AnyNode) -> Node:
    """The operation with its function called row by row, on the thread that asks."""
    made: Node = node
    return made


@_called_here.register(Calls)
def _(node: AnyNode) -> Node:
    changed: KeywordArguments = {"function": Function(node.function.fn, "eager", draws=isinstance(node, RandomMap))}
    if hasattr(node, "num_parallel_calls"):
        changed.update(num_parallel_calls=None, mode="eager")
    made: Node = replace(node, **changed)
    return made


@_called_here.register(Interleave)
def _(node: AnyNode) -> Node:
    made: Node = replace(node, num_parallel_calls=None)
    return made


@_called_here.register(PassThrough)
def _(node: AnyNode) -> Node:
    made: Node = node.input
    return made


@_called_here.register(Cache)
def _(node: AnyNode) -> Node:
    return OnSharedPath(node.input, site=node.site)


def _hoist_maps(node: Node) -> Node:
    """The plan with maps above the operations that only move rows, so that they run on the rows that are asked for."""
    inputs = tuple(_hoist_maps(child) for child in node.inputs)
    if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
        node = replace(node.with_inputs(inputs), stands_for=None)
    if isinstance(node, MovedRows | Repeat) and isinstance(node.inputs[0], MappingCalls):
        below = node.inputs[0]
        moved = replace(node.with_inputs(below.inputs), stands_for=None)
        return replace(below.with_inputs((_hoist_maps(moved),)), stands_for=None)
    return node
