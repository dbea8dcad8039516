"""Checks of users' arguments, with errors that say what was wrong."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Literal, get_args

from headrace.core.types import AnyFunction, UserFunction
from headrace.options import AUTOTUNE
from headrace.plan.node import function_name
from headrace.plan.spec import Spec
from headrace.trace.binding import bind
from headrace.trace.function import Function
from headrace.trace.mixed_text import check_comparisons


def integer(name: str, value: object) -> int:
    """Return an integer of Python's or NumPy's as an int."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    return int(value.__index__())


MAX_OPEN_DATASETS = 1 << 24  # each takes a slot of memory from the start


def positive(name: str, value: object, *, most: int | None = None) -> int:
    """Return an integer of at least 1, and at most `most`."""
    number = integer(name, value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, not {number}")
    return number


def width(num_parallel_calls: int | None) -> int | None:
    """Return how many calls may run at a time, or AUTOTUNE; None for one at a time, in the caller's thread."""
    if num_parallel_calls is None:
        return None
    if num_parallel_calls == AUTOTUNE:
        return AUTOTUNE
    return positive("num_parallel_calls", num_parallel_calls)


Mode = Literal["auto", "vectorized", "eager", "process"]
"""How a user's function is called: see `map`."""


def one_of(name: str, value: object, known: object) -> None:
    """Raise ValueError unless the value is one of a Literal's."""
    if value not in get_args(known):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(known)))}, not {value!r}")


def execution(mode: Mode, *, synchronous: bool = False) -> Mode:
    """Check the mode in which a user's function is called."""
    one_of("mode", mode, Mode)
    if mode == "process" and synchronous:
        raise ValueError(
            'synchronous=True keeps the calls in the consumer\'s thread, mode="process" in other processes'
        )
    return mode


def _takes(fn: object, count: int) -> bool:
    """Return whether a function can certainly be called with `count` arguments."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
        return False
    code = fn.__code__
    least = code.co_argcount - len(fn.__defaults__ or ())
    return least <= count <= code.co_argcount and len(fn.__kwdefaults__ or ()) == code.co_kwonlyargcount


def bound_function(operation: str, fn: object, argument: str = "a function") -> AnyFunction:
    """Check that something is callable, and bind it to the present values of its variables."""
    if not callable(fn):
        raise TypeError(f"{operation} takes {argument}, not {fn!r}")
    return bind(fn, operation)


def function(operation: str, fn: UserFunction, spec: Spec, *, and_a: str = "", mode: Mode = "auto") -> AnyFunction:
    """Check that a callable takes one argument for each component of an element, and one more if `and_a` names it.

    A function that is traced must not compare bytes with str.
    """
    fn = bound_function(operation, fn)
    if mode in ("auto", "vectorized"):
        Function(fn, mode, draws=bool(and_a)).check_text(spec)
    check_comparisons(fn, spec)
    if spec.structure is None:
        return fn
    count = len(spec.structure.children) if spec.structure.unpacks else 1
    if _takes(fn, count + bool(and_a)):
        return fn
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some C functions have no signature
        return fn
    try:
        signature.bind(*range(count + bool(and_a)))
    except TypeError as error:
        remedy = "; random_map passes a generator" if "'rng'" in str(error) and not and_a else ""
        raise TypeError(
            f"{operation}: {function_name(fn)}{signature} cannot be called with the {count} "
            f"component{'s' * (count != 1)} of an element, {spec}{and_a and ', and a ' + and_a}: {error}{remedy}"
        ) from None
    return fn
