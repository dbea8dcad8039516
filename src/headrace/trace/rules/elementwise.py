"""Ufuncs and operators, `where`, `clip`.

Three kinds, found by the sweep in tests/trace/test_sweep.py and by what IEEE 754 promises:

- exact: integers, comparisons and the operations IEEE rounds correctly. Any loop gives the same bits.
- exact but for the sign of zero and the bits of NaN, which depend on the loop: those rows are made again one by one.
- inexact: `exp`, `sin`, powers … A vector loop may give other last bits than the scalar one, a loop's tail others than
  its middle. Rows of arrays run with the same inner loop on the same count as they would alone; scalars one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.columns.dense import choose_rows
from headrace.core.types import AnyFunction, DType
from headrace.trace.rules.common import by_row, dtypes, is_known, operand, operand_rows
from headrace.trace.values import Call, Fresh, Kernel, Operand, Result, Value, Values, map_arguments

UFUNCS = {name: fn for name, fn in sorted(vars(np).items()) if isinstance(fn, np.ufunc)}
UFUNCS |= {fn.__name__: fn for fn in UFUNCS.values()}

EXACT = frozenset({
    "add", "subtract", "multiply", "divide", "true_divide", "negative", "positive", "absolute", "fabs", "sign",
    "floor", "ceil", "trunc", "rint", "square", "reciprocal", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or",
    "bitwise_xor", "invert", "left_shift", "right_shift", "isnan", "isinf", "isfinite", "isnat", "signbit", "copysign",
    "floor_divide", "remainder", "fmod", "gcd", "lcm", "bitwise_count", "conjugate",
})  # fmt: skip
GUARDED = frozenset({"maximum", "minimum", "fmax", "fmin", "sqrt"})
MIXING = frozenset({
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "fmod"
})  # fmt: skip
"""Operations that return one of two NaNs; which one may depend on the loop."""
COMPLEX = frozenset({"add", "subtract", "negative", "positive", "equal", "not_equal", "conjugate", "isnan", "isfinite"})
"""The operations that are exact on complex numbers too; a vector loop may fuse the steps of the others."""
SQUARES = (2, -1, 0.5, 1)
"""Exponents for which `x ** y` of an array is a square, a reciprocal, a square root."""

Elementwise = AnyFunction


def ufunc(call: Call, exact: bool) -> Kernel | None:
    """Return the rule of all ufuncs."""
    fn = UFUNCS.get(call.name)
    if fn is None or fn.signature is not None or not set(call.kwargs) <= {"dtype", "casting"}:
        return None
    direct = broadcast(call, fn)
    if not exact:
        return direct
    kinds = {d.kind for d in [*dtypes(call), _dtype(call.sample)]}
    wide = any(d.char in "gG" for d in dtypes(call))
    if call.name in EXACT and (("c" not in kinds and not wide) or call.name in COMPLEX):
        return guard_rows(call, direct, two_nans) if call.name in MIXING and _two_may_be_nan(call) else direct
    if not kinds & {"f", "c"}:
        return direct if call.name in EXACT | GUARDED | {"power"} else None
    if call.name in GUARDED and "c" not in kinds and not wide:
        return guard_rows(call, direct, nan_or_zero)
    return per_row_loop(call, fn)


def broadcast(call: Call, fn: Elementwise) -> Kernel:
    """Return the function on operands that line up along the rows."""
    axes = sample_rank(call.sample)
    getters = [operand(a, axes) for a in call.args]
    settings = call.kwargs
    kernel: Kernel = lambda values, _: fn(*[g(values) for g in getters], **settings)  # noqa: E731
    if isinstance(fn, np.ufunc) and fn.nout == 1:
        return Fresh(kernel, lambda values, out: fn(*[g(values) for g in getters], out=out, **settings))
    return kernel


def sample_rank(sample: Operand) -> int:
    """Return the number of axes of a result, or of the first of several."""
    return int(np.ndim(sample[0] if isinstance(sample, tuple | list) else sample))


def _dtype(sample: Operand) -> DType:
    return (sample[0] if isinstance(sample, tuple | list) else sample).dtype  # type: ignore[no-any-return]


Doubt = Callable[[Any, list[Operand]], Any]
"""From a result and its operands to a mask of the values that may depend on the loop, None for none."""


def nan_or_zero(made: Result, operands: list[Operand]) -> Result:
    """NaNs, and zeros that come of a negative zero."""
    doubtful = np.isnan(made)
    zeros = made == 0
    if zeros.any():
        for part in operands:
            doubtful |= zeros & np.signbit(part) & (part == 0)
    return doubtful


def two_nans(made: Result, operands: list[Operand]) -> Result:
    """NaNs of which two met."""
    if any(np.size(part) < made.size // 8 and not np.isnan(part).any() for part in operands):
        return None
    if made.dtype.kind == "f" and made.size:
        with np.errstate(invalid="ignore"):
            if not np.isnan(made.max()):  # which is NaN if any is, and takes no memory
                return None
    nans = np.isnan(made)
    if not nans.any():
        return None
    met = [np.isnan(part) for part in operands]
    return nans & met[0] & met[1] if len(met) == 2 else None


def _two_may_be_nan(call: Call) -> bool:
    floats = [v for v in call.values if v.sample.dtype.kind in "fc" and not (v.static and not np.isnan(v.sample).any())]
    return len(floats) + sum(isinstance(a, float) and a != a for a in call.args) > 1  # noqa: PLR0124


def guard_rows(call: Call, direct: Kernel, doubt: Doubt) -> Kernel:
    """Like `direct`, but rows with a doubtful value are computed again one by one."""
    again = by_row(call)
    axes = sample_rank(call.sample)
    parts = [*call.args, *call.kwargs.values()]
    getters = [operand(p, axes) for p in parts if isinstance(p, Value | float)]
    slots = [v.slot for v in call.values if v.batched]

    def kernel(values: Values, n: int) -> Result:
        made = direct(values, n)
        doubtful = doubt(made, [get(values) for get in getters])
        if doubtful is not None and doubtful.any():
            rows = np.flatnonzero(doubtful.reshape(n, -1).any(axis=1))
            some = list(values)
            for slot in slots:
                some[slot] = values[slot][rows]
            made[rows] = again(some, len(rows))
        return made

    return Fresh(kernel)


def per_row_loop(call: Call, fn: np.ufunc) -> Kernel | None:
    """Return the ufunc's inner loop on one row at a time, within one call: a gap between rows keeps them apart."""
    sample = call.sample
    if fn.nout != 1 or not isinstance(sample, np.ndarray) or sample.size < 2 or not sample.flags.c_contiguous:
        return None
    if sample.dtype.kind != "f":
        return None
    values = call.values
    if any(v.sample.dtype != sample.dtype or not v.faithful or not _contiguous(v) for v in values):
        return None
    if any(v.sample.shape != sample.shape for v in values):
        return None
    axes, size, shape = sample.ndim, sample.size, sample.shape
    getters = [operand(a, axes) for a in call.args]
    settings = call.kwargs

    def kernel(values: Values, n: int) -> Result:
        out = np.empty((n, size + 1), sample.dtype)[:, :size].reshape(n, *shape)
        return fn(*[g(values) for g in getters], out=out, **settings)

    return kernel


