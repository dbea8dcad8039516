"""Operations whose rows are fetched by number after counting: the lookup tables and the row positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import singledispatch
from threading import RLock
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Failure, Item, folded
from headrace.errors import HeadraceError, NotIndexableError
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opening, opens
from headrace.execute.run import Pass
from headrace.execute.stream import Stream
from headrace.ops.cache import Cache, CacheStream, CountedCache
from headrace.ops.choose import Choose, Pick
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.ops.shared.children import Parent, build_child
from headrace.ops.shared.choices import Choices, Read
from headrace.ops.shared.gather import NumberStream, put_in_order
from headrace.ops.shared.turns import Turns
from headrace.ops.with_options import merge_options
from headrace.ops.zip import branch_context
from headrace.plan.capabilities import index_remedy, is_endless
from headrace.plan.cardinality import ENDLESS, INFINITE, UNKNOWN, Cardinality
from headrace.plan.marks import At
from headrace.plan.node import TUNING, Node, fields_of, obstacle, rewrite, walk
from headrace.plan.prepared import Prepared

PARENTS_PER_READ = 4096
"""How many parent rows are read at a time to build datasets."""
MAX_CACHED_CHILDREN = 1024
"""How many of those datasets are cached in a pass."""
MAX_CACHED_LAYOUTS = 4
"""How many layouts are cached: each epoch may have another order of datasets."""


def counted_plan(node: Node) -> Node:
    """Return a plan with the same elements, fetched by number if counting makes that possible (interleaved datasets).

    Counting builds every dataset and gets its length, once. It reads no rows except those that datasets are built from.
    """
    if obstacle(node) is None:
        return node
    return rewrite(node, lambda made: made if made.indexable else count_node(made) or made)


@singledispatch
def count_node(_node: Node) -> Node | None:
    """Return a node with the same elements that knows how many there are; None if counting does not help."""
    return None


class _Numbered(Node):
    """A node whose rows were counted, and are fetched."""

    rows: int
    children_drop_rows: bool
    counted: ClassVar[type[Node]]

    indexable = True
    positional = True

    @property
    def has_extra_failures(self) -> bool:
        """See the class; failures that nested datasets drop are known once these are counted."""
        return self.children_drop_rows or any(node.has_extra_failures for node in self.inputs)

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(self.rows)

    @property
    def brief(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class InterleaveByNumber(_Numbered, Interleave):
    """An interleave that was counted."""

    counted: ClassVar[type[Node]] = Interleave

    rows: int = field(kw_only=True)
    children_drop_rows: bool = field(default=False, kw_only=True, repr=False, metadata=TUNING)
    layouts: dict[int, Any] = field(kw_only=True, repr=False, metadata=TUNING)

    @property
    def operation(self) -> str:
        return "interleave"


@dataclass(frozen=True, eq=False)
class FlatMapByNumber(_Numbered, FlatMap):
    """A flat_map that was counted."""

    counted: ClassVar[type[Node]] = FlatMap

    rows: int = field(kw_only=True)
    children_drop_rows: bool = field(default=False, kw_only=True, repr=False, metadata=TUNING)
    layouts: dict[int, Any] = field(kw_only=True, repr=False, metadata=TUNING)


@dataclass(frozen=True, eq=False)
class ChooseByNumber(_Numbered, Choose):
    """Choices that were counted."""

    counted: ClassVar[type[Node]] = Choose

    rows: int = field(kw_only=True)
    children_drop_rows: bool = field(default=False, kw_only=True, repr=False, metadata=TUNING)
    layouts: dict[int, Any] = field(kw_only=True, repr=False, metadata=TUNING)


def _numbered(
    kind: Callable[..., Node], node: Node, rows: int, layouts: dict[int, Any], *, children_drop_rows: bool = False
) -> Node:
    given = {f.name: getattr(node, f.name) for f in fields(node)}
    return kind(**given, rows=rows, layouts=layouts, children_drop_rows=children_drop_rows)


@count_node.register(Interleave)
@count_node.register(FlatMap)
def _(node: Interleave | FlatMap) -> Node | None:
    if not (node.input.indexable and node.input.cardinality.known):
        return None
    kind = InterleaveByNumber if isinstance(node, Interleave) else FlatMapByNumber
    layouts: dict[int, Any] = {}
    turns = _in_a_pass(node, lambda ctx: _turns(node, ctx, layouts))
    return _numbered(kind, node, turns.rows, layouts, children_drop_rows=turns.children_drop_rows)


@count_node.register
def _(node: Cache) -> Node | None:
    if node.cardinality != UNKNOWN or is_endless(node):
        return None
    rows = _in_a_pass(node, lambda ctx: CacheStream(node, ctx).fill())
    return CountedCache(**{f.name: getattr(node, f.name) for f in fields(node)}, rows=rows)


@count_node.register
def _(node: Choose) -> Node | None:
    *branches, choices = node.branches
    lengths = [branch.cardinality for branch in branches]
    if not all(branch.indexable for branch in node.branches) or UNKNOWN in lengths:
        return None
    layouts: dict[int, Any] = {}
    if node.cardinality == INFINITE:
        return _numbered(ChooseByNumber, node, INFINITE, layouts)
    if isinstance(choices, Pick) and not node.stop_on_empty:  # every branch is drawn until it has ended
        return _numbered(ChooseByNumber, node, sum(lengths), layouts)
    random = any(fields_of(type(n), "Seed") for n in walk(choices))  # then there are more or fewer in other epochs
    if random or not choices.cardinality.known:
        return None
    rows = _in_a_pass(node, lambda ctx: _choices(node, ctx, layouts).count(_reader(node, ctx)))
    return _numbered(ChooseByNumber, node, rows, layouts)


T = TypeVar("T")


def _in_a_pass(node: Node, ask: Callable[[Context], T]) -> T:
    run = Pass(options=merge_options(node))
    try:
        return ask(run.context(Prepared.of(node)).epoch(0))
    finally:
        run.close()


@opens(_Numbered)
def open_counted(node: _Numbered, ctx: Context, at: At) -> Stream:
    """Open the rows by number; or as the counted operation, if failures without a number may be among them."""
    if node.has_extra_failures:
        return opening(node.counted).open(node, ctx, at)
    return NumberStream(ctx, node, node.rows if node.cardinality.known else ENDLESS, np.arange)


class _Child(NamedTuple):
    """A dataset that was built from a row, and its context; or why there is none."""

    ctx: Context
    plan: Node | Failure

    @property
    def rows(self) -> int:
        return 1 if isinstance(self.plan, Failure) else int(self.plan.cardinality)

    @property
    def has_extra_failures(self) -> bool:
        return not isinstance(self.plan, Failure) and self.plan.has_extra_failures

    def read(self, numbers: Indices) -> list[Item]:
        if isinstance(self.plan, Failure):
            return [Failure(self.plan.error) for _ in numbers]
        return self.ctx._replace(prepared=Prepared.of(self.plan)).fetch_items(self.plan, numbers)


def _child(node: Parent, ctx: Context, row: Item, number: int) -> _Child:
    if isinstance(row, Failure):
        return _Child(ctx, row)
    made = build_child(node, ctx, row, number)
    if isinstance(made, Failure):
        return _Child(ctx, made)
    where, plan = made
    plan = counted_plan(plan)
    blocker = obstacle(plan)
    assert isinstance(node, Node)
    if blocker is not None:
        raise NotIndexableError(
            f"{node.operation} ({node.site}) makes a dataset of element {number} in which {blocker.operation} "
            f"({blocker.site}) cannot be indexed; {index_remedy(blocker)}"
        )
    if not plan.cardinality.known:
        raise NotIndexableError(f"{node.operation} ({node.site}) makes an endless dataset of element {number}")
    return _Child(where, plan)


def _turns(node: Interleave | FlatMap, ctx: Context, layouts: dict[int, Turns]) -> Turns:
    """Return the layout of the rows of all datasets in this epoch."""

    def lay_out() -> Turns:
        total = int(node.input.cardinality)
        lengths = np.empty(total, np.int64)
        extra = False
        parents = ctx.with_row_ids()
        for start in range(0, total, PARENTS_PER_READ):
            number = start
            for item in parents.fetch_items(node.input, np.arange(start, min(total, start + PARENTS_PER_READ))):
                for i in range(item.rows):
                    row = item if isinstance(item, Failure) else item.slice(i, i + 1)
                    child = _child(node, ctx, row, number)
                    lengths[number], extra = child.rows, extra or child.has_extra_failures
                    number += 1
        if isinstance(node, Interleave):
            return Turns(lengths, node.cycle_length, node.block_length, children_drop_rows=extra)
        return Turns(lengths, 1, ENDLESS, children_drop_rows=extra)

    return _remembered(layouts, ctx.path, lay_out)


def _choices(node: Choose, ctx: Context, layouts: dict[int, Choices]) -> Choices:
    """Return the layout of the rows of all branches in this epoch."""
    lengths = [int(b.cardinality) if b.cardinality.known else ENDLESS for b in node.branches[:-1]]
    return _remembered(layouts, ctx.path, lambda: Choices(lengths, stop_on_empty=node.stop_on_empty))


def _reader(node: Choose, ctx: Context) -> Read:
    where, choices = branch_context(ctx, node.places[-1]), node.branches[-1]
    total = choices.cardinality

    def read(start: int, stop: int) -> Indices:
        numbers = np.arange(start, min(stop, int(total)) if total.known else stop)
        return np.asarray(where.fetch(choices, numbers).columns[0], np.int64) if len(numbers) else numbers

    return read


_laying_out = RLock()
"""Layouts are shared by all threads and passes that read a dataset."""


def _remembered(layouts: dict[int, T], path: int, make: Callable[[], T]) -> T:
    with _laying_out:
        made = layouts[path] if path in layouts else make()
        layouts[path] = made
        while len(layouts) > MAX_CACHED_LAYOUTS:
            layouts.pop(next(iter(layouts)))
        return made


@fetches(InterleaveByNumber, items=True)
@fetches(FlatMapByNumber, items=True)
def fetch_children(node: InterleaveByNumber | FlatMapByNumber, ctx: Context, indices: Indices) -> list[Item]:
    """Return rows, each from the dataset that holds it."""
    turns = _turns(node, ctx, node.layouts)
    _check(node, turns.rows)
    child, row = turns.find(indices)
    kept: dict[int, _Child] = ctx.run.shared.setdefault((id(node), ctx.path), {})

    def read(number: int, numbers: Indices) -> list[Item]:
        child = kept.get(number)
        if child is None:
            if len(kept) >= MAX_CACHED_CHILDREN:  # other threads may look them up too
                kept.clear()
            (parent,) = ctx.with_row_ids().fetch_items(node.input, np.array([number]))
            child = kept[number] = _child(node, ctx, parent, number)
        return child.read(numbers)

    return _gathered(child, row, read)


@fetches(ChooseByNumber, items=True)
def fetch_chosen(node: ChooseByNumber, ctx: Context, indices: Indices) -> list[Item]:
    """Return rows of the chosen branches."""
    with _laying_out:
        which, row = _choices(node, ctx, node.layouts).find(indices, _reader(node, ctx))

    def read(branch: int, numbers: Indices) -> list[Item]:
        items = branch_context(ctx, node.places[branch]).fetch_items(node.branches[branch], numbers)
        for item in items:
            if not isinstance(item, Failure):
                item.ids = folded(item.ids, branch + 1)
        return items

    return _gathered(which, row, read)


def _gathered(which: Indices, rows: Indices, read: Callable[[int, Indices], list[Item]]) -> list[Item]:
    """Return rows of several inputs, requested input by input, in their order."""
    order = np.argsort(which, kind="stable")
    present, first = np.unique(which[order], return_index=True)
    parts = np.split(rows[order], first[1:])
    items = [item for number, part in zip(present.tolist(), parts, strict=True) for item in read(number, part)]
    return put_in_order(items, order)


def _check(node: _Numbered, rows: int) -> None:
    if rows != node.rows:
        raise HeadraceError(
            f"{node.operation} ({node.site}) had {node.rows} elements when they were counted, and has {rows} now: its "
            "datasets have changed; make the dataset anew"
        )
