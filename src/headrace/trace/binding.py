"""Bind a user's function to the present values of its variables, as if it were traced at once."""

from __future__ import annotations

import builtins
import enum
import functools
import re
import warnings
from collections.abc import Iterator
from datetime import date, time, timedelta
from fractions import Fraction
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

import numpy as np

from headrace.core.types import Component, UserFunction
from headrace.errors import ChangeWarning
from headrace.identity.classes import is_library
from headrace.identity.code import codes, instructions
from headrace.plan.bound import MODULE, ORIGINALS
from headrace.plan.node import function_name, stack_level
from headrace.trace.values import Traced

FIXED = (
    bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), np.dtype, np.generic, enum.Enum, date, time,
    timedelta, Fraction, PurePath, re.Pattern, ModuleType, functools.partial,
)  # fmt: skip
"""Types that a function is bound to: immutable ones, and functions. Other objects may be meant to be replaced."""
MODULE_NAMES = ("__builtins__", "__name__", "__package__", "__spec__", "__file__", "__path__", "__loader__")
DYNAMIC_NAMES = {"globals", "eval", "exec", "vars", "locals"}
Scope = dict[str, Component]


def bind(fn: UserFunction, operation: str = "map") -> UserFunction:
    """Return the function with its closure and the globals that it reads as they are now, as in tf.data.

    Helper functions of the user's that it calls are bound, too. Variables that one of them assigns stay live. So do
    globals that are mutable objects; if one of these is assigned again, a warning names it.
    """
    if type(fn) is functools.partial:
        inner = bind(fn.func, operation)
        return fn if inner is fn.func else functools.partial(inner, *fn.args, **fn.keywords)
    if type(fn) is MethodType:
        inner = bind(fn.__func__, operation)
        return fn if inner is fn.__func__ else MethodType(inner, fn.__self__)
    if not isinstance(fn, FunctionType) or not _may_need_binding(fn):
        return fn
    return _Binding(fn, operation).copy_of(fn)


class BoundGlobals(Scope):
    """The globals of a bound function: those that are bound, and those of its module for names that stay live."""

    def __init__(self, module: Scope, watched: Scope, reader: str) -> None:
        super().__init__()
        self.module = module
        self._watched = watched
        self._reader = reader

    def __missing__(self, name: str) -> Traced:
        value = self.module[name]
        if name in self._watched and self._watched[name] is not value:
            self._watched.pop(name, None)
            warnings.warn(
                f"the global {name}, of class {type(value).__name__}, was assigned anew after {self._reader}, which "
                f"uses it: from now on the function uses the new one, while tf.data would keep the old one. To keep "
                f"it, give the function a default argument ({name}={name})",
                ChangeWarning,
                stacklevel=stack_level(),
            )
        return value

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.module

    def get(self, name: str, default: object = None) -> Traced:
        """Return what a name stands for now; no warning if that is not what it stood for."""
        return super().get(name, default) if super().__contains__(name) else self.module.get(name, default)


class _Outside(NamedTuple):
    """The module variables that code reads and assigns; `dynamic` if the code alone does not determine them."""

    read: frozenset[str]
    written: frozenset[str]
    dynamic: bool