def _contiguous(value: Value) -> bool:
    return not isinstance(value.sample, np.ndarray) or bool(value.sample.flags.c_contiguous)


def pow_operator(call: Call, exact: bool) -> Kernel | None:
    """`x ** y`: arrays use other operations for some exponents, such as a square; scalars always use the power."""
    base, exponent = call.args
    both = dtypes(call)
    if not exact or not any(d.kind in "fc" for d in [*both, call.sample.dtype]):
        return broadcast(call, np.power) if isinstance(base, Value) and both else None
    plain = isinstance(exponent, int | float) and not isinstance(exponent, bool)
    array = isinstance(base, Value) and isinstance(base.sample, np.ndarray) and base.sample.ndim > 0
    if plain and array and base.batched and exponent in SQUARES and base.sample.dtype.kind == "f":
        direct: Kernel = lambda values, _: values[base.slot] ** exponent  # noqa: E731
        return guard_rows(call, direct, nan_or_zero) if exponent == 0.5 else direct
    return per_row_loop(call, np.power) if array and not plain else None


def where(call: Call, _exact: bool) -> Kernel | None:
    """Return a choice, which is always exact."""
    if len(call.args) != 3 or call.kwargs:
        return None
    chosen, *sides = call.args
    one_a_row = isinstance(chosen, Value) and chosen.batched and sample_rank(chosen.sample) == 0
    alike = all(isinstance(s, Value) and s.sample.dtype == call.sample.dtype for s in sides)
    if not one_a_row or not alike or any(np.shape(s.sample) != call.sample.shape for s in sides):
        return broadcast(call, np.where)
    yes, no = (operand_rows(s) for s in sides)

    def whole_rows(values: Values, n: int) -> Result:
        return choose_rows(values[chosen.slot], yes(values, n), no(values, n))

    return whole_rows


