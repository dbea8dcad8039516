"""Copy a function for tracing: replace what it holds by symbols and by recording names."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from headrace.core.types import Attribute, Component
from headrace.identity.code import codes, global_names
from headrace.plan.node import function_name
from headrace.trace.errors import Untraceable
from headrace.trace.numpy_names import OPERATORS, Namespace, numpy_name
from headrace.trace.purity import decides, effect, pure_builtins
from headrace.trace.recorder import Recorder
from headrace.trace.values import KINDS, Operand, Traced

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.dtype)
Guard = Callable[[], bool]
MAX_ITEMS = 1000
"""Mutable containers are checked before every block: larger ones cost more than tracing saves."""


class Capture:
    """Make copies for one trace, and guards that check whether the names it read are unchanged."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.guards: list[Guard] = []
        self.decides: bool = False
        self._copies: dict[int, Any] = {}
        self._lists: list[tuple[str, list[Operand], list[Operand]]] = []

    def refuse(self, what: str) -> Untraceable:
        """End the trace before it has begun."""
        if self.recorder.failed is None:
            self.recorder.failed = what
        return Untraceable(self.recorder.failed)

    def callable(self, fn: object) -> Traced:
        """Return the copy of what was given to map."""
        ours = getattr(fn, "_headrace_constant", False) is True
        if ours or isinstance(fn, FunctionType | functools.partial | np.ufunc) or _of_numpy(fn):
            return self.value(fn, "the function")
        if isinstance(fn, MethodType):
            raise self.refuse(f"is a method: {type(fn.__self__).__name__} may change")
        if isinstance(fn, BuiltinFunctionType | type):
            if getattr(fn, "__name__", "") in pure_builtins():
                return fn
            raise self.refuse(f"{function_name(fn)} is not known to be without effects")
        raise self.refuse(f"is an object of class {type(fn).__name__}, which may change")

    def value(self, value: object, name: str) -> Traced:
        """Return what stands for a captured value in the copy."""
        known = self._copies.get(id(value))
        if known is None:
            known = self._substitute(value, name)
            self._copies[id(value)] = known
        return known

    def _substitute(self, value: object, name: str) -> Traced:
        if isinstance(value, (*PLAIN, enum.Enum)) or getattr(value, "_headrace_constant", False) is True:
            return value
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in KINDS:
            array = "an array of dtype " if isinstance(value, np.ndarray) else ""
            raise self.refuse(f"captures {name}, {array}{value.dtype}")
        if isinstance(value, np.generic):
            return self.recorder.constant(value)
        if isinstance(value, np.ndarray):
            return self.recorder.capture(value.view(np.ndarray) if type(value) is np.memmap else value)
        if type(value) in (tuple, frozenset, dict, list):
            return self._container(value, name)
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, functools.partial):
            named = {key: self.value(item, key) for key, item in value.keywords.items()}
            return functools.partial(self.value(value.func, name), *[self.value(a, name) for a in value.args], **named)
        if isinstance(value, np.ufunc) or _of_numpy(value):
            return numpy_name(self.recorder, value, name)
        if isinstance(value, type):
            return self._class(value, name)
        if isinstance(value, BuiltinFunctionType):
            if value.__module__ in ("math", "_operator") and value.__name__ in {*dir(math), *OPERATORS}:
                return value
            raise self.refuse(f"uses {name}, which is not known to be without effects")
        raise self.refuse(f"captures {name}, a {type(value).__name__}, which may change")

    def _container(self, value: Operand, name: str) -> Traced:
        if type(value) in (tuple, frozenset):
            return type(value)([self.value(item, name) for item in value])
        if len(value) > MAX_ITEMS:
            raise self.refuse(f"captures {name}, a {type(value).__name__} of {len(value):,} items, which may change")
        if type(value) is dict:
            self.guards.append(_same_items(value))
            return MappingProxyType({key: self.value(item, name) for key, item in value.items()})  # to be read only
        copy: list[Operand] = []
        self._copies[id(value)] = copy  # it may hold itself
        copy += [self.value(item, name) for item in value]
        self.guards.append(_same_list(value))
        self._lists.append((name, copy, copy.copy()))
        return copy

    def check_lists(self) -> None:
        """Refuse a function that has changed a list which is not its own: the trace changed a copy."""
        for name, copy, before in self._lists:
            if len(copy) != len(before) or any(a is not b for a, b in zip(copy, before, strict=True)):
                raise self.refuse(f"changes {name}, a list")

    def _module(self, module: ModuleType) -> Traced:
        if module is np or module.__name__ in ("numpy.linalg", "numpy.fft"):
            return Namespace(self.recorder, module)
        if module.__name__.partition(".")[0] == "numpy" or module.__name__ in ("random", "time", "secrets", "os"):
            raise self.refuse(f"uses the module {module.__name__}")
        return _Names(self, module)

    def _class(self, kind: type, name: str) -> type:
        """Classes of records may be made and taken apart, and errors raised; others do what they like."""
        if kind.__name__ in pure_builtins() and kind is pure_builtins()[kind.__name__]:
            return kind
        record = (
            issubclass(kind, BaseException)
            or dataclasses.is_dataclass(kind)
            or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        )
        if not record and not hasattr(kind, "__attrs_attrs__"):
            raise self.refuse(f"uses {name}, a class")
        self.check_class(kind)
        return kind

    def check_class(self, kind: type) -> None:
        """Methods of a record class run as they are: they must be without effects themselves."""
        for part in kind.__mro__:
            if part.__module__ in ("builtins", "typing", "collections", "abc"):
                continue
            for name, method in vars(part).items():
                fn = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
                if isinstance(fn, FunctionType) and fn.__code__.co_filename[0] != "<" and not _library(fn):
                    raise self.refuse(f"{kind.__name__}.{name} is code of the class")

    def _function(self, fn: FunctionType) -> Traced:
        if getattr(fn, "_headrace_operation", False):
            return fn
        if str(fn.__module__).partition(".")[0] == "numpy":  # code that was executed as text may have no module
            return numpy_name(self.recorder, fn, fn.__name__)
        what = effect(fn)
        if what is not None:
            raise self.refuse(what)
        code = fn.__code__
        self.decides = self.decides or any(map(decides, codes(code)))
        scope: dict[str, Component] = {"__builtins__": pure_builtins(), "__name__": fn.__module__}
        places = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(code, scope, fn.__name__, None, places)
        self._copies[id(fn)] = copy
        for variable, cell, place in zip(code.co_freevars, fn.__closure__ or (), places, strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:
                raise self.refuse(f"uses {variable} before it has a value") from None
            place.cell_contents = self.value(contents, variable)
            self.guards.append(_same_contents(cell, contents))
        for name in sorted(global_names(code)):
            if name in fn.__globals__:
                value = fn.__globals__[name]
                scope[name] = self.value(value, name)
                self.guards.append(_same_name(fn.__globals__, name, value))
            elif name not in scope["__builtins__"]:
                raise self.refuse(f"uses {name}(), which is not known to be without effects")
        copy.__defaults__ = (
            None if fn.__defaults__ is None else tuple(self.value(d, "a default") for d in fn.__defaults__)
        )
        if fn.__kwdefaults__:
            copy.__kwdefaults__ = {key: self.value(d, key) for key, d in fn.__kwdefaults__.items()}
        return copy


class _Names:
    """A user's module: its names as the traced function may see them."""

    def __init__(self, capture: Capture, module: ModuleType) -> None:
        self._capture = capture
        self._module = module

    def __getattr__(self, name: str) -> Attribute:
        value = getattr(self._module, name)
        self._capture.guards.append(_same_name(vars(self._module), name, value))
        try:
            return self._capture.value(value, f"{self._module.__name__}.{name}")
        except Untraceable as error:
            raise self._capture.recorder.refuse(error.reason) from None


_LIBRARY = Path(dataclasses.__file__).parent


def _library(fn: FunctionType) -> bool:
    """Return whether Python's own library wrote it, such as the `__repr__` of dataclasses."""
    path = Path(fn.__code__.co_filename)
    return _LIBRARY in path.parents and "site-packages" not in path.parts


def _of_numpy(value: object) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] == "numpy" and callable(value)


def _same_name(scope: dict[str, Component], name: str, value: object) -> Guard:
    return lambda: scope.get(name, scope) is value


def _same_items(given: dict[Any, Any]) -> Guard:
    keys, values = tuple(given), tuple(given.values())  # compared for every block: without a frame for each item

    def same() -> bool:
        if len(given) != len(keys):
            return False
        return all(map(operator.is_, tuple(given), keys)) and all(map(operator.is_, tuple(given.values()), values))

    return same


def _same_list(given: list[Operand]) -> Guard:
    before = given.copy()
    return lambda: len(given) == len(before) and all(map(operator.is_, given, before))


def _same_contents(cell: CellType, contents: object) -> Guard:
    def same() -> bool:
        try:
            return cell.cell_contents is contents
        except ValueError:
            return False

    return same
