"""Looks at functions and objects, and at all that they lead to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from headrace.core.ragged import Ragged
from headrace.core.types import Component
from headrace.identity.classes import (
    MAKERS,
    SETTINGS,
    Reached,
    attributes_of,
    home_of,
    is_library,
    is_library_class,
    is_library_module,
    is_method,
    is_service,
    reachable_methods,
)
from headrace.identity.code import Use, attribute_names, changes, dotted_names, facts, uses
from headrace.identity.digests import Digest, hash_parts, join_digests, spelt
from headrace.identity.values import (
    CONTAINERS,
    EVERYTHING,
    PLAIN,
    Budget,
    by_type,
    container_digest,
    name_of,
    value_digest,
)
from headrace.plan.capabilities import contents_of
from headrace.plan.node import AnyNode, Node
from headrace.plan.spec import LeafSpec
from headrace.plan.structure import is_record

MAX_DEPTH = 60


class AskedNames(NamedTuple):
    """The context in which a value is used: the names that may be accessed on it, and the attributes that they change.

    `whole`: it may be used as it is; of a record all counts.
    """

    names: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    whole: bool = True


class Looker:
    """Digests values. `types` are the classes of records that were met on the way."""

    def __init__(self, budget: Budget = EVERYTHING) -> None:
        self.types: set[type] = set()
        self._budget = budget
        self._home = ""
        self._known: dict[tuple[int, AskedNames], tuple[Any, Digest]] = {}
        self._reached: dict[tuple[type, frozenset[str]], Reached] = {}
        self._open: set[int] = set()

    def digest(self, values: Iterable[object]) -> Digest:
        """Return the digest of these functions and data."""
        return join_digests("", [self._from_outside(value) for value in values])

    def _from_outside(self, value: object) -> Digest:
        self._home = home_of(value)
        return self._look(value, AskedNames())

    def _look(self, value: object, asked: AskedNames) -> Digest:
        if type(value) in PLAIN:
            return spelt(type(value).__name__, repr(value))
        key = (id(value), asked)
        if key in self._known:
            return self._known[key][1]
        if id(value) in self._open or len(self._open) > MAX_DEPTH:
            return spelt("again")
        self._open.add(id(value))
        try:
            found = self._found(value, asked)
        except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
            found = by_type(value)  # it is opaque
        finally:
            self._open.discard(id(value))
        self._known[key] = (value, found)
        return found

    def _found(self, value: object, asked: AskedNames) -> Digest:
        look = partial(self._look, asked=asked)
        if isinstance(value, FunctionType):
            return self._function(value, asked)
        if isinstance(value, partial):
            return join_digests("partial", map(look, (value.func, value.args, value.keywords)))
        if isinstance(value, MethodType):
            owner = self._look(value.__self__, AskedNames(asked.names | {value.__func__.__name__}))
            return join_digests("method", [look(value.__func__), owner])
        if isinstance(value, BuiltinFunctionType | MethodWrapperType):
            return self._builtin(value, asked)
        if isinstance(value, ModuleType):
            return spelt("module", value.__name__)
        if isinstance(value, type):
            return self._class(value, asked.names | MAKERS)
        if type(value).__module__.startswith("headrace.") and not isinstance(value, Ragged):
            return self._own(value, asked)
        if isinstance(value, CONTAINERS):
            self._note(type(value))
            parts = [container_digest(value, look, self._budget), self._attributes(value, asked)]
            return join_digests(type(value).__name__, parts)
        plain = value_digest(value, look, self._budget)
        return self._object(value, asked) if plain is None else plain

    def _own(self, value: object, asked: AskedNames) -> Digest:
        """Something of headrace's: datasets and plans, records such as features, and specs."""
        plan = getattr(value, "_node", value)
        if isinstance(plan, Node):
            return self.node(plan)
        if is_record(type(value)):
            return self._object(value, asked)
        return spelt(repr(value)) if isinstance(value, LeafSpec) else by_type(value)

    def node(self, plan: AnyNode) -> Digest:
        """Return a node of a plan with its inputs."""
        parts = [self._look(value, AskedNames()) for value in contents_of(plan)]
        return join_digests(plan.label(for_state=True), [*parts, *map(self.node, plan.inputs)])

    def _builtin(self, value: Component, asked: AskedNames) -> Digest:
        owner = value.__self__
        if owner is None or isinstance(owner, ModuleType | type):
            return spelt("builtin", *_called_by(value))
        return join_digests(f"builtin {value.__name__}", [self._look(owner, asked)])

    def _function(self, fn: FunctionType, asked: AskedNames) -> Digest:
        """Digest a function: a library's by its name and what it wraps, any other by its code and all that it holds."""
        code = fn.__code__
        if is_library(code, self._home):
            parts = [spelt("library", fn.__module__ or "", fn.__qualname__)]
            held, own = _captured_variables(fn, with_globals=False), changes(code)
            anything, hands = own.anything, asked
        else:
            parts = [Digest(hash_parts(repr(facts(code)).encode()), b"")]
            held, own = _captured_variables(fn), changes(code)
            called = _called_code(held)
            anything = own.anything or any(changes(each).arguments for each in called)
            hands = _hands({code, *called})
        for name, value in sorted(held.items()):
            if isinstance(value, ModuleType):
                parts += [
                    self._of_module(value, path[1:], hands) for path in sorted(dotted_names(code)) if path[0] == name
                ]
            elif name in own.names or (anything and isinstance(value, _CHANGEABLE)):
                parts.append(by_type(value))
            else:
                parts.append(self._held(name, value, code, hands))
        return join_digests("function", [*parts, *(self._look(d, hands) for d in (fn.__defaults__, fn.__kwdefaults__))])

    def _held(self, name: str, value: object, code: CodeType, hands: AskedNames) -> Digest:
        """Return a variable from outside: of a dict the keys that are requested, of an object the attributes."""
        use = uses(code).get(name, Use(frozenset(), frozenset(), whole=True))
        if type(value) is dict and not use.whole and not use.attributes:
            return self._look({key: value.get(key) for key in use.keys}, hands)
        if type(value).__module__.partition(".")[0] in SETTINGS:
            found = [_follow_dots(value, path[1:]) for path in sorted(dotted_names(code)) if path[0] == name]
            return join_digests("settings", [self._look(each, hands) for each in found if type(each) in PLAIN])
        if use.whole or use.keys:
            return self._look(value, hands)
        return self._look(value, AskedNames(use.attributes, hands.changed, whole=False))

    def _of_module(self, module: ModuleType, dots: tuple[str, ...], asked: AskedNames) -> Digest:
        """Return what dots lead to from a module; of a library's the names say it."""
        value: Component = module
        for dot in dots:
            if not isinstance(value, ModuleType) or not _has_name(value, dot):
                break
            module, value = value, getattr(value, dot)
        if isinstance(value, type):
            self._note(value)
        if isinstance(value, ModuleType) or is_library_module(module):
            return spelt("name", module.__name__, *dots)
        return self._look(value, asked)

    def _note(self, kind: type) -> None:
        if is_record(kind) or (issubclass(kind, tuple | Mapping) and kind not in (tuple, dict)):
            self.types.add(kind)

    def _class(self, kind: type, names: frozenset[str]) -> Digest:
        """Return a class as far as it is used: the methods that may run, and the constants they may ask for."""
        self._note(kind)
        if kind.__module__ == "builtins" or is_library_class(kind):
            return spelt("class", name_of(kind))
        methods, asked, changed = self._reach(kind, names)
        hands = AskedNames(asked, changed)
        parts = [self._look(fn, hands) for name in sorted(methods) for fn in methods[name]]
        constants = {
            name: value
            for base in reversed(kind.__mro__)
            for name, value in vars(base).items()
            if name in asked and name not in changed and not name.startswith("__") and not is_method(value)
        }
        parts += [self._look((name, constants[name]), hands) for name in sorted(constants)]
        fields = list(getattr(kind, "_fields", getattr(kind, "__dataclass_fields__", ())))
        return join_digests(f"class {kind.__name__} {fields}", parts)

    def _object(self, value: object, asked: AskedNames) -> Digest:
        parts = [self._class(type(value), asked.names), self._attributes(value, asked)]
        if callable(value) and (type(value).__module__ == "builtins" or is_library_class(type(value))):
            parts.append(spelt("called", *_called_by(value)))
            for name in ("__wrapped__", "py_func"):  # of what functools.lru_cache and numba make
                parts.append(self._look(getattr(value, name, None), asked))
        return join_digests("object", parts)

    def _attributes(self, value: object, asked: AskedNames) -> Digest:
        """Return the attributes that may be requested, of a record all, but none that changes as functions run."""
        kind = type(value)
        if kind.__module__ == "builtins" or is_service(kind):
            return spelt("")
        held = attributes_of(value)
        _, names, changed = self._reach(kind, asked.names)
        changed |= asked.changed
        record = is_record(kind) and asked.whole
        kept = [name for name in sorted(held) if (record or name in names) and name not in changed]
        return join_digests("attributes", [self._look((name, held[name]), AskedNames(names, changed)) for name in kept])

    def _reach(self, kind: type, names: frozenset[str]) -> Reached:
        key = (kind, names)
        if key not in self._reached:
            self._reached[key] = reachable_methods(kind, names)
        return self._reached[key]


