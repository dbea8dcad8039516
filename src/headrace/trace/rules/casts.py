"""Conversions of dtype: `astype`, `np.float32(...)`, `np.asarray(...)`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.core.types import DType
from headrace.trace.rules.common import by_row, operand_rows, rank
from headrace.trace.values import Call, Fresh, Kernel, Result, Value, Values


def exactly(source: DType, target: DType) -> bool | None:
    """Return whether every loop converts alike: True, None if only for values in range, or False.

    What C leaves undefined (a NaN or too large a float as an integer) differs between vector and scalar code.
    """
    a, b = source.kind, target.kind
    if source == target:
        return True
    if "c" in (a, b) or source.char == "g" or target.char == "g":
        return False
    if b == "b" or (a in "biu" and b in "iu"):
        return True
    if a in "biu" and b == "f":
        return not (a == "u" and source.itemsize == 8 and target.itemsize < 8)
    if a == "f" and b == "f":
        return True if target.itemsize > source.itemsize and source.itemsize > 2 else None
    if a == "f" and b in "iu":
        return None
    return a == b and a in "mM"


def convert_operand(call: Call, item: Value, exact: bool) -> Kernel | None:
    """Return the value of one operand in the dtype of the result."""
    source, target, slot = item.sample.dtype, call.sample.dtype, item.slot
    direct = Fresh(lambda values, _: values[slot].astype(target))
    fine = exactly(source, target)
    if fine or not exact:
        return direct
    return None if fine is False else _in_range(call, slot, source, target)


def _in_range(call: Call, slot: int, source: DType, target: DType) -> Kernel:
    """Return rows with a value that does not fit, or a NaN, go one by one."""
    again = by_row(call)
    if target.kind == "f":
        low, high = -np.inf, np.inf
    else:
        limits = np.iinfo(target)
        low, high = np.nextafter(float(limits.min), np.inf), np.nextafter(float(limits.max), 0)

    def kernel(values: Values, n: int) -> Result:
        column = values[slot]
        fits = (column >= low) & (column <= high)
        if fits.all():
            return column.astype(target)
        rows = np.flatnonzero(~fits.reshape(n, -1).all(axis=1))
        some = list(values)
        some[slot] = np.where(fits, column, source.type(0))
        made = some[slot].astype(target)
        some[slot] = column[rows]
        made[rows] = again(some, len(rows))
        return made

    return kernel


def astype(call: Call, exact: bool) -> Kernel | None:
    """Return the method, without a wish for the order in memory."""
    source = call.args[0]
    if not isinstance(source, Value) or not set(call.kwargs) <= {"dtype", "copy", "casting"} or len(call.args) > 2:
        return None
    return convert_operand(call, source, exact)


def made_array(call: Call, exact: bool) -> Kernel | None:
    """`np.array`, `np.asarray` of one value, or of a list of values."""
    source = call.args[0]
    if not set(call.kwargs) <= {"dtype", "copy"} or len(call.args) > 2:
        return None
    if isinstance(source, Value):
        return convert_operand(call, source, exact)
    if not isinstance(source, list | tuple) or any(isinstance(s, list | tuple) for s in source):
        return None
    if len({rank(s) for s in source}) > 1:
        return None
    target = call.sample.dtype
    kinds = [s.sample.dtype if isinstance(s, Value) else np.asarray(s).dtype for s in source]
    if exact and not all(exactly(k, target) for k in kinds):
        return None
    getters = [operand_rows(s) for s in source]

    def kernel(values: Values, n: int) -> Result:
        made = np.empty((n, *call.sample.shape), target)
        for i, get in enumerate(getters):
            made[:, i] = get(values, n)
        return made

    return kernel


def scalar_type(call: Call, exact: bool) -> Kernel | None:
    """`np.float32(x)`."""
    source = call.args[0] if len(call.args) == 1 and not call.kwargs else None
    return convert_operand(call, source, exact) if isinstance(source, Value) else None


RULES: dict[str, Callable[[Call, bool], Kernel | None]] = {
    "astype": astype,
    "array": made_array,
    "asarray": made_array,
    "asanyarray": made_array,
    "ascontiguousarray": made_array,
    "scalar type": scalar_type,
}
