"""Analyze a function's code: a digest that outlives the process, the names it reads, and what it changes."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
LOOKUPS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
CONTAINERS = {"STORE_SUBSCR": 1, "DELETE_SUBSCR": 1, "STORE_SLICE": 2}
"""Instructions that change a container, and how many values are above it on the stack."""
CHANGING_METHODS = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "fill", "insert",
    "intersection_update", "itemset", "move_to_end", "partition", "pop", "popitem", "popleft", "put", "put_nowait",
    "remove", "resize", "reverse", "rotate", "setdefault", "setflags", "sort", "subtract",
    "symmetric_difference_update", "update", "write", "writelines", "__setitem__", "__delitem__",
})  # fmt: skip
CHANGING_CALLS = frozenset({
    "copyto", "fill_diagonal", "heapify", "heappop", "heappush", "heappushpop", "heapreplace", "insort", "insort_left",
    "insort_right", "out", "pack_into", "place", "put", "put_along_axis", "putmask", "readinto", "readinto1",
    "recv_into", "setitem", "shuffle",
})  # fmt: skip
"""Functions and arguments through which something that was handed over is changed."""


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


@lru_cache(1024)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Return the instructions of a function, without those of functions within it."""
    return tuple(dis.get_instructions(code))


def global_names(code: CodeType) -> set[str]:
    """Return the names of globals and builtins that the function, and functions within it, look up."""
    return {
        str(instruction.argval)
        for part in codes(code)
        for instruction in instructions(part)
        if instruction.opname == "LOAD_GLOBAL"
    }


def attribute_names(code: CodeType) -> frozenset[str]:
    """Return the names of all attributes and globals that the function, and functions within it, could look up."""
    return frozenset(name for part in codes(code) for name in part.co_names)


@lru_cache(1024)
def dotted_names(code: CodeType) -> frozenset[tuple[str, ...]]:
    """Return what is looked up in globals and the closure, as far as dots lead: `("np", "linalg", "norm")`."""
    found = set()
    for part in codes(code):
        steps = instructions(part)
        for i, step in enumerate(steps):
            if step.opname in LOOKUPS:
                found.add((str(step.argval), *_dots(steps, i + 1)))
    return frozenset(found)


class Use(NamedTuple):
    """How a function uses a variable from outside: the attributes and keys that it asks for, or the `whole` of it."""

    attributes: frozenset[str]
    keys: frozenset[Any]
    whole: bool


@lru_cache(1024)
def uses(code: CodeType) -> dict[str, Use]:
    """Return how the function, and functions within it, use each variable that is not their own."""
    found: dict[str, tuple[set[str], set[Any], list[bool]]] = {}
    for part in codes(code):
        steps = instructions(part)
        for i, step in enumerate(steps):
            if step.opname not in LOOKUPS:
                continue
            attributes, keys, whole = found.setdefault(str(step.argval), (set(), set(), []))
            after = steps[i + 1 : i + 3]
            if after and after[0].opname in ATTRIBUTES:
                attributes.add(str(after[0].argval))
            elif len(after) == 2 and after[0].opname in CONSTANTS and _is_subscript(after[1]):
                keys.add(after[0].argval)
            else:
                whole.append(True)
    return {name: Use(frozenset(a), frozenset(k), bool(w)) for name, (a, k, w) in found.items()}


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


def _dots(steps: tuple[dis.Instruction, ...], start: int) -> list[str]:
    names = []
    for step in steps[start:]:
        if step.opname not in ATTRIBUTES:
            break
        names.append(str(step.argval))
    return names


def facts(code: CodeType) -> object:
    """Return all that decides what the code does: neither lines, files and names of variables nor its docstring."""
    return (
        [_step(step) for step in instructions(code) if step.opname != "EXTENDED_ARG"],
        code.co_names,
        code.co_exceptiontable,
        code.co_flags & FLAGS,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
    )


