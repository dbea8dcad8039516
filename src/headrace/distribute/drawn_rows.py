"""How far a mixture was read for the elements that were delivered: from there on other weights may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.distribute.distribute import Distribute
from headrace.distribute.mixtures import MixPlace, mixtures_of, rows_dealt, rows_given
from headrace.errors import HeadraceError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.run import Pass
from headrace.execute.stages.unordered import Unordered
from headrace.execute.stream import END
from headrace.ops.filter import Filter
from headrace.ops.ignore_errors import IgnoreErrors
from headrace.ops.mix import Mix
from headrace.ops.scan import Scan
from headrace.ops.shared.batching import Batching
from headrace.ops.skip import Skip
from headrace.ops.skip_steps import SkipSteps
from headrace.ops.take import Take
from headrace.ops.take_while import TakeWhile
from headrace.ops.with_options import merge_options
from headrace.plan.marks import Marks
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared

HOLDS_NO_ROWS = (Batching, Filter, IgnoreErrors, Scan, Skip, SkipSteps, Take, TakeWhile)
"""Operations of which every element is made of whole rows, that no other element is made of."""


class Drawn(NamedTuple):
    """How far a mixture was read.

    From row `rows` on other weights may hold; `used` rows went into what was delivered, or are held. `marks` is the
    position of the pass, if no row before `rows` has to be read again to go on from there.
    """

    rows: int
    used: int
    marks: Marks | None


class Position(NamedTuple):
    """The position of a pass: its plan, the epoch, sizes of buffers, the marks, and how many elements it delivered."""

    plan: Node
    epoch: int
    sizes: dict[str, int]
    marks: Marks
    delivered: int


def drawn_rows(at: Position, number: int) -> Drawn:
    """How far mixture `number` of a plan was read. All processes of a run get the same `rows` after the same step."""
    mix = mixtures_of(at.plan)[number]
    drawn = _drawn_in_order(at, mix)
    rows = _drawn_out_of_order(at, mix)
    return Drawn(rows, drawn.used, None) if rows > drawn.rows else drawn


def _drawn_in_order(at: Position, mix: MixPlace) -> Drawn:
    rows = rows_given(at.plan, mix.mix, at.marks, at.delivered)
    if rows is not None:
        position = at.marks.get(mix.number)
        if position is None or (position.ordinal == rows and not (position.own and position.offset)):
            return Drawn(rows, rows, at.marks)
        if any(isinstance(node, Distribute) for node in _above(at.plan, mix.mix)):
            return Drawn(rows, rows, None)
    run = Pass(Prepared.of, options=merge_options(at.plan), sizes=at.sizes)
    run.read_stepwise()
    try:
        prepared = Prepared.of(at.plan)
        found = _read_on(at, mix, run, run.context(prepared).epoch(at.epoch))
    finally:
        run.close()
    if rows is None:
        return found
    return Drawn(rows, rows, found.marks if found.rows == rows else None)


def _drawn_out_of_order(at: Position, mix: MixPlace) -> int:
    """Up to which row a mixture was read by operations with `deterministic=False`, for what they handed over."""
    last, unit, line = 0, 1, mix.number
    for node in reversed(list(_above(at.plan, mix.mix))):
        line += not node.transparent
        own = at.marks[line].own if line in at.marks else None
        if own and getattr(node, "deterministic", None) is False:
            if not unit:
                raise HeadraceError(
                    f"{node.operation} with deterministic=False ({node.site}) comes after an operation that does not "
                    "use each row of the mixture once, so it is not known how far the mixture was read: leave "
                    "deterministic=False out"
                )
            mark = Unordered.from_json(own) if isinstance(own, list) else own
            assert isinstance(mark, Unordered)
            last = max([last, *(unit * (start + rows) for start, rows in (*mark.done, mark.lead))])
        if isinstance(node, Batching):
            unit *= node.batch_size
        elif not (node.one_to_one or node.transparent):
            unit = 0
    return last


def _read_on(at: Position, mix: MixPlace, run: Pass, context: Context) -> Drawn:
    """Open the pass stepwise at its position, to see how far it reads; and its next element if that tells more."""
    chain = list(_above(at.plan, mix.mix))
    several = any(isinstance(node, Distribute) and node.world_size > 1 for node in chain)
    source = _dealt(at, mix.mix, context) if several else None
    if source is None:
        run.open(context, at.marks)
        source = run.root
    else:
        chain = chain[next(i for i, node in enumerate(chain) if isinstance(node, Distribute)) + 1 :]
    used = _read(source, mix)
    whole = bool(chain) and all(_holds_no_rows(node) for node in chain)
    if not (several or whole):
        return Drawn(used + 1, used, None)  # a part of the next row may have been used
    item = source.pull(1)
    if item is END:
        return Drawn(used, used, None)
    marks = item.mark.marks()
    if whole and _fresh(marks, mix.number):
        rows = marks[mix.number].ordinal
        return Drawn(rows, rows, None if several else marks)
    return Drawn(_read(source, mix) if several else used, used, None)


def _dealt(at: Position, mix: Mix, context: Context) -> Input | None:
    """The rows that processes share, behind those that all of them were given; None if their number is not known.

    How many rows were read for one process depends on where it began. How many were read for all of them does not.
    """
    chain = list(_above(at.plan, mix))
    place = next(i for i, node in enumerate(chain) if isinstance(node, Distribute))
    if not all(node.one_to_one or node.transparent for node in chain[:place]):
        return None
    node = context.prepared.plan
    while not isinstance(node, Distribute):
        if len(node.inputs) != 1:
            return None
        (node,) = node.inputs
    share = chain[place]
    assert isinstance(share, Distribute)
    dealt = rows_dealt(at.plan, share, at.marks, at.delivered)
    if dealt is None:
        return None
    source = context.open(node.input, at.marks)
    source.skip(dealt - source.ordinal, replay=True)
    return source


def _above(plan: Node, mix: Mix) -> Iterator[Node]:
    """The operations after a mixture, the last first; none if one of them has several inputs."""
    chain, node = [], plan
    while node is not mix:
        if len(node.inputs) != 1:
            return iter(())
        chain.append(node)
        (node,) = node.inputs
    return iter(chain)


def _holds_no_rows(node: Node) -> bool:
    return node.one_to_one or node.transparent or isinstance(node, HOLDS_NO_ROWS)


def _fresh(marks: Marks, mix: int) -> bool:
    """Whether no row of the mixture is read again from these marks, nor of an operation after it."""
    if mix not in marks or (marks[mix].own and marks[mix].offset):
        return False
    return not any(position.offset for number, position in marks.items() if number > mix)


def _read(source: Input, mix: MixPlace) -> int:
    """How many rows of a mixture were read."""
    found = source.ordinals().get(mix.number)
    if found is None:
        raise HeadraceError(
            "it is not known how far the mixture was read: an operation after it looks for its rows by number. Put "
            'the mixture after that operation, or restore a state with hr.mix(..., on_change="adopt")'
        )
    return found
