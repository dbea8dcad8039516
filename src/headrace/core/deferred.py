"""Methods whose module is imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from headrace.core.types import Attribute

Class = TypeVar("Class", bound=type)


class Deferred:
    """A function of another module, in the body of a class: the first use imports it and puts it in its place.

    Everything a caller can see is the function's own: its signature, its docstring, its pickle. Only `vars()` of the
    class shows that it has not been used yet.
    """

    def __init__(self, module: str, function: str = "") -> None:
        self._module = module
        self._function = function
        self._static = False
        self._owner: type
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def place(self, owner: type, name: str, *, static: bool) -> None:
        """Say which attribute of which class it is, and whether that is a static method."""
        self._owner, self._name, self._static = owner, name, static

    def __get__(self, instance: object, owner: type) -> Attribute:
        function = getattr(import_module(self._module), self._function or self._name)
        setattr(self._owner, self._name, staticmethod(function) if self._static else function)
        return getattr(owner if instance is None else instance, self._name)


def resolves_deferred(kind: Class) -> Class:
    """Let a class have `name = staticmethod(deferred)` too."""
    for name, value in list(vars(kind).items()):
        wrapped: object = value.__func__ if isinstance(value, staticmethod) else None
        if isinstance(wrapped, Deferred):
            wrapped.place(kind, name, static=True)
            setattr(kind, name, wrapped)
    return kind