class _Binding:
    """Copies of a function and of the user's functions that it calls, which share what was bound."""

    def __init__(self, fn: FunctionType, operation: str) -> None:
        self._reader = f"{operation}({function_name(fn)})"
        self._functions = _reachable(fn)
        self._copies: dict[int, FunctionType] = {}
        self._scopes: dict[int, Scope] = {}
        self._cells: dict[int, CellType] = {
            id(cell): cell
            for each in self._functions
            for variable, cell in zip(each.__code__.co_freevars, each.__closure__ or (), strict=True)
            if variable in _written_variables(each.__code__)
        }
        self._written = {
            (id(each.__globals__), name) for each in self._functions for name in _outside(each.__code__).written
        }
        self._changing = self._find_changing()

    def _find_changing(self) -> set[int]:
        """Return the functions that read what may be assigned again, themselves or by way of others."""
        found = {id(fn) for fn in self._functions if fn.__closure__ or self._reads_variables(fn)}
        more = True
        while more:
            callers = {id(fn) for fn in self._functions if any(id(other) in found for other in _called(fn))}
            more = not callers <= found
            found |= callers
        return found

    def _reads_variables(self, fn: FunctionType) -> bool:
        if not _binds_globals(fn):
            return False
        module = fn.__globals__
        names = [n for n in _outside(fn.__code__).read if n in module and (id(module), n) not in self._written]
        return any(_is_variable(name, module[name]) for name in names)

    def copy_of(self, fn: FunctionType) -> FunctionType:
        """Return the bound copy of a function; the function itself if it reads nothing that may change."""
        if id(fn) not in self._changing:
            return fn
        if id(fn) not in self._copies:
            scope = self._scope(fn.__globals__) if _binds_globals(fn) else fn.__globals__
            cells = tuple(map(self._cell, fn.__closure__ or ()))
            own = FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, cells if fn.__closure__ else None)
            own.__kwdefaults__ = fn.__kwdefaults__
            own.__qualname__ = fn.__qualname__
            own.__module__ = fn.__module__
            own.__doc__ = fn.__doc__
            own.__dict__ = fn.__dict__
            self._copies[id(fn)] = own
            ORIGINALS[own] = fn
            for cell, before in zip(cells, fn.__closure__ or (), strict=True):
                if cell is not before and isinstance(before.cell_contents, FunctionType):
                    cell.cell_contents = self.copy_of(before.cell_contents)
            self._fill(scope, fn)
        return self._copies[id(fn)]

    def _cell(self, cell: CellType) -> CellType:
        """Return a cell that keeps what the variable holds now; the same one if a function assigns it, or nothing is in
        it.
        """
        if id(cell) not in self._cells:
            try:
                self._cells[id(cell)] = CellType(cell.cell_contents)
            except ValueError:  # not assigned yet: a function that calls itself, or something defined below
                self._cells[id(cell)] = cell
        return self._cells[id(cell)]

    def _scope(self, module: Scope) -> Scope:
        """Return the globals of the copies of a module's functions, to be filled."""
        if id(module) not in self._scopes:
            names = {
                name
                for fn in self._functions
                if fn.__globals__ is module and _binds_globals(fn)
                for name in _outside(fn.__code__).read
            }
            watched = {
                name: module[name]
                for name in names
                if name in module and module[name] is not None and not _is_fixed(module[name])
            }
            for name in [name for name in watched if (id(module), name) in self._written]:
                del watched[name]
            live = [n for n in names if not self._is_bound(module, n) and (n in module or not hasattr(builtins, n))]
            made: Scope = BoundGlobals(module, watched, self._reader) if live else {}
            made.update({name: module[name] for name in MODULE_NAMES if name in module})
            made[MODULE] = module
            self._scopes[id(module)] = made
        return self._scopes[id(module)]

    def _is_bound(self, module: Scope, name: str) -> bool:
        return name in module and (id(module), name) not in self._written and _is_fixed(module[name])

    def _fill(self, scope: Scope, fn: FunctionType) -> None:
        module = fn.__globals__
        for name in _outside(fn.__code__).read if scope is not module else ():
            if self._is_bound(module, name):
                value = module[name]
                scope[name] = self.copy_of(value) if isinstance(value, FunctionType) else value


def _may_need_binding(fn: FunctionType) -> bool:
    """Return whether a function reads anything from outside but modules and builtins: most that come by the
    row do not.
    """
    if fn.__closure__:
        return True
    module = fn.__globals__
    names = _outside(fn.__code__).read if MODULE not in module else ()
    return any(name in module and not isinstance(module[name], ModuleType) for name in names)


def _binds_globals(fn: FunctionType) -> bool:
    """Return whether a function's globals are to be bound: not if it assigns some, which its module is to see."""
    outside = _outside(fn.__code__)
    return MODULE not in fn.__globals__ and not outside.written and not outside.dynamic and not is_library(fn.__code__)


def _reachable(fn: FunctionType) -> list[FunctionType]:
    """Return the function and the user's functions that it may call by their names, and so on."""
    found, waiting = {id(fn): fn}, [fn]
    while waiting:
        for other in _called(waiting.pop()):
            if id(other) not in found:
                found[id(other)] = other
                waiting.append(other)
    return list(found.values())


def _called(fn: FunctionType) -> Iterator[FunctionType]:
    """Yield the user's functions that a function finds under a name, in its module or in its closure."""
    module = fn.__globals__
    held = [module[name] for name in _outside(fn.__code__).read if name in module] if _binds_globals(fn) else []
    for cell in fn.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    yield from (value for value in held if type(value) is FunctionType and not is_library(value.__code__))


def _is_variable(name: str, value: object) -> bool:
    """Return whether a global may be assigned again: not modules, nor what has this name wherever it was defined."""
    if value is None or isinstance(value, ModuleType):
        return False
    if isinstance(value, type | BuiltinFunctionType | np.ufunc) or (
        isinstance(value, FunctionType) and is_library(value.__code__)
    ):
        return value.__name__ != name
    return True


def _is_fixed(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    kind = type(value)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    ours = kind.__module__.partition(".")[0] == "headrace"
    named = callable(value) and isinstance(getattr(value, "__name__", None), str)  # a function, however it was made
    return isinstance(value, FIXED) or hasattr(kind, "__array__") or frozen or ours or named


@functools.lru_cache(maxsize=1024)
def _outside(code: CodeType) -> _Outside:
    read: set[str] = set()
    written: set[str] = set()
    for part in codes(code):
        for step in instructions(part):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                read.add(str(step.argval))
            elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                written.add(str(step.argval))
    return _Outside(frozenset(read), frozenset(written), not read.isdisjoint(DYNAMIC_NAMES))


@functools.lru_cache(maxsize=1024)  # functions within functions come by the row
def _written_variables(code: CodeType) -> frozenset[str]:
    """Variables of enclosing functions that this code, or a function within it, assigns."""
    stores = ("STORE_DEREF", "DELETE_DEREF")
    found = {str(s.argval) for part in codes(code) for s in instructions(part) if s.opname in stores}
    return frozenset(found) & frozenset(code.co_freevars)
