"""Cache graphs of functions that are created repeatedly: for example a lambda inside flat_map's function."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from types import CodeType, FunctionType, ModuleType

from headrace.plan.bound import same_globals
from headrace.plan.spec import Spec
from headrace.trace.graph import Graph
from headrace.trace.values import Operand

MAX_CACHED_GRAPHS = 256
Key = tuple[CodeType, Spec, bool, bool, bool]


class Known:
    """The last graph of each code and spec, valid for another function with the same closure.

    Only for functions that hold very little, because they are kept alive.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[Key, tuple[FunctionType, Graph | str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, fn: object, spec: Spec, *, exact: bool, draws: bool, fitted: bool = False) -> Graph | str | None:
        """Return the graph of this function, or why there is none; None if it is not cached.

        With `fitted`, the last one that was made for rows of a length that only the rows determine.
        """
        if not isinstance(fn, FunctionType):
            return None
        with self._lock:
            known = self._found.get((fn.__code__, spec, exact, draws, fitted))
        if known is None or not _same(fn, known[0]):
            return None
        found = known[1]
        return None if isinstance(found, Graph) and not found.current() else found

    def keep(
        self, fn: object, spec: Spec, found: Graph | str, *, exact: bool, draws: bool, fitted: bool = False
    ) -> None:
        """Remember it, if it costs nothing."""
        if not isinstance(fn, FunctionType) or (isinstance(found, Graph) and found.captured):
            return
        if fn.__kwdefaults__ or not all(_light(value) for value in (*_held_values(fn), *(fn.__defaults__ or ()))):
            return
        with self._lock:
            self._found[fn.__code__, spec, exact, draws, fitted] = fn, found
            if len(self._found) > MAX_CACHED_GRAPHS:
                self._found.popitem(last=False)

    def renew_lock(self) -> None:
        """Replace the lock, which another thread may have held when this process was forked."""
        self._lock = threading.Lock()


KNOWN = Known()
os.register_at_fork(after_in_child=KNOWN.renew_lock)


def _held_values(fn: FunctionType) -> list[Operand]:
    try:
        return [cell.cell_contents for cell in fn.__closure__ or ()]
    except ValueError:  # not assigned yet
        return [object()]


def _light(value: object) -> bool:
    plain = value is None or type(value) in (bool, int, float, str, bytes) or isinstance(value, ModuleType)
    return plain or (isinstance(value, FunctionType) and not value.__closure__)


def _same(fn: FunctionType, other: FunctionType) -> bool:
    """Return whether two functions of one code do the same."""
    if not same_globals(fn, other) or fn.__kwdefaults__ or fn.__dict__ or other.__dict__:
        return False
    ours, theirs = (_held_values(fn), fn.__defaults__ or ()), (_held_values(other), other.__defaults__ or ())
    return all(len(a) == len(b) and all(map(_same_value, a, b)) for a, b in zip(ours, theirs, strict=True))


def _same_value(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and type(a) in (int, str, bytes) and a == b)
