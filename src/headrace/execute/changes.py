"""Whether the functions and the data of a plan are those that a state was taken with, or stored rows were made by."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from headrace.errors import ChangeWarning, StateError
from headrace.identity.digests import PYTHON, digest_difference
from headrace.identity.looker import Looker
from headrace.identity.values import SAMPLES
from headrace.plan.node import Node, function_name, stack_level

_sampled: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def described_nodes(plan: Node, *, implied: bool = False) -> Iterator[tuple[Node, bool]]:
    """The nodes that a description has lines for, and whether another one's line tells already what they hold."""
    for child in plan.inputs:
        yield from described_nodes(child, implied=implied or plan.tells_inputs)
    if not plan.transparent:
        yield plan, implied


def digests(plan: Node) -> dict[str, Any]:
    """What tells its functions and data from others, large ones by samples, as JSON holds it; empty if it has none."""
    looker = Looker(SAMPLES)
    found: dict[str, str] = {}
    for number, (node, implied) in enumerate(described_nodes(plan)):
        if not implied and node.contents():
            if node not in _sampled:
                _sampled[node] = str(looker.digest(node.contents()))
            found[str(number)] = _sampled[node]
    return {"python": PYTHON, "digests": found} if found else {}


def compare(saved: dict[str, Any], plan: Node, policy: str | None) -> None:
    """Say, or refuse it, where a state was taken with other functions or other data."""
    if not saved or policy == "ignore":
        return
    try:
        changed = _describe_changes(saved["digests"], plan, same_python=saved["python"] == PYTHON)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"the state says nothing sensible of its functions: {error!r}") from None
    if changed:
        text = "the state was taken with " + "; with ".join(changed)
        if policy == "raise":
            raise StateError(text)
        warnings.warn(
            f'{text}. The elements may differ (hr.Options(on_change="raise") refuses this, "ignore" says nothing)',
            ChangeWarning,
            stacklevel=stack_level(),
        )


def _describe_changes(saved: dict[str, str], plan: Node, *, same_python: bool) -> list[str]:
    here = digests(plan).get("digests", {})
    found = []
    for number, (node, _) in enumerate(described_nodes(plan)):
        was, now = saved.get(str(number)), here.get(str(number))
        what = None if was is None or now is None else digest_difference(was, now, same_python=same_python)
        if what is not None:
            found.append(_line(number, node, what))
    return found


def _line(number: int, node: Node, what: str) -> str:
    functions = [value for value in node.contents() if callable(value)]
    if not functions:
        return f"other data in operation {number + 1}, {node.operation} ({node.site})"
    names = " or ".join(f"{function_name(_innermost(fn))} ({place(fn) or node.site})" for fn in functions)
    return f"another {names} in operation {number + 1}, {node.operation}: {what} has changed"


def _innermost(fn: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(fn, partial):
        fn = fn.func
    return fn


def place(fn: Callable[..., Any]) -> str | None:
    """The file and line of a function, of a method or of an object's `__call__`; None if it has none."""
    fn = _innermost(fn)
    call = vars(type(fn)).get("__call__") if not hasattr(fn, "__code__") else None
    code = getattr(call or getattr(fn, "__func__", fn), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
