"""Calling a user's function on the rows of a block, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Column, Indices, values
from headrace.columns.block import Block, Failure, Item, Rooms, concat, element, from_elements, rows_one_by_one
from headrace.columns.dense import MIN_LAYOUT_CHECK_BYTES
from headrace.columns.lazy_block import MIN_REFERENCED_ROW_BYTES_ALONE, look_at
from headrace.columns.row_builder import ExactRows, ExactValues
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, Nested
from headrace.errors import SpecError
from headrace.execute.context import Context, Form
from headrace.execute.inputs import Input
from headrace.execute.origin import Origin, attach_origin
from headrace.execute.processes.block_workers import BlockFunction, IdleWorkers, Processes
from headrace.execute.row_buffer import RowBuffer
from headrace.execute.row_by_row import IsLast, Leaves, arguments_of
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stages.parallel import process_count, work_in_parallel
from headrace.execute.stages.row_work import ROW_TIMES, noting
from headrace.execute.stages.workers import Task, Work
from headrace.execute.stream import END, Made, Source, Stream
from headrace.execute.verified_rows import SoundRows
from headrace.plan.access import late_bytes
from headrace.plan.cardinality import Cardinality
from headrace.plan.display import ROW_BY_ROW
from headrace.plan.marks import At
from headrace.plan.node import Ahead, Divides, Moves, Node, function_name
from headrace.plan.spec import Probe, Spec
from headrace.plan.structure import Structure
from headrace.plan.widening import widened
from headrace.trace.function import Function
from headrace.trace.graph import Graph

if TYPE_CHECKING:
    from typing import Protocol

    from headrace.errors import ElementError

    class Caller(Protocol):
        """map or random_map."""

        @property
        def input(self) -> Node: ...
        @property
        def num_parallel_calls(self) -> int | None: ...
        @property
        def deterministic(self) -> bool | None: ...
        @property
        def mode(self) -> str: ...
        @property
        def traced(self) -> bool: ...
        @property
        def lot(self) -> int: ...
        @property
        def idle(self) -> IdleWorkers: ...
        @property
        def positional(self) -> bool: ...
        def error(self, cause: BaseException | str, ordinal: int) -> ElementError: ...


One = Callable[..., tuple[Structure, list[Component]]]
"""A function from the arguments of one call to the structure and components of the new row."""
RowMade = tuple[Structure, list[Component]] | Exception
"""The structure and the components of a row, or why there is none."""
Whole = Callable[[Block], Block | None]
"""Apply a function to a block as a whole; None if it must be called on each row."""
CallOutcome = tuple[bool, Any]
"""True and what the function returned, or False and the exception."""


class Calls(Node):
    """An operation that calls a user's function on each row, or, if it could be traced, on whole blocks."""

    input: Node
    function: Function

    @property
    def graph(self) -> Graph | str:
        """Return the traced graph, or why the function runs row by row, as far as the plan determines it."""
        return self.function.graph(self.input.spec)

    @cached_property
    def traced(self) -> bool:
        """Return whether it is unobservable when, how often and on how many rows at once the function runs."""
        return isinstance(self.graph, Graph)

    @cached_property
    def pure(self) -> bool:
        return self.traced and self.input.pure

    @property
    def live(self) -> bool:  # type: ignore[override]
        return not self.traced

    def remark(self) -> str | None:
        return self.function.remark(self.input.spec)

    def call_on_row(self, row: Block) -> Nested:
        """What the function returns for one row; what it raises is raised as it is."""
        return self.function.fn(*next(rows_as_arguments(row, keep=True)))

    def whole(self, block: Block) -> tuple[Graph, list[Column]] | None:
        """Apply the function to all rows at once; None if it must be called on each."""
        return self.function.columns(block, partial(call_each_row, self.function.fn, keep=True))


