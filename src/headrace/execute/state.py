"""States: where a pass stands, in a few bytes of JSON, and whether a state belongs to a plan."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.errors import StateError
from headrace.keys import Seed, globally_seeded, mix_key
from headrace.plan.capabilities import share_of_process
from headrace.plan.marks import Marks, from_json, is_count, to_json
from headrace.plan.node import Node, fields_of, rebuild, walk

VERSION = 2
_LONGEST = 120


def description(plan: Node) -> list[str]:
    """What must agree between the plan that was saved and the one that is restored, one line a node, inputs first."""
    return [_line(node) for node in walk(plan) if not node.transparent]


def _line(node: Node) -> str:
    text = node.label(for_state=True)
    if len(text) <= _LONGEST:
        return text
    import hashlib

    return f"{node.operation}(#{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()})"


def _seed_fields(node: Node) -> list[str]:
    return [name for name in fields_of(type(node), "Seed") if isinstance(getattr(node, name), Seed)]


def drawn_seeds(plan: Node) -> list[int]:
    """The seeds that nobody chose, in the order of the plan."""
    seeds = [getattr(node, name) for node in walk(plan) for name in _seed_fields(node)]
    return [seed.value for seed in seeds if not seed.explicit]


def first_unseeded(plan: Node) -> str | None:
    """The first operation whose seed nobody chose, None if there is none."""
    return next((n.operation for n in walk(plan) for name in _seed_fields(n) if not getattr(n, name).explicit), None)


def require_seeds(plan: Node, why: str) -> None:
    """Refuse a plan whose processes would each draw another order."""
    drawn = first_unseeded(plan)
    if drawn and not globally_seeded():
        raise ValueError(
            f"{why}, so {drawn} needs a seed that is the same in all of them: {drawn}(…, seed=1), or hr.set_random_seed"
        )


def with_seeds(plan: Node, seeds: list[int]) -> Node:
    """The plan with the drawn seeds of another run."""
    if seeds == drawn_seeds(plan):
        return plan
    rest = iter(seeds)

    def change(node: Node) -> Node:
        new: dict[str, Any] = {
            name: Seed(next(rest), explicit=False) for name in _seed_fields(node) if not getattr(node, name).explicit
        }
        return replace(node, **new) if new else node

    return rebuild(plan, change)


def with_keyed_seeds(plan: Node, key: int) -> Node:
    """A nested plan with the seeds that nobody chose drawn from `key`, so that another process finds the same ones.

    Below a cache they stay: its rows outlive the pass.
    """
    counter = iter(range(sys.maxsize))

    def change(node: Node) -> Node:
        if node.outlives:
            return node
        inputs = tuple(change(child) for child in node.inputs)
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            node = node.with_inputs(inputs)
        drawn = [name for name in _seed_fields(node) if not getattr(node, name).explicit]
        new: dict[str, Any] = {name: Seed(mix_key(key, next(counter)) >> 1, explicit=False) for name in drawn}
        return replace(node, **new) if new else node

    return change(plan)


def process_of(plan: Node) -> tuple[int, int, int] | None:
    """Where the rows of a plan are the share of one process: which, of how many, how many elements it has a step."""
    return next((share for node in walk(plan) if (share := share_of_process(node)) is not None), None)


class Described(NamedTuple):
    """The parts of a state that are the same everywhere in a pass over `plan`.

    `lines` is the plan's description, `seeds` are those that nobody chose; `functions` tells those of the plan, and its
    data, from others; `process` says whose share it is.
    """

    plan: Node
    lines: list[str]
    seeds: list[int]
    functions: dict[str, Any]
    process: tuple[int, int, int] | None


def make_state(
    about: Described, epoch: int, delivered: int, marks: Marks, *, over: bool, sizes: dict[str, int]
) -> dict[str, Any]:
    """The state of a pass; `sizes` are those that were chosen while running and change the order."""
    functions, process = about.functions, about.process
    state: dict[str, Any] = {
        "headrace": VERSION,
        "plan": about.lines,
        **({"functions": functions} if functions else {}),
        "seeds": list(about.seeds),
        **({"sizes": dict(sizes)} if sizes else {}),
        **({"process": list(process)} if process else {}),
        "epoch": epoch,
        "delivered": delivered,
        "over": over,
        "marks": {} if over else to_json(marks),
    }
    state["crc"] = _checksum(state)
    return state


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """A state with its checksum."""
    state = {name: part for name, part in state.items() if name != "crc"}
    return {**state, "crc": _checksum(state)}


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _checksum(state: dict[str, Any]) -> int:
    return zlib.crc32(_ENCODER.encode(state).encode())


_FORM: dict[str, Callable[[Any], bool]] = {
    "plan": lambda value: isinstance(value, list) and all(isinstance(line, str) for line in value),
    "seeds": lambda value: isinstance(value, list) and all(map(is_count, value)),
    "sizes": lambda value: value is None or (isinstance(value, dict) and all(map(is_count, value.values()))),
    "process": lambda value: (
        value is None or (isinstance(value, list) and len(value) == 3 and all(map(is_count, value)))
    ),
    "epoch": is_count,
    "delivered": is_count,
    "over": lambda value: isinstance(value, bool),
    "marks": lambda value: isinstance(value, dict),
}
"""What each part of a state looks like: a checksum that is right does not make it one of ours."""


def check(state: Any, plan: Node) -> None:
    """Refuse a state that is damaged, of another version, or of another plan, and say what differs."""
    check_form(state)
    check_agrees(state, description(plan))
    if len(state["seeds"]) != len(drawn_seeds(plan)):
        raise StateError("the state belongs to another pipeline: other operations draw their own seeds")


def check_form(state: Any) -> None:
    """Refuse a state that is damaged, or of another version."""
    if not isinstance(state, dict) or "headrace" not in state:
        raise StateError(f"not a state of a headrace iterator: {str(state)[:80]!r}")
    if state["headrace"] != VERSION:
        raise StateError(f"the state has format version {state['headrace']!r}, this headrace reads version {VERSION}")
    try:
        intact = state["crc"] == _checksum({k: v for k, v in state.items() if k != "crc"})
    except (KeyError, TypeError, ValueError):
        intact = False
    if not intact:
        raise StateError("the state is damaged: its checksum does not match")
    wrong = next((name for name, fits in _FORM.items() if not fits(state.get(name))), None)
    if wrong is not None:
        raise StateError(f"the state is none of headrace's: its {wrong} is {str(state.get(wrong))[:80]!r}")


def check_agrees(state: dict[str, Any], here: list[str]) -> None:
    """Refuse a state of another plan than the one described."""
    saved = state["plan"]
    for i in range(max(len(saved), len(here))):
        was = saved[i] if i < len(saved) else "nothing more"
        now = here[i] if i < len(here) else "nothing more"
        if was != now:
            raise StateError(f"the state belongs to another pipeline: operation {i + 1} was {was}, here it is {now}")


def saved_marks(state: dict[str, Any]) -> Marks:
    """Where the pass of a state stood."""
    return from_json(state["marks"])
