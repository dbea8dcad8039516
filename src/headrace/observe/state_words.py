"""A state in words: which epoch, where each operation stands, what a shuffle holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.core.types import JsonObject, JsonValue
from headrace.execute.state import check_form


def state_lines(state: JsonObject) -> list[str]:
    """The lines that `headrace state show` prints. A damaged state is a StateError."""
    check_form(state)
    end = ", at the end of the epoch" if state["over"] else ""
    lines = [f"epoch {state['epoch']}, {state['delivered']:,} elements delivered{end}"]
    if state.get("process"):
        rank, world, share = state["process"]
        lines.append(f"share of process {rank} of {world}, {share} elements a step")
    if state.get("exclude"):
        lines.append(f"steps to leave out: {', '.join(map(str, state['exclude']))}")
    if state["seeds"]:
        lines.append(f"seeds that were drawn: {', '.join(map(str, state['seeds']))}")
    lines += [f"buffer size chosen for {name}: {size:,}" for name, size in (state.get("sizes") or {}).items()]
    return [*lines, "operations, the source first:", *_positions(state)]


def _positions(state: JsonObject) -> Iterator[str]:
    plan, marks = state["plan"], state["marks"]
    for number, label in enumerate(plan):
        here = Here(label, plan[number - 1] if number else "", marks.get(str(number)), marks.get(str(number - 1)))
        yield f"  {label}: {_position(here, over=state['over'])}"


class Here(NamedTuple):
    """An operation of a state, and the one before it, with their marks."""

    label: str
    label_before: str
    mark: JsonValue
    mark_before: JsonValue

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return self.label.partition("(")[0]

    @property
    def own(self) -> JsonValue:
        """What the operation adds to its position, if anything."""
        return self.mark[2] if isinstance(self.mark, list) and len(self.mark) > 2 else None

    @property
    def offset(self) -> int:
        """How many rows after that the position is."""
        return int(self.mark[1])

    @property
    def child(self) -> str:
        """What the rows of the operation before it are opened as."""
        return "file" if self.label_before.startswith("file_names(") else "dataset"


def _position(here: Here, *, over: bool) -> str:
    if over:
        return "at its end"
    if here.mark is None:
        return "found from the operations after it"
    if isinstance(here.mark, int):
        return f"at row {here.mark:,}"
    ordinal, offset = here.mark[:2]
    row = f"at row {ordinal:,}" + (f", {offset:,} rows of which are read again" if offset else "")
    said = _own(here)
    return f"{row}; {said}" if said else row


def _own(here: Here) -> str:
    if here.own is None and here.child != "file":
        return ""
    try:
        return _said(here)
    except (LookupError, TypeError, ValueError):
        return f"its own position is {here.own}"


def _said(here: Here) -> str:
    own = here.own
    if own is None:
        return f"at row {here.offset:,} of file {_parent(here):,}"
    if here.operation in _WORDS:
        return _WORDS[here.operation](here)
    if isinstance(own[0], str):  # a query: how its parts are laid out, then where they are
        (found,) = own[1]
        return f"behind the row with {_key_name(here.label)} {_top(found)[2][0]!r}"
    if len(own) == 1 and isinstance(own[0], dict):  # one dataset at a time
        return f"at row {_row(own[0]) + here.offset:,} of {here.child} {_parent(here):,}"
    _, _, _, live = own
    return "in turns from " + ", ".join(f"row {_row(found):,} of {here.child} {parent:,}" for _, parent, found in live)


def _parent(here: Here) -> int:
    return int(here.mark_before if isinstance(here.mark_before, int) else here.mark_before[0])


def _key_name(label: str) -> str:
    name = label.partition("key=")[2].partition(",")[0].partition(")")[0]
    return f"{name} =" if name else "key or number"  # long labels are cut


def _top(marks: JsonObject) -> JsonValue:
    """The position of the last operation of a nested plan."""
    return marks[max(marks, key=int)]


def _row(marks: JsonObject) -> int:
    top = _top(marks)
    return int(top if isinstance(top, int) else top[0])


def _shuffle(here: Here) -> str:
    step, total = here.own
    size = re.search(r"buffer_size=(\d+)", here.label)
    capacity = int(size[1]) if size else None
    left = None if total is None else max(0, total - step)
    held = capacity if left is None else left if capacity is None else min(capacity, left)
    known = "" if total is None else f" of {total:,}"
    return f"step {step:,}{known}" + (f", the buffer holds {held:,} rows" if held is not None else "")


def _repeat(here: Here) -> str:
    return f"repetition {here.own[0]:,}"


def _branch(here: Here) -> str:
    return f"dataset {here.own[0]:,}"


def _mixture(here: Here) -> str:
    ended = here.own[0]
    return f"at their end: {', '.join(f'dataset {number}' for number in ended)}" if ended else ""


_WORDS: dict[str, Callable[[Here], str]] = {
    "shuffle": _shuffle,
    "repeat": _repeat,
    "concatenate": _branch,
    "sample_from_datasets": _mixture,
    "mix": _mixture,
}
"""What the own mark of an operation says."""
