"""Detect whether the functions and data of a plan changed since a state was taken or rows were stored."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from weakref import WeakKeyDictionary, WeakSet

from headrace.core.types import AnyFunction, JsonObject
from headrace.errors import ChangeWarning, StateError, warn_once
from headrace.execute.registry import opening
from headrace.identity.digests import PYTHON, digest_difference
from headrace.identity.looker import Looker
from headrace.identity.nondeterminism import nondeterminism
from headrace.identity.values import SAMPLES
from headrace.plan.capabilities import contents_of
from headrace.plan.node import Node, function_name, stack_level

PACKAGE = __name__.partition(".")[0]

_sampled: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def described_nodes(plan: Node, *, implied: bool = False) -> Iterator[tuple[Node, bool]]:
    """Yield the nodes that a description has lines for, and whether another node's line already covers each."""
    for child in plan.inputs:
        yield from described_nodes(child, implied=implied or plan.tells_inputs)
    if not plan.transparent:
        yield plan, implied


def digests(plan: Node) -> JsonObject:
    """Return digests of the plan's functions and data as JSON values, of large data by samples; empty if there are
    none.
    """
    looker = Looker(SAMPLES)
    found: dict[str, str] = {}
    for number, (node, implied) in enumerate(described_nodes(plan)):
        if not implied and contents_of(node):
            if node not in _sampled:
                _sampled[node] = str(looker.digest(contents_of(node)))
            found[str(number)] = _sampled[node]
    return {"python": PYTHON, "digests": found} if found else {}


_searched: WeakSet[Node] = WeakSet()


def warn_of_unkeyed_draws(plan: Node) -> None:
    """Warn about functions that give other elements after a resume because they draw random numbers or read a clock."""
    for node, _ in described_nodes(plan):
        if node in _searched:
            continue
        _searched.add(node)
        for fn in filter(callable, contents_of(node)):
            what = nondeterminism(fn)
            if what is not None:
                where = place(fn) or node.site
                warn_once(
                    ("unkeyed draw", where, what),
                    f"{function_name(_innermost(fn))} ({where}), a function of {node.operation}, uses {what}: a pass "
                    f"that is resumed from this state gives other elements. {_keyed(node)}",
                )


def _keyed(node: Node) -> str:
    if opening(type(node)).calls:
        return "random_map gives a function a generator whose draws are the same after a resume"
    return "Seed what it draws from by its arguments; for draws in an element's function there is random_map"


def compare(saved: JsonObject, plan: Node, policy: str | None) -> None:
    """Warn, or raise, if a state was taken with other functions or other data."""
    if not saved or policy == "ignore":
        return
    try:
        changed = _describe_changes(saved["digests"], plan, same_python=saved["python"] == PYTHON)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"the state is damaged: its digests of functions cannot be read: {error!r}") from None
    if changed:
        text = "the state was taken with " + "; with ".join(changed)
        if policy == "raise":
            raise StateError(text)
        warnings.warn(
            f'{text}. The elements may differ (hr.Options(on_change="raise") refuses this, "ignore" says nothing)',
            ChangeWarning,
            stacklevel=stack_level(),
        )


def _is_own_function(fn: object) -> bool:
    """Return whether this is a function of this package that holds nothing of the user's.

    Its code, and what the code refers to, differs between versions that give equal rows.
    """
    return isinstance(fn, FunctionType) and fn.__closure__ is None and str(fn.__module__).partition(".")[0] == PACKAGE


def _describe_changes(saved: dict[str, str], plan: Node, *, same_python: bool) -> list[str]:
    here = digests(plan).get("digests", {})
    found = []
    for number, (node, _) in enumerate(described_nodes(plan)):
        was, now = saved.get(str(number)), here.get(str(number))
        if was is None or now is None or all(map(_is_own_function, contents_of(node))):
            continue
        what = digest_difference(was, now, same_python=same_python)
        if what is not None:
            found.append(_line(number, node, what))
    return found


def _line(number: int, node: Node, what: str) -> str:
    functions = [value for value in contents_of(node) if callable(value)]
    if not functions:
        return f"other data in operation {number + 1}, {node.operation} ({node.site})"
    names = " or ".join(f"{function_name(_innermost(fn))} ({place(fn) or node.site})" for fn in functions)
    return f"another {names} in operation {number + 1}, {node.operation}: {what} has changed"


def _innermost(fn: Callable[..., object]) -> AnyFunction:
    while isinstance(fn, partial):
        fn = fn.func
    return fn


def place(fn: Callable[..., object]) -> str | None:
    """Return the file and line of a function, method or object's `__call__`; None if it has none."""
    fn = _innermost(fn)
    call = vars(type(fn)).get("__call__") if not hasattr(fn, "__code__") else None
    code = getattr(call or getattr(fn, "__func__", fn), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