def _called_by(fn: object) -> list[str]:
    """Return the names of a callable, as far as it has any."""
    owner = getattr(fn, "__objclass__", None)
    names = [getattr(fn, "__module__", None), owner and name_of(owner), getattr(fn, "__qualname__", None)]
    return [name if isinstance(name, str) else "" for name in names]


def _follow_dots(value: object, dots: tuple[str, ...]) -> Component:
    for dot in dots:
        value = getattr(value, dot, None)
    return value


_CHANGEABLE = (list, dict, set, bytearray, deque, np.ndarray)


def _captured_variables(fn: FunctionType, *, with_globals: bool = True) -> dict[str, Component]:
    """Return the variables that a function looks up in its closure and among globals, those that have a value."""
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it has none yet
            continue
    if with_globals:
        for name in {path[0] for path in dotted_names(fn.__code__)} - set(found):
            if name in fn.__globals__:
                found[name] = fn.__globals__[name]
    return found


def _called_code(held: dict[str, Component]) -> set[CodeType]:
    """Return the code of the functions that a function may call, and of those that these call; not of libraries'."""
    seen: set[CodeType] = set()
    waiting = [value for value in held.values() if isinstance(value, FunctionType)]
    while waiting:
        fn = waiting.pop()
        if fn.__code__ not in seen and not is_library(fn.__code__):
            seen.add(fn.__code__)
            waiting += [value for value in _captured_variables(fn).values() if isinstance(value, FunctionType)]
    return seen


def _hands(called: set[CodeType]) -> AskedNames:
    names = frozenset(name for code in called for name in attribute_names(code))
    return AskedNames(names, frozenset(name for code in called for name in changes(code).attributes))


def _has_name(module: ModuleType, name: str) -> bool:
    """Whether a module has a name, or imports it when it is first used: the digest must not depend on earlier uses."""
    if name in vars(module):
        return True
    try:
        return "__getattr__" in vars(module) and hasattr(module, name)
    except ImportError:  # of a library that is not installed
        return False
