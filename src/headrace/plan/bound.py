"""Functions whose variables were bound, and the functions that they are copies of."""

from __future__ import annotations

from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from headrace.core.types import Reduced

MODULE = "__headrace_module__"
"""Among the globals of a bound function: those of its module."""
_ADDED = (MODULE, "__warningregistry__")
ORIGINALS: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()
"""For each bound function, the one that the user wrote."""


def original_of(fn: FunctionType) -> FunctionType | None:
    """Return the function that a bound one is a copy of, if that one would do the same here and now; else None."""
    original = ORIGINALS.get(fn)
    if original is None or original.__closure__:
        return None
    module = original.__globals__
    bound = [(name, value) for name, value in dict.items(fn.__globals__) if name not in _ADDED]
    return original if all(name in module and _written_as(v) is module[name] for name, v in bound) else None


def same_globals(fn: FunctionType, other: FunctionType) -> bool:
    """Return whether two functions find the same globals, bound or not."""
    ours, theirs = fn.__globals__, other.__globals__
    if ours is theirs:
        return True
    if type(ours) is not type(theirs) or MODULE not in ours or dict.keys(ours) != dict.keys(theirs):
        return False
    return all(_written_as(value) is _written_as(dict.__getitem__(theirs, name)) for name, value in dict.items(ours))


class Portable:
    """A bound function in a pickle: the importable original replaces it if that does the same."""

    def __init__(self, fn: FunctionType, original: FunctionType) -> None:
        self.fn = fn
        self.original = original

    def __reduce__(self) -> Reduced:
        return _itself, (self.original,)

    def __deepcopy__(self, memo: object) -> Portable:
        return self


def by_reference(value: Any) -> Any:
    """Return what to pickle in place of a value."""
    original = original_of(value) if type(value) is FunctionType else None
    return value if original is None else Portable(value, original)


def resolved(value: object) -> Any:
    """Return the value that was packed."""
    return value.fn if isinstance(value, Portable) else value


class PickledByReference:
    """An object whose functions are pickled by reference, if that does the same."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: by_reference(value) for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: resolved(value) for name, value in state.items()})


def _written_as(value: object) -> Any:
    return ORIGINALS.get(value, value) if type(value) is FunctionType else value


def _itself(fn: FunctionType) -> FunctionType:
    return fn
