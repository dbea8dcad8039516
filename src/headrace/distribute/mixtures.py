"""Mixtures in states: their weights so far, and states of one mixture that go on with another."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.core.types import JsonObject, JsonValue
from headrace.distribute.distribute import Distribute
from headrace.distribute.shares import ShareMark
from headrace.errors import StateError
from headrace.execute import state as states
from headrace.ops.mix import Mix
from headrace.ops.repeat import Repeat
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.mix_history import MixHistory
from headrace.ops.shared.rest import Rest
from headrace.ops.take import Take
from headrace.plan.marks import Marks
from headrace.plan.node import Node, rebuild, walk

State = JsonObject
REMEDY = 'to go on with other weights or other sources, say hr.mix(..., on_change="adopt") in the new plan'


class MixPlace(NamedTuple):
    """A mixture in a plan: the number of its node, and of each of its inputs how many lines and drawn seeds it has."""

    mix: Mix
    number: int
    lines: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources."""
        return self.mix.choices.names


def mixtures_of(plan: Node) -> list[MixPlace]:
    """The mixtures of a plan."""
    found = []
    number = -1
    for node in walk(plan):
        number += not node.transparent
        if isinstance(node, Mix):
            lines = tuple(sum(not n.transparent for n in walk(branch)) for branch in node.branches)
            seeds = tuple(len(states.drawn_seeds(branch)) for branch in node.branches)
            found.append(MixPlace(node, number, lines, seeds))
    return found


def mixtures_as_json(plan: Node) -> list[JsonObject]:
    """The part of a state that describes the mixtures of a plan."""
    return [
        {
            "line": place.number,
            "names": list(place.names),
            "lines": list(place.lines),
            "seeds": list(place.seeds),
            "history": place.mix.choices.history.to_json(),
        }
        for place in mixtures_of(plan)
    ]


def with_histories(plan: Node, change: Callable[[int, Mix], MixHistory | None]) -> Node:
    """The plan with other histories of its mixtures, of which `change` gets the place among all and the node."""
    numbers = {id(place.mix): i for i, place in enumerate(mixtures_of(plan))}

    def changed(node: Node) -> Node:
        if not isinstance(node, Mix):
            return node
        written = node
        while id(written) not in numbers and isinstance(written.stands_for, Mix):
            written = written.stands_for
        history = change(numbers[id(written)], node)
        if history is None:
            return node
        choices = replace(node.choices, changed=history)
        return replace(node, branches=(*node.branches[:-1], choices))

    return rebuild(plan, changed)


def adopted(state: object, plan: Node) -> tuple[Any, Node, list[int]]:
    """The state as one of this plan, the plan with the state's weights so far, and which mixtures are to be changed.

    A state that belongs to the plan as it stands, or to another one altogether, is returned as it is.
    """
    here = mixtures_of(plan)
    if not here or not isinstance(state, dict) or not isinstance(state.get("mixtures"), list):
        return state, plan, []
    states.check_form(state)
    saved = state["mixtures"]
    if state["plan"] == states.description(plan):
        histories = [MixHistory.from_json(_part(entry, "history")) for entry in saved]
        if len(histories) != len(here):
            raise StateError("the state is damaged: it does not say where its mixtures stand")
        return state, with_histories(plan, lambda number, _: histories[number]), []
    if len(here) != 1 or len(saved) != 1 or here[0].mix.on_change != "adopt":
        try:
            states.check_agrees(state, states.description(plan))
        except StateError as error:
            raise StateError(f"{error}; {REMEDY}") from None
        return state, plan, []
    history = MixHistory.from_json(_part(saved[0], "history"))
    try:
        moved, parked = _moved(state, saved[0], plan, here[0], dict(history.parked))
    except StateError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"the state is damaged: its counts of a mixture cannot be read: {error!r}") from None
    history = replace(history, parked=tuple(sorted(parked.items())))
    return moved, with_histories(plan, lambda *_: history), [0]


def _part(entry: JsonValue, name: str) -> JsonValue:
    try:
        return entry[name]
    except (KeyError, TypeError):
        raise StateError("the state is damaged: it says nothing sensible of a mixture") from None


