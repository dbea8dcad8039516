"""Indexing: `x[...]`, `x[...] = y`, `take_rule`, `take_along_axis`, `searchsorted`, `digitize`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.trace.errors import Untraceable
from headrace.trace.rules import windows
from headrace.trace.rules.casts import exactly
from headrace.trace.rules.common import Rule, constant, is_known, named_arguments, operand, operand_rows, rank
from headrace.trace.rules.shapes import mapped_rule, shift_axis
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values, leaves


def _basic(index: object) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is None or p is Ellipsis or isinstance(p, slice | int | np.integer) for p in parts) and not any(
        isinstance(p, bool) for p in parts
    )


def _lead_index(index: object) -> tuple[Operand, ...]:
    """Return the index of a row as one of a block."""
    return (slice(None), *(index if isinstance(index, tuple) else (index,)))


def _check(call: Call) -> None:
    index = call.args[1]
    for part in index if isinstance(index, tuple) else (index,):
        for value in leaves(part):
            if not value.static and value.sample.dtype.kind == "b":
                raise Untraceable("picks values by a mask, as many as the data say")


def getitem_rule(call: Call, exact: bool) -> Kernel | None:
    """By constants: of the block at once. By numbers that are data: along the rows."""
    source, index = call.args
    if windows.moving(index):
        return windows.window_getitem(call)
    _check(call)
    if is_known(index):
        if not isinstance(source, Value) or not source.batched:
            return None
        fixed, slot = constant(index), source.slot
        if _basic(fixed):
            led = _lead_index(fixed)
            return lambda values, _: values[slot][led]
        return mapped_rule(call, exact)
    parts = index if isinstance(index, tuple) else (index,)
    if not isinstance(source, Value) or not all(_number(p) for p in parts) or len(parts) > rank(source):
        return None
    axes = max(rank(p) for p in parts)
    getters = [operand(p, axes) for p in parts]
    slot = source.slot
    if not source.batched:
        return lambda values, _: values[slot][tuple(g(values) for g in getters)]

    def kernel(values: Values, n: int) -> Result:
        rows = np.arange(n).reshape(n, *(1,) * axes)
        return values[slot][(rows, *[g(values) for g in getters])]

    return kernel


def _number(part: object) -> bool:
    if isinstance(part, Value):
        return bool(part.sample.dtype.kind in "iu")
    return isinstance(part, int) and not isinstance(part, bool)


def setitem_rule(call: Call, exact: bool) -> Kernel | None:
    """`x[...] = y`, the array being new."""
    target, index, value = call.args
    dtype = call.sample.dtype
    source = value.sample.dtype if isinstance(value, Value) else np.asarray(value).dtype
    if exact and isinstance(value, Value) and not exactly(source, dtype):
        return None
    start = operand_rows(target)
    if isinstance(index, Value) and not index.static and index.sample.dtype.kind == "b":
        return _masked_rule(call, start)
    if windows.moving(index):
        return windows.window_setitem(call)
    if is_known(index) and _basic(constant(index)):
        fixed = constant(index)
        led = _lead_index(fixed)
        axes = np.ndim(call.sample[fixed])
        given = operand(value, axes)

        def kernel(values: Values, n: int) -> Result:
            made = np.array(start(values, n), order="C")
            made[led] = given(values)
            return made

        return kernel
    parts = index if isinstance(index, tuple) else (index,)
    if not all(_number(p) and rank(p) == 0 for p in parts):
        return None
    numbers = [operand(p, 0) for p in parts]
    given = operand(value, call.sample.ndim - len(parts))

    def by_number(values: Values, n: int) -> Result:
        made = np.array(start(values, n), order="C")
        made[(np.arange(n), *[g(values) for g in numbers])] = given(values)
        return made

    return by_number


def _masked_rule(call: Call, start: Operand) -> Kernel | None:
    """`x[mask] = y` with a single y."""
    target, mask, value = call.args
    if rank(value) or np.shape(mask.sample) != np.shape(target.sample) or isinstance(value, str | bytes):
        return None
    hidden, given = operand_rows(mask), operand(value, call.sample.ndim)
    dtype = call.sample.dtype

    def kernel(values: Values, n: int) -> Result:
        filler = np.empty(1, dtype)
        new = given(values)
        if not isinstance(new, np.ndarray):
            filler[...] = new
            new = filler[0]
        return np.where(hidden(values, n), np.asarray(new, dtype), start(values, n))

    return kernel


def take_rule(call: Call, exact: bool) -> Kernel | None:
    """From a table by numbers that are data, or of rows by constants."""
    given = named_arguments(call, "a", "indices", "axis", axis=None, mode="raise")
    if given is None:
        return None
    if is_known(given["indices"]):
        return mapped_rule(call, exact)
    table, numbers = given["a"], given["indices"]
    plain = given["axis"] in (0, None) and (given["axis"] == 0 or rank(table) == 1)
    if not plain or not isinstance(table, Value) or table.batched or not isinstance(numbers, Value):
        return None
    mode = given["mode"]
    return lambda values, _: np.take(values[table.slot], values[numbers.slot], axis=0, mode=mode)


def take_along_axis(call: Call, _exact: bool) -> Kernel | None:
    """`take_along_axis`: along the next axis, because rows come first."""
    given = named_arguments(call, "arr", "indices", "axis", axis=-1)
    if given is None or given["axis"] is None or rank(given["arr"]) != rank(given["indices"]):
        return None
    axis = shift_axis(given["axis"], rank(given["arr"]))
    array, numbers = operand_rows(given["arr"]), operand_rows(given["indices"])
    return lambda values, n: np.take_along_axis(array(values, n), numbers(values, n), axis)


def looked_up(fn: Callable[..., object], table_at: int) -> Rule:
    """`searchsorted` and `digitize`: comparisons with a table that is the same for all rows."""

    def rule(call: Call, _exact: bool) -> Kernel | None:
        if len(call.args) < 2 or not is_known(list(call.kwargs.values())):
            return None
        table, numbers = call.args[table_at], call.args[1 - table_at]
        if (isinstance(table, Value) and table.batched) or not isinstance(numbers, Value):
            return None
        fixed = operand(table, 1)
        rest, named = call.args[2:], constant(call.kwargs)
        if not is_known(rest):
            return None

        def kernel(values: Values, _: int) -> Result:
            pair = [None, None]
            pair[table_at], pair[1 - table_at] = fixed(values), values[numbers.slot]
            return fn(*pair, *rest, **named)

        return kernel

    return rule


RULES: dict[str, Rule] = {
    "getitem": getitem_rule,
    "setitem": setitem_rule,
    "take": take_rule,
    "take_along_axis": take_along_axis,
    "searchsorted": looked_up(np.searchsorted, 0),
    "digitize": looked_up(np.digitize, 1),
}
