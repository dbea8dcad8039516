"""States: the position of a pass in a few bytes of JSON, and whether a state belongs to a plan."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from headrace.core.keys import Seed, globally_seeded, mix_key
from headrace.core.types import JsonObject, JsonValue
from headrace.errors import StateError
from headrace.plan.capabilities import share_of_process
from headrace.plan.marks import Marks, from_json, is_count, to_json
from headrace.plan.node import Node, exact_text, fields_of, rebuild, shown_values, walk
from headrace.plan.spec import Spec

VERSION = 2
_MAX_LINE_LENGTH = 120


def description(plan: Node) -> list[str]:
    """Return the lines that must agree between the saved and the restored plan, one per node, inputs first."""
    return [_line(node) for node in walk(plan) if not node.transparent]


_LASTING = (Node, Seed, Spec, int, float, str, type(None))
"""Kinds of parameters whose text never changes, as that of files does. Others say so by `lasting_text`."""
_labels: WeakKeyDictionary[Node, list[tuple[str, object]]] = WeakKeyDictionary()
"""The parameters of each node: those whose text lasts as text, the others by name. Every pass has a first `state()`."""


def _line(node: Node) -> str:
    text = _label(node)
    if len(text) <= _MAX_LINE_LENGTH:
        return text
    import hashlib

    return f"{node.operation}(#{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()})"


def _label(node: Node) -> str:
    """Return the node's label for a state; what cannot have changed is not asked again."""
    if type(node).label is not Node.label:
        return node.label(for_state=True)
    parts = _labels.get(node)
    if parts is None:
        parts = _labels[node] = [
            (exact_text(f.name, value), None) if _lasts(value) else (f.name, value) for f, value in shown_values(node)
        ]
    shown = [text if value is None else exact_text(text, value) for text, value in parts]
    return f"{node.operation}({', '.join(filter(None, shown))})"


def _lasts(value: object) -> bool:
    return isinstance(value, _LASTING) or callable(value) or getattr(type(value), "lasting_text", False)


def _seed_fields(node: Node) -> list[str]:
    return [name for name in fields_of(type(node), "Seed") if isinstance(getattr(node, name), Seed)]


def drawn_seeds(plan: Node) -> list[int]:
    """Return the seeds that the user did not set, in the order of the plan."""
    seeds = [getattr(node, name) for node in walk(plan) for name in _seed_fields(node)]
    return [seed.value for seed in seeds if not seed.explicit]


def seeds_drawn_by(node: Node) -> int:
    """How many seeds of a node the user did not set."""
    return sum(not getattr(node, name).explicit for name in _seed_fields(node))


def first_unseeded(plan: Node) -> str | None:
    """Return the first operation without a seed set by the user, or None."""
    return next((n.operation for n in walk(plan) for name in _seed_fields(n) if not getattr(n, name).explicit), None)


def require_seeds(plan: Node, why: str) -> None:
    """Raise if the plan has unset seeds, because each process would draw another order."""
    drawn = first_unseeded(plan)
    if drawn and not globally_seeded():
        raise ValueError(
            f"{why}, so {drawn} needs a seed that is the same in all of them: {drawn}(…, seed=1), or hr.set_random_seed"
        )


def with_seeds(plan: Node, seeds: list[int]) -> Node:
    """Return the plan with the drawn seeds of another run."""
    if seeds == drawn_seeds(plan):
        return plan
    rest = iter(seeds)

    def change(node: Node) -> Node:
        new: JsonObject = {
            name: Seed(next(rest), explicit=False) for name in _seed_fields(node) if not getattr(node, name).explicit
        }
        return replace(node, **new) if new else node

    return rebuild(plan, change)


def with_keyed_seeds(plan: Node, key: int) -> Node:
    """Return a nested plan whose unset seeds are drawn from `key`, so that another process draws the same ones.

    Seeds below a cache stay, because its rows outlive the pass.
    """
    counter = iter(range(sys.maxsize))

    def change(node: Node) -> Node:
        if node.outlives:
            return node
        inputs = tuple(change(child) for child in node.inputs)
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            node = node.with_inputs(inputs)
        drawn = [name for name in _seed_fields(node) if not getattr(node, name).explicit]
        new: JsonObject = {name: Seed(mix_key(key, next(counter)) >> 1, explicit=False) for name in drawn}
        return replace(node, **new) if new else node

    return change(plan)


