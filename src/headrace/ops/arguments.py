"""Checks of what users pass, with errors that say what was wrong."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, Literal, get_args

from headrace.options import AUTOTUNE
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
    if num_parallel_calls is None:
        return None
    if num_parallel_calls == AUTOTUNE:
        return AUTOTUNE
    return positive("num_parallel_calls", num_parallel_calls)


Mode = Literal["auto", "vectorized", "eager", "process"]
"""How a user's function is called: see `map`."""


def one_of(name: str, value: Any, known: Any) -> None:
    """Refuse what is none of the values of a Literal."""
    if value not in get_args(known):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(known)))}, not {value!r}")


def execution(mode: Mode, *, synchronous: bool = False) -> Mode:
    """Where a user's function is called."""
    one_of("mode", mode, Mode)
    if mode == "process" and synchronous:
        raise ValueError(
            'synchronous=True keeps the calls in the consumer\'s thread, mode="process" in other processes'
        )
    return mode


def with_its_own_closure(fn: Any) -> Any:
    """The function with the closure's variables as they are now, as in tf.data; alive where it writes to them."""
    if not isinstance(fn, FunctionType) or not fn.__closure__:
        return fn
    written = _written_variables(fn.__code__)
    cells = []
    for variable, cell in zip(fn.__code__.co_freevars, fn.__closure__, strict=True):
        try:
            cells.append(cell if variable in written else CellType(cell.cell_contents))
        except ValueError:  # not assigned yet: a function that calls itself, or something defined below
            cells.append(cell)
    own = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells))
    own.__kwdefaults__ = fn.__kwdefaults__
    own.__qualname__ = fn.__qualname__
    own.__doc__ = fn.__doc__
    own.__dict__.update(fn.__dict__)
    return own


@lru_cache(maxsize=1024)  # functions within functions come by the row
def _written_variables(code: CodeType) -> frozenset[str]:
    """Variables of enclosing functions that this code, or a function within it, assigns."""
    stores = {"STORE_DEREF", "DELETE_DEREF"}
    found = frozenset(str(i.argval) for i in dis.get_instructions(code) if i.opname in stores)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _written_variables(constant)
    return found & frozenset(code.co_freevars)


def _takes(fn: Any, count: int) -> bool:
    """Whether it is plain that a function can be called with so many arguments."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
        return False
    code = fn.__code__
    least = code.co_argcount - len(fn.__defaults__ or ())
    return least <= count <= code.co_argcount and len(fn.__kwdefaults__ or ()) == code.co_kwonlyargcount


def function(operation: str, fn: Any, spec: Spec, *, and_a: str = "") -> Callable[..., Any]:
    """A callable that takes as many arguments as elements have components, `and_a` something more."""
    if not callable(fn):
        raise TypeError(f"{operation} takes a function, not {fn!r}")
    fn = with_its_own_closure(fn)
    if spec.structure is None:
        return fn  # type: ignore[no-any-return]
    count = len(spec.structure.children) if spec.structure.unpacks else 1
    if _takes(fn, count + bool(and_a)):
        return fn  # type: ignore[no-any-return]
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some C functions do not tell
        return fn  # type: ignore[no-any-return]
    try:
        signature.bind(*range(count + bool(and_a)))
    except TypeError as error:
        raise TypeError(
            f"{operation}: {function_name(fn)}{signature} cannot be called with the {count} "
            f"component{'s' * (count != 1)} of an element, {spec}{and_a and ', and a ' + and_a}: {error}"
        ) from None
    return fn  # type: ignore[no-any-return]