class ParallelCalls(Calls):
    """An operation whose calls may run on its own threads, or in processes."""

    num_parallel_calls: int | None
    mode: str

    def remark(self) -> str | None:
        return f"{ROW_BY_ROW}in worker processes, as asked for" if self.mode == "process" else super().remark()

    def remedy(self) -> str | None:
        if self.mode == "process":
            return "give it more processes with num_parallel_calls, or have it do less"
        threads = "give it num_parallel_calls=hr.AUTOTUNE"
        if self.traced:
            return threads if self.num_parallel_calls is None else None
        python = 'mode="process" if it is Python code, because threads share the GIL'
        advice = python if self.num_parallel_calls is not None else f"{threads}, {python}"
        plain = "; as plain NumPy it would run on whole blocks (explain() says what is in the way)"
        return advice + plain * (self.mode == "auto")

    @property
    def ahead(self) -> Ahead:
        if self.mode == "process":
            return Ahead.READY
        if self.num_parallel_calls is None:
            return Ahead.NO
        return Ahead.RUNS if self.traced or not self.input.pure else Ahead.READY


class MappingCalls(ParallelCalls):
    """Map each row to what the function returns."""

    probe: Probe
    lot: int
    """How many rows are handed over at a time at most if calls are quick; 1 if no row may be held back."""

    divides = Divides.RUNS

    one_to_one = True

    @property
    def indexable(self) -> bool:
        return self.input.indexable

    def remark(self) -> str | None:
        said = [super().remark(), widened(self.input.spec, self.spec)]
        return "; ".join(filter(None, said)) or None

    @property
    def spec(self) -> Spec:
        if self.probe.spec is not None:
            return self.probe.spec
        return self.function.spec_of_results(self.input.spec)

    def in_lots(self, size: int) -> Node | None:
        """Return the same rows, handed over between threads up to `size` at a time; None if nothing is gained by it."""
        threads = self.num_parallel_calls is not None and self.mode != "process"
        if not threads or self.traced or not self.input.pure:
            return None
        lots: dict[str, Any] = {"lot": size, "stands_for": self}
        return replace(self, **lots)

    @cached_property
    def tentative(self) -> bool:
        return not self.probe.promised and (self.input.tentative or not self.traced)

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality


def single(found: tuple[Graph, list[Column]] | None, kinds: str) -> Array | None:
    """Return the results of a function as one column of numbers of these kinds; None for any other results."""
    if found is None or found[0].structure.kind is not None:
        return None
    (column,) = found[1]
    plain = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in kinds
    return column if plain else None


def private_elements(block: Block, *, keep: bool = False) -> Iterator[Nested]:
    """Return the elements, with arrays that a function may write to; copies, if the block is to `keep` its own."""
    try:
        return block.structure.rows([_private(c, keep) for c in block.columns], block.rows)
    except Exception:  # some row failed: the others can be made one by one
        return rows_one_by_one(block, partial(_private, keep=keep))


def rows_as_arguments(block: Block, *, keep: bool = False) -> Iterator[tuple[Any, ...]]:
    """Return what the function gets for each row."""
    rows = private_elements(block, keep=keep)
    return rows if block.structure.unpacks else zip(rows)


def _private(column: Column, keep: bool) -> Iterator[Nested]:
    shared = column.values if isinstance(column, Ragged) else column
    if isinstance(shared, np.ndarray) and shared.ndim == 1 and shared is column:
        return values(column)
    if isinstance(shared, np.ndarray) and shared.flags.writeable and not keep:
        return values(column)
    if (
        shared is column
        and isinstance(shared, np.ndarray)
        and shared[:1].nbytes < MIN_LAYOUT_CHECK_BYTES
        and not shared.dtype.hasobject
    ):
        return iter(shared.copy())  # one copy is cheaper than many; a row that is kept keeps few others alive
    return (_own(row, keep) for row in values(column))


def _own(value: object, keep: bool) -> Component:
    if isinstance(value, np.ndarray) and (keep or not value.flags.writeable):
        return value.copy()
    return value


def call_each_row(
    fn: Callable[..., object], block: Block, *, keep: bool = False, with_ids: bool = False
) -> Iterator[CallOutcome]:
    """Yield the function called on each row, `with_ids` on its id before all else.

    An exception belongs to its row and stops nothing.
    """
    rows = rows_as_arguments(block, keep=keep)
    if ROW_TIMES.kept is not None:
        fn = noting(fn, ROW_TIMES.kept)
    if with_ids:
        assert block.ids is not None, "rows are read with ids"
        rows = map(_id_first, zip(block.ids, rows, strict=True))
    while True:
        try:
            for args in rows:
                try:
                    result = fn(*args)
                except Exception as error:
                    yield False, error
                else:
                    yield True, result
        except Exception as error:  # of an element that cannot be assembled
            yield False, error
        else:
            return


