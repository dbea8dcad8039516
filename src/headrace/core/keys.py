"""Path keys and seeds: which stream of randomness a row or a stage belongs to.

A *path key* is 64 bits. The root of a pass has one, repeat folds the epoch into it, flat_map and interleave the parent
row's id. A *row id* is the pair (path key of its source, ordinal there); draws are functions of (seed, path, id).
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from headrace import _native

ROOT = 0x6865616472616365
"""The path key of the first pass over a plan."""


def mix_key(key: int, *values: int) -> int:
    """Fold `values` into `key`, in order; different sequences give different keys but for chance."""
    return _native.mix_key(key, *values)


@dataclass(frozen=True)
class Seed:
    """The seed of one operation: the user's own, or drawn when the user gave none."""

    value: int
    explicit: bool

    def key(self, path: int) -> int:
        """Return the key of the operation's draws on this path."""
        return mix_key(self.value, path)

    def __str__(self) -> str:
        return str(self.value) if self.explicit else "drawn"


_global: list[Iterator[int]] = []


def set_random_seed(seed: int | None) -> None:
    """Draw the seeds of operations without one from `seed`, in the order they are added; None: at random again.

    Args:
        seed: Seed for all operations without one of their own; None removes it.

    >>> def order():
    ...     hr.set_random_seed(1)
    ...     return list(hr.Dataset.range(5).shuffle(5))
    >>> order() == order()
    True
    >>> hr.set_random_seed(None)
    """
    _global[:] = [] if seed is None else [_draws(mix_key(ROOT, seed))]


def globally_seeded() -> bool:
    """Return whether unset seeds are drawn from a global seed that the user set."""
    return bool(_global)


def _draws(key: int) -> Iterator[int]:
    count = 0
    while True:
        yield mix_key(key, count) >> 1
        count += 1


class _Keyed:
    """The seeds of what a user function builds, as long as a `keyed_seeds` keeps this object."""

    __slots__ = ("__weakref__", "draws")

    def __init__(self, key: int) -> None:
        self.draws = _draws(key)


_nested: ContextVar[tuple[weakref.ref[_Keyed], ...]] = ContextVar("headrace_nested_seeds", default=())
"""Weak references: Ctrl-C may come before a `keyed_seeds` has removed its own."""


def _innermost() -> Iterator[int] | None:
    keyed = next((found for each in reversed(_nested.get()) if (found := each()) is not None), None)
    return None if keyed is None else keyed.draws


def seed(value: int | None) -> Seed:
    """Return the user's seed, or a fresh one; inside flat_map's function a keyed one, so that a resume
    finds it again.
    """
    if value is not None:
        return Seed(value, explicit=True)
    source = _innermost() or (_global[0] if _global else None)
    return Seed(int.from_bytes(os.urandom(8), "little") >> 1 if source is None else next(source), explicit=False)


@contextlib.contextmanager
def keyed_seeds(key: int) -> Iterator[None]:
    """While a user function builds datasets: draw their seeds from `key` instead of the operating system."""
    outer, keyed = _nested.get(), _Keyed(key)
    try:
        _nested.set((*outer, weakref.ref(keyed)))
        yield
    finally:
        _nested.set(outer)
