"""Sums, means, extremes over axes of a row.

With rows on the outermost axis NumPy runs a reduction's inner loop once a row, on the same count and strides as on
that row alone: the pairwise sums are the same sums. That holds for rows in C order, if nothing is converted in buffers,
whose boundaries differ in a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.core.types import AnyFunction
from headrace.trace.rules.common import Rule, along_axis, rank
from headrace.trace.rules.shapes import shift_axis
from headrace.trace.values import Call, Kernel, Operand, Value

EXACT_INTEGERS = 1 << 20
"""How many integers of up to 32 bits add up exactly in a float64, in any order."""


def reduction(fn: Callable[..., object], *names: str) -> Rule:
    """Return a reduction, as function or method."""

    def rule(call: Call, exact: bool) -> Kernel | None:
        given = along_axis(call, None, *names)
        if given is None:
            return None
        source, axis, settings = given
        axes, slot = rank(source), source.slot
        if exact and not _same_bits(fn, call, source):
            return None
        if axis is None:
            whole: Operand = tuple(range(1, axes + 1))
            if fn in (np.argmax, np.argmin):
                if settings:
                    return None
                return lambda values, n: fn(values[slot].reshape(n, -1), axis=1)
        elif isinstance(axis, tuple):
            whole = tuple(shift_axis(a, axes) for a in axis)
        else:
            whole = shift_axis(axis, axes)
        return lambda values, _: fn(values[slot], axis=whole, **settings)

    return rule


ORDER_FREE = (np.any, np.all, np.argmax, np.argmin)


def _same_bits(fn: Callable[..., object], call: Call, source: Value) -> bool:
    dtype, result = source.sample.dtype, call.sample.dtype
    if fn in ORDER_FREE:
        return dtype.char not in "gG"
    if result.kind in "biumM" and dtype.kind in "biumM":
        return True
    if dtype.char in "gGFD" or result.char in "gGFD":
        return False
    if dtype.kind in "biu" and dtype.itemsize <= 4 and fn in (np.mean, np.sum) and result == np.float64:
        return bool(source.sample.size <= EXACT_INTEGERS)
    return _plain(source) and (source.sample.size <= np.getbufsize() or dtype == result)


def _plain(source: Value) -> bool:
    """Return rows in C order, and more than a single value in them: a lone one may be added in another loop."""
    return bool(source.faithful and source.sample.flags.c_contiguous and min(source.sample.shape) > 1)


def ufunc_reduce(fn: np.ufunc) -> Rule:
    """Make a rule for `np.add.reduce`: over the first axis by default."""
    inner: dict[str, AnyFunction] = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}
    called: AnyFunction = inner[fn.__name__]
    rule = reduction(called, "dtype", "keepdims")

    def first_axis(call: Call, exact: bool) -> Kernel | None:
        if len(call.args) == 1 and "axis" not in call.kwargs:
            call = Call(call.fn, call.name, call.args, {**call.kwargs, "axis": 0}, call.sample)
        return rule(call, exact)

    return first_axis


_SUM = reduction(np.sum, "dtype", "out", "keepdims", "initial")
_PROD = reduction(np.prod, "dtype", "out", "keepdims", "initial")
_MEAN = reduction(np.mean, "dtype", "out", "keepdims")
_STD = reduction(np.std, "dtype", "out", "ddof", "keepdims")
_VAR = reduction(np.var, "dtype", "out", "ddof", "keepdims")
_MAX = reduction(np.max, "out", "keepdims", "initial")
_MIN = reduction(np.min, "out", "keepdims", "initial")

RULES: dict[str, Rule] = {
    "sum": _SUM,
    "prod": _PROD,
    "mean": _MEAN,
    "std": _STD,
    "var": _VAR,
    "max": _MAX, "amax": _MAX,
    "min": _MIN, "amin": _MIN,
    "any": reduction(np.any, "out", "keepdims"),
    "all": reduction(np.all, "out", "keepdims"),
    "argmax": reduction(np.argmax, "out", "keepdims"),
    "argmin": reduction(np.argmin, "out", "keepdims"),
    **{f"{fn.__name__}.reduce": ufunc_reduce(fn) for fn in (np.add, np.multiply, np.maximum, np.minimum)},
}  # fmt: skip
