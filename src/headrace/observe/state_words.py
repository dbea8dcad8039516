"""A state in words: which epoch, where each operation stands, what a shuffle holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from headrace.execute.state import check_form


def state_lines(state: dict[str, Any]) -> list[str]:
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


def _positions(state: dict[str, Any]) -> Iterator[str]:
    for number, label in enumerate(state["plan"]):
        yield f"  {label}: {_position(label, state['marks'].get(str(number)), over=state['over'])}"


def _position(label: str, position: Any, *, over: bool) -> str:
    if over:
        return "at its end"
    if position is None:
        return "found from the operations after it"
    if isinstance(position, int):
        return f"at row {position:,}"
    ordinal, offset, *rest = position
    row = f"at row {ordinal:,}" + (f", {offset:,} rows of which are read again" if offset else "")
    own = rest[0] if rest else None
    said = _own(label, own)
    return f"{row}; {said}" if said else row


def _own(label: str, own: Any) -> str:
    operation = label.partition("(")[0]
    if not isinstance(own, list) or not own or operation not in _WORDS:
        return "" if own is None else f"its own position is {own}"
    try:
        return _WORDS[operation](label, own)
    except (LookupError, TypeError, ValueError):
        return f"its own position is {own}"


def _shuffle(label: str, own: list[Any]) -> str:
    step, total = own
    size = re.search(r"buffer_size=(\d+)", label)
    capacity = int(size[1]) if size else None
    left = None if total is None else max(0, total - step)
    held = capacity if left is None else left if capacity is None else min(capacity, left)
    known = "" if total is None else f" of {total:,}"
    return f"step {step:,}{known}" + (f", the buffer holds {held:,} rows" if held is not None else "")


def _repeat(_label: str, own: list[Any]) -> str:
    return f"repetition {own[0]:,}"


def _branch(_label: str, own: list[Any]) -> str:
    return f"dataset {own[0]:,}"


_WORDS: dict[str, Callable[[str, list[Any]], str]] = {"shuffle": _shuffle, "repeat": _repeat, "concatenate": _branch}
"""What the own mark of an operation says."""