def _id_first(row: tuple[object, tuple[object, ...]]) -> tuple[Any, ...]:
    first, rest = row
    return first, *rest


def each(rows: Iterator[object]) -> Iterator[CallOutcome]:
    """True and a row, or False and the exception that came in its place."""
    while True:
        try:
            for row in rows:
                yield True, row
        except Exception as error:
            yield False, error
        else:
            return


def results(function: Function, block: Block, kinds: str) -> Iterator[CallOutcome]:
    """Yield the function's result for each row, computed from the whole block at once if it is traced."""
    column = traced_numbers(function, block, kinds)
    return call_each_row(function.fn, block, keep=True) if column is None else zip(repeat(True), column)


def traced_numbers(function: Function, block: Block, kinds: str) -> Array | None:
    """Return the function's results for all rows as an array of these kinds, if it is traced."""
    return single(function.columns(block, partial(call_each_row, function.fn, keep=True)), kinds)


def with_failures(
    node: Node,
    block: Block,
    results: list[CallOutcome],
    good: Callable[[int, int], list[Item]],
    numbers: Sequence[int] | Indices | None = None,
) -> list[Item]:
    """Return items for the rows of `block`: `good(start, stop)` for successful runs, failures in between.

    `numbers` are the ordinals of the rows, if they do not count up from the block's mark.
    """
    items: list[Item] = []
    start = 0
    for i, (fine, value) in enumerate(results):
        if not fine:
            if start < i:
                items += good(start, i)
            number = block.mark.ordinal + i if numbers is None else int(numbers[i])
            items.append(Failure(node.error(value, number), block.mark.later(i)))
            start = i + 1
    if start < block.rows:
        items += good(start, block.rows)
    return items


def check_promise(
    fn: Callable[..., object], value: object, signature: Spec | None, rooms: Rooms | None = None
) -> tuple[Structure, list[Component]]:
    """Return a function's result as an element. Raise if it does not match the signature, or is None."""
    if value is None:
        raise TypeError(
            f"{function_name(fn)} returned None: is there a `return` missing? An element that holds None is (None,)"
        )
    structure, leaves = element(value, rooms)
    reason = signature and signature.conflict(Spec.of_leaves(structure, leaves))
    if reason:
        raise SpecError(f"the function's result does not match output_signature: {reason}")
    return structure, leaves


def make_rows(
    fn: Callable[..., object],
    signature: Spec | None,
    block: Block,
    *,
    with_ids: bool = False,
    rooms: Rooms | None = None,
) -> Iterator[RowMade]:
    """Return what a function makes of each row, or of its id and it, in turn; copied into `rooms`."""
    return _check_each(fn, signature, call_each_row(fn, block, with_ids=with_ids), rooms)


def _check_each(
    fn: Callable[..., object], signature: Spec | None, called: Iterable[CallOutcome], rooms: Rooms | None
) -> Iterator[RowMade]:
    for fine, value in called:
        if not fine:
            yield value
            continue
        try:
            made: RowMade = check_promise(fn, value, signature, rooms)
        except Exception as error:
            made = error
        yield made


