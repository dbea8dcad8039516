"""Sorting and running sums: each row runs through the same code, alone or in a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.trace.rules.common import Rule, along_axis, constant, is_known, named_arguments, rank
from headrace.trace.rules.shapes import shift_axis
from headrace.trace.values import Call, Kernel, Result, Value, Values


def along(fn: Callable[..., object], default: int | None, *others: str) -> Rule:
    """Make a rule for a function along one axis; over the flattened row if the axis is None."""

    def rule(call: Call, _exact: bool) -> Kernel | None:
        given = along_axis(call, default, *others)
        if given is None:
            return None
        source, axis, settings = given
        slot, axes = source.slot, rank(source)
        if axis is None:
            return lambda values, n: fn(values[slot].reshape(n, -1), axis=1, **settings)
        whole = shift_axis(axis, axes)
        return lambda values, _: fn(values[slot], axis=whole, **settings)

    return rule


def fill_rule(_call: Call, _exact: bool) -> Kernel | None:
    """`x.fill(value)`: row by row is good enough."""
    return None


def running(fn: Callable[..., object], default: int | None) -> Rule:
    """Running sums and products go from left to right, in every loop."""
    inner = along(fn, default, "dtype")

    def rule(call: Call, exact: bool) -> Kernel | None:
        source = call.args[0] if call.args else None
        if exact and (not isinstance(source, Value) or source.sample.dtype.char in "egFDG"):
            return None
        return inner(call, exact)

    return rule


def diff(call: Call, _exact: bool) -> Kernel | None:
    """Differences of neighbours."""
    given = named_arguments(call, "a", "n", "axis", n=1, axis=-1)
    if given is None or not isinstance(given["a"], Value) or not is_known([given["n"], given["axis"]]):
        return None
    source = given["a"]
    axis, times, slot = shift_axis(constant(given["axis"]), rank(source)), constant(given["n"]), source.slot

    def kernel(values: Values, _: int) -> Result:
        return np.diff(values[slot], times, axis)

    return kernel if source.sample.dtype.kind in "biufmM" else None


RULES: dict[str, Rule] = {
    "sort": along(np.sort, -1, "kind", "stable"),
    "argsort": along(np.argsort, -1, "kind", "stable"),
    "cumsum": running(np.cumsum, None),
    "cumprod": running(np.cumprod, None),
    "add.accumulate": running(np.add.accumulate, 0),
    "multiply.accumulate": running(np.multiply.accumulate, 0),
    "diff": diff,
    "fill": fill_rule,
}
