"""Find the object in a function's closure that cannot be sent to another process."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import FunctionType, MethodType
from typing import Any

import cloudpickle

from headrace.plan.node import Node, function_name, walk

MAX_NESTING = 8
"""How many levels of nesting are named."""


def culprit(sent: object) -> str | None:
    """Return the path of names to the object that cannot be pickled, or None if it is unknown."""
    for owner, held in _parts(sent):
        if not _picklable(held):
            inner = _within(held, set(), MAX_NESTING)
            if inner is not None:
                return f"{owner}{inner}"
    return None


def _parts(sent: object) -> Iterator[tuple[str, Any]]:
    """Yield what users passed in: the functions and values of a call, or of the nodes of a pipeline."""
    plan = getattr(sent, "node", None)
    if isinstance(plan, Node):
        for node in walk(plan):
            for f in fields(node):
                value = getattr(node, f.name)
                if not isinstance(value, Node | tuple):
                    yield f"{node.operation} ({node.site}): ", value
    elif isinstance(sent, functools.partial):
        for argument in sent.args:
            yield "", argument
    else:
        yield "", sent


def _within(value: object, seen: set[int], depth: int) -> str | None:
    """Return a sentence about the innermost named object that cannot be pickled."""
    seen.add(id(value))
    for name, held in _contents(value):
        if id(held) in seen or _picklable(held):
            continue
        inner = _within(held, seen, depth - 1) if depth else None
        owner = f"{function_name(value)} uses" if callable(value) else f"{type(value).__name__} holds"
        return f"{owner} {name}, a {type(held).__name__}" + (f"; {inner}" if inner else "")
    return None


def _contents(value: object) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, by attribute or variable name."""
    if isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        for name in value.__code__.co_names:
            if name in value.__globals__:
                yield name, value.__globals__[name]
        defaults = value.__defaults__ or ()
        arguments = value.__code__.co_varnames[: value.__code__.co_argcount]
        yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, MethodType):
        yield f"{type(value.__self__).__name__}.{value.__name__}'s object", value.__self__
    elif isinstance(value, functools.partial):
        yield "its function", value.func
        yield from ((f"argument {i}", held) for i, held in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", held) for key, held in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{i}]", held) for i, held in enumerate(value))
    else:
        yield from ((f".{name}", held) for name, held in getattr(value, "__dict__", {}).items())


def _picklable(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True