def call_on_rows(
    fn: Callable[..., object],
    signature: Spec | None,
    block: Block,
    *,
    with_ids: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> list[Block | Exception]:
    """Call a function on each row, or on its id and the row. Stop once the pass is `cancelled`.

    Elements that are all alike are copied directly into columns, the others are converted one by one.
    """
    called = call_each_row(fn, block, with_ids=with_ids)
    if cancelled is not None:
        called = _unless(cancelled, called)
    alike: ExactRows | None = None
    odd: list[CallOutcome] = []
    if signature is None:
        for outcome in called:
            fine, value = outcome
            if alike is None and fine:
                alike = _room_like(value, block.rows)
            if alike is None or not fine or not alike.add(value):
                odd = [outcome]
                break
    rooms = Rooms(block.rows - (alike.count if alike else 0))
    rest = join_rows(list(_check_each(fn, signature, chain(odd, called), rooms)), rooms)
    return [alike.block(), *rest] if alike is not None and alike.count else rest


def _unless(cancelled: Callable[[], bool], called: Iterator[CallOutcome]) -> Iterator[CallOutcome]:
    for outcome in called:
        if cancelled():
            raise Cancelled
        yield outcome


def _room_like(value: object, rows: int) -> ExactRows | None:
    """Allocate room for rows like this one; None if they must be converted one by one."""
    if value is None:
        return None
    try:
        exact = ExactValues.like(*element(value))
    except Exception:  # it is met again, in its place
        return None
    return None if exact is None else ExactRows(exact, rows)


def join_rows(rows: list[RowMade], rooms: Rooms | None = None) -> list[Block | Exception]:
    """Return rows that were made one by one as blocks, and the exceptions in between."""
    parts: list[Block | Exception] = []
    run: list[tuple[Structure, list[Component]]] = []
    for row in rows:
        if isinstance(row, Exception):
            parts += from_elements(run, rooms=rooms)
            parts.append(row)
            run = []
        else:
            run.append(row)
    return [*parts, *from_elements(run, rooms=rooms)]


def place_results(
    node: Caller, call: BlockFunction, keep_ids: bool, block: Block, numbers: Indices | None = None
) -> list[Item]:
    """Apply `call` to a block, row for row, with the marks and ids of the input rows.

    `numbers` are the ordinals of the rows, if they do not count up from the block's mark.
    """
    return place_parts(node, call(block), block, keep_ids=keep_ids, numbers=numbers)


def place_parts(
    node: Caller,
    parts: list[Block | Exception],
    block: Block,
    *,
    keep_ids: bool,
    start: int = 0,
    numbers: Indices | None = None,
) -> list[Item]:
    """Return what was made of the rows of a block from `start` on, with their marks and ids."""
    ids = block.ids if keep_ids else None
    items: list[Item] = []
    for part in parts:
        mark = block.mark.later(start)
        if isinstance(part, Exception):
            error = node.error(part, mark.ordinal if numbers is None else int(numbers[start]))
            items.append(Failure(error, mark))
            start += 1
        else:
            part.mark = mark
            part.ids = None if ids is None else ids[start : start + part.rows]
            items.append(part)
            start += part.rows
    return items


MAX_CALLS_IN_A_ROW = 256
"""How many quick calls a thread makes in a row at most; finished results can be taken meanwhile."""


class CallsInTurn:
    """Call a function on one row after another, on a thread of a stage: see RowWork."""

    def __init__(
        self,
        node: Caller,
        call: BlockFunction,
        keep_ids: bool,
        whole: Whole,
        rows: Callable[[Block], Iterator[RowMade]],
    ) -> None:
        self._node = node
        self._call = call
        self._keep_ids = keep_ids
        self._whole = whole
        self._rows = rows

    def __call__(self, item: Item) -> list[Item]:
        return place_results(self._node, self._call, self._keep_ids, item) if isinstance(item, Block) else [item]

    def begin(self, block: Block) -> list[Item] | Iterator[RowMade]:
        """Return all items, if the function turns out to work on whole blocks after all."""
        whole = self._whole(block)
        return self._rows(block) if whole is None else place_parts(self._node, [whole], block, keep_ids=self._keep_ids)

    def place(self, block: Block, start: int, made: list[RowMade]) -> list[Item]:
        return place_parts(self._node, join_rows(made), block, keep_ids=self._keep_ids, start=start)


def open_calls(
    node: Caller,
    ctx: Context,
    at: At,
    call: BlockFunction,
    *,
    whole: Whole,
    rows: Callable[[Block], Iterator[RowMade]],
    with_ids: bool = False,
    one: One | None = None,
) -> Stream:
    """Apply `call` to the input's rows: in the consumer's thread, on threads or in processes, as the node says.

    `whole` makes a whole block if possible, `rows` its rows one by one, `one` a single row, for a consumer that wants
    them one by one.
    """
    inner = ctx.with_row_ids() if with_ids else ctx
    ordered = node.positional or ctx.keeps_order(
        node.deterministic
    )  # a row that is known by its number keeps its place
    if node.mode == "process":
        remote = Processes(call, node.idle)
        calls = partial(_work, partial(place_results, node, remote, ctx.with_ids))
        width = process_count(ctx, node.input, node.num_parallel_calls)
        task = Task(calls, one_by_one=not node.input.pure, remote=remote)
        return work_in_parallel(inner, node.input, at, task, width=width, ordered=ordered)
    apply = partial(place_results, node, call, ctx.with_ids)
    threads = node.num_parallel_calls
    if threads is None and at.own is None:
        place = partial(place_parts, node, keep_ids=ctx.with_ids)
        return CallStream(inner, node.input, at, apply, unseen=node.traced, one=one, place=place)
    in_turn = not node.traced and node.lot == 1 and node.input.pure and ordered and at.own is None
    work: Work = CallsInTurn(node, call, ctx.with_ids, whole, rows) if in_turn else partial(_work, apply)
    lot = MAX_CALLS_IN_A_ROW if in_turn else node.lot
    task = Task(work, one_by_one=not node.traced, lot=lot, unseen=node.traced and node.input.pure)
    return work_in_parallel(inner, node.input, at, task, width=threads or 1, ordered=ordered)


def _work(apply: Callable[[Block], list[Item]], item: Item) -> list[Item]:
    return apply(item) if isinstance(item, Block) else [item]


def fetch_call(node: Caller, ctx: Context, indices: Indices, call: BlockFunction, *, with_ids: bool = False) -> Block:
    """Apply `call` to the input's rows with these ordinals. Raise if one of them cannot be made."""
    rows = (ctx.with_row_ids() if with_ids else ctx).fetch(node.input, indices)
    items = place_results(node, call, ctx.with_ids, rows, indices)
    done = 0
    for item in items:
        if isinstance(item, Failure):
            attach_origin(item.error, Origin(node.input, ctx, int(indices[done])), node)  # type: ignore[arg-type]
            raise item.error
        done += item.rows
    return concat([item for item in items if isinstance(item, Block)])


class CallStream(Stream):
    """Map the rows of the input by a function, in the consumer's thread."""

    def __init__(
        self,
        ctx: Context,
        node: Node,
        at: At,
        apply: Callable[[Block], list[Item]],
        *,
        unseen: bool = False,
        one: One | None = None,
        place: Callable[[list[Block | Exception], Block], list[Item]] | None = None,
    ) -> None:
        late = unseen and node.moves is Moves.FAR and late_bytes(node) >= MIN_REFERENCED_ROW_BYTES_ALONE
        passed = unseen and ctx.late  # to a consumer that reads records again if they prove corrupt
        rows: Source = (
            SoundRows(ctx, node, at.inputs)
            if late
            else ctx.open(node, at.inputs, any_order=True, form=Form(late=passed))
        )
        self._reads_blocks = node.pure and not unseen
        self._input = RowBuffer(rows) if self._reads_blocks else rows
        self._apply = apply
        self._unseen = unseen
        self._given_as_read = False
        self._one = one
        self._place = place

    def give_as_read(self) -> One | None:
        """Return rows as they are read, for a consumer that calls the function itself, unless that is observable."""
        self._given_as_read = self._reads_blocks and self._one is not None
        return self._one if self._given_as_read else None

    def pull(self, want: int) -> Made:
        item = self._input.pull(want)
        if self._given_as_read or not isinstance(item, Block):
            return item
        made = self._apply(item)
        look_at(item)
        return made

    def pull_until(self, want: int, is_last: IsLast) -> Made | None:
        one, place = self._one, self._place
        if one is None or place is None or not isinstance(self._input, RowBuffer | Input):
            return None
        rows: list[RowMade] = []

        def ends(structure: Structure, leaves: Leaves) -> bool:
            try:
                made = one(*arguments_of(structure, leaves))
            except Exception as error:
                rows.append(error)
                return True
            rows.append(made)
            return is_last(*made)

        items = self._input.pull_until(want, ends)
        if items is END:
            return END
        placed: list[Item] = []
        for item in items:
            if isinstance(item, Block):
                placed += place(join_rows(rows[: item.rows]), item)
                del rows[: item.rows]
            else:
                placed.append(item)
        return placed

    def skip(self, count: int, *, replay: bool = False) -> int:
        return self._input.skip(count, replay=replay) if replay or self._unseen else 0
