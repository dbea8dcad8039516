"""Merge the states of several processes, and check whether a state fits another number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.core.types import JsonObject
from headrace.distribute.shares import ShareMark
from headrace.errors import StateError
from headrace.execute import state as states
from headrace.ops.shared.rest import Rest
from headrace.plan.capabilities import share_of_process
from headrace.plan.marks import Marks, Position, to_json
from headrace.plan.node import Moves, Node, walk


def merge_states(all_states: Sequence[JsonObject]) -> JsonObject:
    """Merge the states of all processes of `distribute`, in the order of ranks, at whatever positions.

    Restored with any world size, it gives the rest of the epoch: what some process has not given out yet, in order.

    Args:
        all_states: States of all processes, in any order.

    >>> shares = [hr.Dataset.range(12).distribute(rank, 2, batch_size=2).iterator() for rank in (0, 1)]
    >>> next(shares[0]), next(shares[0]), next(shares[1])
    (array([0, 1]), array([4, 5]), array([2, 3]))
    >>> state = hr.merge_states([it.state() for it in shares])
    >>> list(hr.Dataset.range(12).distribute(0, 1, batch_size=2).iterator(state=state))
    [array([6, 7]), array([8, 9]), array([10, 11])]
    """
    given = [states.opened(state) for state in all_states]
    if not given:
        raise ValueError("merge_states takes the states of all processes, not none")
    for state in given:
        states.check_form(state)
        states.check_agrees(state, given[0]["plan"])
    first = given[0]
    if "process" not in first:
        raise StateError("merge_states takes states of a pipeline with a distribute, which this one has not")
    _, world_size, share = first["process"]
    for rank, state in enumerate(given):
        if state["process"] != [rank, world_size, share] or world_size != len(given):
            whose = ", ".join(f"{r} of {w} with {n} a step" for r, w, n in (s["process"] for s in given))
            raise StateError(
                f"give the states of all processes of one run, in the order of ranks; these are of {whose}"
            )
        for part, what in (("seeds", "were seeded differently"), ("epoch", "stand in different epochs")):
            if state[part] != first[part]:
                raise StateError(
                    f"process 0 and process {rank} {what}: {part} {first[part]} and {state[part]}; take their states "
                    "in one run, within one epoch"
                )
    line = next(number for number, line in enumerate(first["plan"]) if line.startswith("distribute("))
    return _merged(given, line, world_size, share)


class _Standing(NamedTuple):
    """The position of one process: at the first of `rest`."""

    marks: Marks
    own: ShareMark
    rest: Rest
    above: tuple[Any, ...]
    """The epochs of the operations after `distribute`."""


def _standing(state: JsonObject, line: int) -> _Standing | None:
    """None at the start and at the end of an epoch, which need no marks."""
    marks = dict(states.saved_marks(state))
    if line not in marks:
        return None
    later = {number: position for number, position in marks.items() if number > line}
    _, world_size, share = state["process"]
    own = marks[line].own  # None if nothing was given out yet: it may have been skipped in steps of then
    own = ShareMark(0, (), world_size * share) if own is None else ShareMark.from_json(own)
    marks[line] = marks[line]._replace(own=own)
    steps = marks[line].offset + sum(position.offset for position in later.values())
    given = Rest(own.start, own.done).ranges(0, steps * own.together)
    above = tuple((number, p.own) for number, p in sorted(later.items()))
    return _Standing(marks, own, Rest(own.start, (*own.done, *given)), above)


def _merged(given: list[JsonObject], line: int, world_size: int, share: int) -> JsonObject:
    standings = [_standing(state, line) for state in given]
    least = min(range(len(given)), key=lambda rank: (given[rank]["delivered"], given[rank]["over"]))
    behind, place = given[least], standings[least]
    ahead = [state["delivered"] - behind["delivered"] for state in given]
    if any(s and place and s.above != place.above for s in standings):
        raise StateError("the processes stand in different epochs of a repeat: take their states within one of them")
    if place is None:
        place = _Standing({}, ShareMark(0, (), share), Rest(0), ())
    done = [*place.rest.done]
    for rank, steps in enumerate(ahead):
        here, expected = standings[rank], place.rest.after(steps * world_size * share)
        if here is not None and not here.rest.after(0).same(expected):
            raise StateError(
                f"process {rank} stands at element {here.rest.after(0).start}, but a run with process {least} would "
                f"stand at element {expected.start}: the states are of several runs"
            )
        for step in range(steps):
            first = (step * world_size + rank) * share
            done += place.rest.ranges(first, first + share)
    return states.sealed({**behind, "marks": to_json(_marks(place, line, done))}) if any(ahead) else behind


def _marks(place: _Standing, line: int, done: list[tuple[int, int]]) -> Marks:
    """Return the position of the process that is furthest behind, without what is done beyond it."""
    own = place.own
    marks = dict(place.marks)
    marks.setdefault(line, Position(0, 0, None, rooted=False))
    later = 0
    for number in sorted((n for n in marks if n >= line), reverse=True):  # each offset holds for all below it
        position = marks[number]
        marks[number] = position._replace(ordinal=position.ordinal + later, offset=0)
        later += position.offset
    whole = ShareMark(own.start, Rest(own.start, done).done, own.together)
    marks[line] = marks[line]._replace(own=whole)
    return marks


def marks_among(state: JsonObject, plan: Node) -> Marks:
    """Return the positions of a state, for as many processes as there were then.

    Raise for another number of processes if operations after `distribute` count in old steps.
    """
    chain, node = [], plan
    while (process := share_of_process(node)) is None and len(node.inputs) == 1:
        chain.append(node)
        (node,) = node.inputs
    if process is None or "process" not in state:
        return states.saved_marks(state)
    standing = _standing(state, sum(not n.transparent for n in walk(node)) - 1)
    wrong = next((n for n in chain if not (n.one_to_one or n.transparent or n.moves is Moves.ROWS)), None)
    if standing is None:
        return states.saved_marks(state)
    now, then = process[1] * process[2], standing.own.together
    if wrong is not None and (now != then or standing.own.done):
        raise StateError(
            f"the state was taken when a step of all processes took {then} elements, now it takes {now}: that cannot "
            f"go on behind {wrong.operation}, which counts in old steps; put it before distribute"
        )
    return standing.marks