def clip(call: Call, exact: bool) -> Kernel | None:
    """`np.clip` and the method, bounds by position or by name."""
    names = ("a", "a_min", "a_max")
    if not set(call.kwargs) <= {"a_min", "a_max", "min", "max"} or not call.args:
        return None
    given = dict(zip(names, call.args, strict=False))
    low = given.get("a_min", call.kwargs.get("a_min", call.kwargs.get("min")))
    high = given.get("a_max", call.kwargs.get("a_max", call.kwargs.get("max")))
    axes = sample_rank(call.sample)
    getters = [operand(i, axes) for i in (given["a"], low, high)]
    direct: Kernel = lambda values, _: np.clip(*[g(values) for g in getters])  # noqa: E731
    if not exact or not {d.kind for d in dtypes(call)} & {"f", "c"}:
        return direct
    return None if any(d.kind == "c" or d.char == "g" for d in dtypes(call)) else guard_rows(call, direct, nan_or_zero)


def select(call: Call, _exact: bool) -> Kernel | None:
    """Return a choice among several."""
    axes = sample_rank(call.sample)
    args = map_arguments(call.args, lambda item: operand(item, axes))
    kwargs = map_arguments(call.kwargs, lambda item: operand(item, axes))

    def kernel(values: Values, _: int) -> Result:
        def got(getter: Operand) -> Result:
            return getter(values)

        return np.select(*map_arguments(args, got), **map_arguments(kwargs, got))

    return kernel


def isclose(call: Call, _exact: bool) -> Kernel | None:
    """Comparisons and exact operations."""
    return broadcast(call, np.isclose) if is_known(list(call.kwargs.values())) else None


def in_place_rule(name: str) -> Callable[[Call, bool], Kernel | None]:
    """`x += y`: the operation in the dtype it has, cast to that of the array, which keeps its shape."""
    fn = UFUNCS[name]

    def rule(call: Call, exact: bool) -> Kernel | None:
        kinds = {d.kind for d in dtypes(call)}
        sample = call.sample
        fine = not kinds & {"f", "c"} or (name in EXACT and ("c" not in kinds or name in COMPLEX))
        if exact and not fine:
            return None
        if name == "power" and exact and kinds & {"f", "c"}:
            return None
        axes, shape, dtype = sample.ndim, sample.shape, sample.dtype
        getters = [operand(a, axes) for a in call.args]

        def kernel(values: Values, n: int) -> Result:
            return fn(*[g(values) for g in getters], out=np.empty((n, *shape), dtype), casting="same_kind")

        return guard_rows(call, kernel, two_nans) if exact and name in MIXING and _two_may_be_nan(call) else kernel

    return rule


IN_PLACE = {
    "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "true_divide", "ifloordiv": "floor_divide",
    "imod": "remainder", "ipow": "power", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
    "ilshift": "left_shift", "irshift": "right_shift",
}  # fmt: skip


def out_argument(name: str) -> Callable[[Call, bool], Kernel | None]:
    """`np.add(x, y, out=x)`: what was in the array before does not matter."""
    rule = in_place_rule(name)

    def without_target(call: Call, exact: bool) -> Kernel | None:
        if call.kwargs:
            return None
        return rule(Call(call.fn, call.name, call.args[1:], {}, call.sample), exact)

    return without_target


RULES: dict[str, Callable[[Call, bool], Kernel | None]] = {
    **{name: ufunc for name, fn in UFUNCS.items() if fn.signature is None},
    "pow": pow_operator,
    "where": where,
    "clip": clip,
    "select": select,
    "isclose": isclose,
    **{name: in_place_rule(called) for name, called in IN_PLACE.items()},
    **{f"{name} out": out_argument(name) for name, fn in UFUNCS.items() if fn.signature is None and fn.nout == 1},
}
