"""Checks of what users pass, with errors that say what was wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.execute.context import AUTOTUNE
from headrace.plan.node import function_name
from headrace.plan.spec import Spec


def integer(name: str, value: Any) -> int:
    """An integer, of whichever kind."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    return int(value.__index__())


def positive(name: str, value: Any) -> int:
    """An integer of at least 1."""
    number = integer(name, value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number


def width(num_parallel_calls: int | None) -> int | None:
    """How many calls may run at a time, or AUTOTUNE; None for one at a time, in the caller's own thread."""
    if num_parallel_calls is None or num_parallel_calls == AUTOTUNE:
        return num_parallel_calls
    return positive("num_parallel_calls", num_parallel_calls)


def function(operation: str, fn: Any, spec: Spec) -> Callable[..., Any]:
    """A callable that takes as many arguments as elements have components."""
    if not callable(fn):
        raise TypeError(f"{operation} takes a function, not {fn!r}")
    if spec.structure is None:
        return fn  # type: ignore[no-any-return]
    count = len(spec.structure.children) if spec.structure.unpacks else 1
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some C functions do not tell
        return fn  # type: ignore[no-any-return]
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise TypeError(
            f"{operation}: {function_name(fn)}{signature} cannot be called with the {count} "
            f"component{'s' * (count != 1)} of an element, {spec}: {error}"
        ) from None
    return fn  # type: ignore[no-any-return]