def _step(step: dis.Instruction) -> object:
    """Return an instruction with the constant itself in place of its number, which a docstring moves."""
    return step.opcode, _constant(step.argval) if step.opcode in dis.hasconst else step.arg


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return facts(value)
    if isinstance(value, frozenset):
        return sorted(repr(_constant(item)) for item in value)
    if isinstance(value, tuple):
        return tuple(_constant(item) for item in value)
    return type(value).__name__, repr(value)


@dataclass(frozen=True)
class Changes:
    """The effects of code: outer variables by name, attributes by name, its own arguments."""

    names: frozenset[str] = field(default=frozenset())
    attributes: frozenset[str] = field(default=frozenset())
    arguments: bool = False
    anything: bool = False
    """Unknown: anything mutable may be changed."""


@lru_cache(1024)
def changes(code: CodeType) -> Changes:
    """Return what a function, and functions within it, change of what they find."""
    parts = [_changes(part) for part in codes(code)]
    return Changes(
        frozenset().union(*(p.names for p in parts)),
        frozenset().union(*(p.attributes for p in parts)),
        any(p.arguments for p in parts),
        any(p.anything for p in parts),
    )


def _changes(code: CodeType) -> Changes:
    steps = instructions(code)
    names: set[str] = set()
    attributes: set[str] = set()
    known = _known_by(steps)
    arguments = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    hands_in = False
    anything = bool(CHANGING_CALLS.intersection(code.co_names)) or _passes_out(code)
    for i, step in enumerate(steps):
        if step.opname in ("STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL"):
            names.add(str(step.argval))
        elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
            attributes.add(str(step.argval))
        elif step.opname in CONTAINERS or (step.opname in ATTRIBUTES and step.argval in CHANGING_METHODS):
            owner = _owner(steps, i)
            if owner is None:
                anything = True
                continue
            name, dots = owner
            name, before = known.get(name, (name, []))
            if before or dots:
                attributes.update(before, dots)
            elif name in arguments:
                hands_in = True
            else:
                names.add(name)
    return Changes(frozenset(names), frozenset(attributes), hands_in, anything)


def _passes_out(code: CodeType) -> bool:
    """Return whether something is handed over as `out=`."""
    return any(isinstance(names, tuple) and "out" in names for names in code.co_consts)


def _known_by(steps: tuple[dis.Instruction, ...]) -> dict[str, tuple[str, list[str]]]:
    """Local variables that are other names for what comes from outside, and for what of it."""
    found: dict[str, tuple[str, list[str]]] = {}
    for i, step in enumerate(steps):
        if step.opname in LOOKUPS:
            dots = _dots(steps, i + 1)
            after = steps[i + 1 + len(dots)] if i + 1 + len(dots) < len(steps) else step
            if after.opname == "STORE_FAST":
                found[str(after.argval)] = (str(step.argval), dots)
    return found


def _owner(steps: tuple[dis.Instruction, ...], i: int) -> tuple[str, list[str]] | None:
    """Return the variable and attributes that instruction i changes; ("", []) if it is none, None if unknown."""
    depth = CONTAINERS.get(steps[i].opname, 0)
    if steps[i].opname in CONTAINERS and i and steps[i - 1].opname == "SWAP":  # x[i] += 1: as it was before the copies
        copies = (j for j in range(i - 1, 0, -1) if steps[j].opname == steps[j - 1].opname == "COPY")
        i = next(copies, 0) - 1
        if i < 0:
            return None
    height = 0
    for j in range(i - 1, -1, -1):
        step = steps[j]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        height += dis.stack_effect(step.opcode, step.arg, jump=False)
        if height > depth:
            return _variable(steps, j, height - depth - 1, i)
    return None


def _variable(steps: tuple[dis.Instruction, ...], j: int, which: int, end: int) -> tuple[str, list[str]]:
    step = steps[j]
    if step.opname not in LOOKUPS and not step.opname.startswith("LOAD_FAST"):
        return "", []
    name = step.argval[which] if isinstance(step.argval, tuple) else step.argval
    dots = _dots(steps[:end], j + 1)
    return str(name), dots
