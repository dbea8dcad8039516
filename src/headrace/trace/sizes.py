"""Lengths that only the rows determine, such as that of raw bytes.

A function of such rows is traced for a length that suits it, which a `reshape` reveals, and again for the one that the
rows of a block turn out to have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.core.types import KeywordArguments
from headrace.trace.values import Operand, Value, leaves, map_arguments, sample_of

FIRST_LENGTH = 64
MAX_TRIES = 8
MAX_LENGTH = 1 << 23

T = TypeVar("T")


@dataclass
class Sizes:
    """The lengths that one trace assumes, by the number of the operation whose results have them."""

    given: dict[int, int]
    used: dict[int, int] = field(default_factory=dict)
    reshaped: set[int] = field(default_factory=set)
    """Those for which a reshape to a fully known shape was recorded."""
    misfit: tuple[int, int, int] | None = None
    """The number, how many values there were and how many were needed, if a reshape did not fit."""
    read: str = ""
    """Where the function read a length, so that it may behave differently for another one."""

    def suppose(self) -> int:
        """Return the length of what one more operation gives."""
        number = len(self.used)
        self.used[number] = self.given.get(number, FIRST_LENGTH)
        return number

    def fits(self, name: str, args: tuple[object, ...], kwargs: KeywordArguments) -> None:
        """Record what a reshape reveals about the lengths that lead to it."""
        source = args[0] if name == "reshape" and args else None
        if not isinstance(source, Value) or not source.sized:
            return
        shape = map_arguments((args[1:], kwargs.get("shape", ())), sample_of)
        wanted = list(_numbers(shape))
        have, fixed = math.prod(source.sample.shape), math.prod(n for n in wanted if n >= 0)
        open_ended = any(n < 0 for n in wanted)
        need = max(1, -(-have // max(fixed, 1))) * fixed if open_ended else fixed
        if not open_ended:
            self.reshaped |= source.sized
        if have != need and self.misfit is None:
            self.misfit = (min(source.sized), have, need)


def _numbers(tree: Operand) -> Operand:
    if isinstance(tree, tuple | list):
        for item in tree:
            yield from _numbers(item)
    elif not isinstance(tree, str | None):
        yield int(tree)


def fit_sizes(attempt: Callable[[Sizes], T], start: dict[int, int]) -> tuple[T, Sizes]:
    """Return what the attempt gives with lengths that suit it, near those it starts from, and these."""
    given = dict(start)
    before: dict[int, tuple[int, int]] = {}
    for _ in range(MAX_TRIES):
        sizes = Sizes(dict(given))
        made = attempt(sizes)
        if sizes.misfit is None:
            break
        number, have, need = sizes.misfit
        size = sizes.used[number]
        last_size, last_have = before.get(number, (size - 1, have - 1))
        step, rest = divmod((need - have) * (size - last_size), (have - last_have) or MAX_LENGTH)
        if rest or not step or not 0 <= size + step <= MAX_LENGTH:
            break
        before[number] = (size, have)
        given[number] = size + step
    return made, sizes


def is_settled(attempt: Callable[[Sizes], object], sizes: Sizes, worked: Callable[[Any], bool]) -> bool:
    """Return whether no other lengths than these suit."""
    if sizes.reshaped != set(sizes.used):
        return False
    for number, size in sizes.used.items():
        for other in (size - 1, size + 1):
            made, found = fit_sizes(attempt, {**sizes.used, number: max(0, other)})
            if worked(made) and found.used != sizes.used:
                return False
    return True


def sizes_in(args: object) -> frozenset[int]:
    """Return the numbers of the lengths that values among arguments depend on."""
    return frozenset().union(*[v.sized for v in leaves(args)])