def process_of(plan: Node) -> tuple[int, int, int] | None:
    """If a plan's rows are the share of one process, return its index, the number of processes, and its elements per
    step.
    """
    return next((share for node in walk(plan) if (share := share_of_process(node)) is not None), None)


class Described(NamedTuple):
    """The parts of a state that are the same everywhere in a pass over `plan`.

    `lines` is the plan's description, `seeds` are those the user did not set, `functions` are digests of functions and
    data, `process` says whose share it is, and `mixtures` are the weights that mixtures had so far.
    """

    plan: Node
    lines: list[str]
    seeds: list[int]
    functions: JsonObject
    process: tuple[int, int, int] | None
    mixtures: tuple[JsonObject, ...] = ()


def make_state(
    about: Described, epoch: int, delivered: int, marks: Marks, *, over: bool, sizes: dict[str, int]
) -> JsonObject:
    """Return the state of a pass. `sizes` are those that were chosen while running and change the order."""
    functions, process = about.functions, about.process
    state: JsonObject = {
        "headrace": VERSION,
        "plan": about.lines,
        **({"functions": {**functions, "digests": dict(functions["digests"])}} if functions else {}),
        "seeds": list(about.seeds),
        **({"sizes": dict(sizes)} if sizes else {}),
        **({"process": list(process)} if process else {}),
        **({"mixtures": list(about.mixtures)} if about.mixtures else {}),
        "epoch": epoch,
        "delivered": delivered,
        "over": over,
        "marks": {} if over else to_json(marks),
    }
    state["crc"] = _checksum(state)
    return state


def packed(state: JsonObject) -> JsonObject:
    """A state as a dict of one string: checkpoints that load by a template need the same keys at every position."""
    return {"headrace": _ENCODER.encode(state)}


def opened(state: JsonValue) -> JsonValue:
    """Return the state that `packed` packed; any other state unchanged."""
    if isinstance(state, dict) and isinstance(text := state.get("headrace"), str):
        try:
            return json.loads(text)
        except ValueError:
            raise StateError(f"not a state of a headrace iterator: {text[:80]!r}") from None
    return state


def sealed(state: JsonObject) -> JsonObject:
    """Return a state with its checksum."""
    state = {name: part for name, part in state.items() if name != "crc"}
    return {**state, "crc": _checksum(state)}


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _checksum(state: JsonObject) -> int:
    return zlib.crc32(_ENCODER.encode(state).encode())


_FORM: dict[str, Callable[[Any], bool]] = {
    "plan": lambda value: isinstance(value, list) and all(isinstance(line, str) for line in value),
    "seeds": lambda value: isinstance(value, list) and all(map(is_count, value)),
    "sizes": lambda value: value is None or (isinstance(value, dict) and all(map(is_count, value.values()))),
    "process": lambda value: (
        value is None or (isinstance(value, list) and len(value) == 3 and all(map(is_count, value)))
    ),
    "exclude": lambda value: value is None or (isinstance(value, list) and all(map(is_count, value))),
    "mixtures": lambda value: value is None or isinstance(value, list),
    "epoch": is_count,
    "delivered": is_count,
    "over": lambda value: isinstance(value, bool),
    "marks": lambda value: isinstance(value, dict),
}
"""The expected type of each part of a state: a correct checksum does not prove that the state is ours."""


def check(state: JsonValue, plan: Node) -> None:
    """Raise if a state is damaged, of another version, or of another plan, and say what differs."""
    check_form(state)
    check_agrees(state, description(plan))
    if len(state["seeds"]) != len(drawn_seeds(plan)):
        raise StateError("the state belongs to another pipeline: other operations draw their own seeds")


def check_form(state: object) -> None:
    """Raise if a state is damaged, or of another version."""
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
        raise StateError(f"the state is not one of headrace's: its {wrong} is {str(state.get(wrong))[:80]!r}")


def check_agrees(state: JsonObject, here: list[str]) -> None:
    """Raise if the state is of another plan than the one described."""
    saved = state["plan"]
    for i in range(max(len(saved), len(here))):
        was = saved[i] if i < len(saved) else "missing (the pipeline ended before)"
        now = here[i] if i < len(here) else "missing (the pipeline ends before)"
        if was != now:
            raise StateError(f"the state belongs to another pipeline: operation {i + 1} was {was}, here it is {now}")


def saved_marks(state: JsonObject) -> Marks:
    """Return the positions of a state."""
    return from_json(state["marks"])