def _moved(
    state: State, entry: object, plan: Node, here: MixPlace, parked: dict[str, str]
) -> tuple[State, dict[str, str]]:
    """The state with the numbers of this plan, in which sources are known by their names; and where others stood."""
    line, names, counts, seeds = (_part(entry, name) for name in ("line", "names", "lines", "seeds"))
    lines, drawn = states.description(plan), states.drawn_seeds(plan)
    first = here.number - sum(here.lines)
    if line - sum(counts) != first or len(state["plan"]) - line != len(lines) - here.number:
        raise StateError(f"the state belongs to another pipeline around its mixture; it was {state['plan']}")
    ahead = _seeds_before(plan, here.mix)
    starts = zip(_starts(first, counts), counts, _starts(ahead, seeds), seeds, strict=True)
    then = dict(zip([*names, None], starts, strict=True))
    numbers = {number: number for number in range(first)}
    numbers |= {line + i: here.number + i for i in range(len(lines) - here.number)}
    if any(state["plan"][was] != lines[now] for was, now in numbers.items()):
        raise StateError(f"the state belongs to another pipeline around its mixture; it was {state['plan']}")
    kept = list(state["seeds"][:ahead])
    given = _given(state["marks"].get(str(line)), names)
    marks: JsonObject = {}
    for name in names:
        if name not in here.names:
            parked |= _parked(state, name, then[name], given.get(name, 0))
    now_starts = zip(_starts(first, here.lines), here.lines, _starts(ahead, here.seeds), here.seeds, strict=True)
    for name, (start, size, seed, seed_count) in zip([*here.names, None], now_starts, strict=True):
        if name is not None and name in parked and name not in then:
            back = json.loads(parked.pop(name))
            if back["lines"] != lines[start : start + size]:
                raise StateError(f"the source {name!r} of the mixture is another one: it was {back['lines']}")
            marks |= {str(start + int(n)): position for n, position in back["marks"].items()}
            kept += back["seeds"]
            given[name] = back["given"]
            continue
        if name not in then:
            kept += drawn[seed : seed + seed_count]
            continue
        start_then, size_then, seed_then, seed_count_then = then[name]
        was, now = state["plan"][start_then : start_then + size_then], lines[start : start + size]
        if len(was) != len(now) or (name is not None and was != now):
            raise StateError(f"the source {name!r} of the mixture is another one: it was {was}, here it is {now}")
        numbers |= {start_then + i: start + i for i in range(size)}
        kept += state["seeds"][seed_then : seed_then + seed_count_then]
    kept += state["seeds"][ahead + sum(seeds) :]
    marks |= {str(numbers[int(n)]): position for n, position in state["marks"].items() if int(n) in numbers}
    at = str(here.number)
    if at in marks:
        marks[at] = _renamed(marks[at], names, here.names, given)
    moved = {**state, "plan": lines, "seeds": kept, "marks": marks}
    functions = state.get("functions")
    if functions:
        digests = {str(numbers[int(n)]): d for n, d in functions["digests"].items() if int(n) in numbers}
        moved["functions"] = {**functions, "digests": digests}
    return states.sealed(moved), parked


def _given(position: object, names: list[str]) -> dict[str | None, int]:
    """How many rows of each source were given since the marks of the sources."""
    own = position[2] if isinstance(position, list) and len(position) > 2 else None
    return dict(zip([*names, None], own[1], strict=True)) if own and own[1] else {}


def _parked(state: State, name: str, then: tuple[int, int, int, int], given: int) -> dict[str, str]:
    """Where a source stands that is gone, for the case that it comes back; nothing if its rows have numbers."""
    start, size, seed, seeds = then
    marks = {str(i): state["marks"][str(start + i)] for i in range(size) if str(start + i) in state["marks"]}
    if not marks:
        return {}
    lines = state["plan"][start : start + size]
    entry = {"lines": lines, "marks": marks, "seeds": state["seeds"][seed : seed + seeds], "given": given}
    return {name: json.dumps(entry)}


def _renamed(position: JsonValue, then: list[str], now: tuple[str, ...], given: dict[str | None, int]) -> JsonValue:
    """The position of a mixture with its branches in the order of now."""
    own = position[2] if isinstance(position, list) and len(position) > 2 else None
    if own is None:
        return position
    names = [then[branch] for branch in own[0]]
    ended = sorted(now.index(name) for name in names if name in now)
    return [*position[:2], [ended, [given.get(name, 0) for name in (*now, None)], *own[2:]], *position[3:]]


def _starts(first: int, counts: JsonValue) -> list[int]:
    starts = [first]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts[:-1]


def _seeds_before(plan: Node, mix: Mix) -> int:
    """How many seeds are drawn by operations that come before a mixture's inputs in the plan."""
    inside = {id(node) for node in walk(mix)}
    count = 0
    for node in walk(plan):
        if id(node) in inside:
            break
        count += states.seeds_drawn_by(node)
    return count


def rows_given(plan: Node, mix: Mix, marks: Marks, delivered: int) -> int | None:
    """How many rows of a mixture went into the elements that were delivered; None if only a run can tell.

    Known for chains of operations that use each row once, in order: row by row, batches, shares of processes.
    """
    chain = []
    node = plan
    while node is not mix:
        if len(node.inputs) != 1:
            return None
        chain.append(node)
        (node,) = node.inputs
    rows = delivered
    for number, above in enumerate(chain):
        if isinstance(above, Distribute):
            found = rows_dealt(plan, above, marks, rows)
            if found is None or any(not (n.one_to_one or n.transparent) for n in chain[:number]):
                return None
            rows = found
        elif isinstance(above, Batching):
            rows *= above.batch_size
        elif isinstance(above, Take):
            continue
        elif not (above.one_to_one or above.transparent):
            return None
    return rows


def is_chain(plan: Node, mix: Mix) -> bool:
    """Whether a mixture is read once, by operations with one input each."""
    node = plan
    while node is not mix:
        if len(node.inputs) != 1 or isinstance(node, Repeat):
            return False
        (node,) = node.inputs
    return True


def rows_dealt(plan: Node, node: Distribute, marks: Marks, delivered: int) -> int | None:
    """How many rows all processes together were given, by the mark of one of them."""
    line = -1
    for each in walk(plan):
        line += not each.transparent
        if each is node:
            break
    if line not in marks:
        return 0 if not delivered else None
    position = marks[line]
    own = position.own
    if own is None:
        return position.ordinal * node.together
    mark = own if isinstance(own, ShareMark) else ShareMark.from_json(own)
    rest = Rest(mark.start, mark.done)
    return max([rest.after(position.offset * mark.together).start, *(stop for _, stop in mark.done)])
