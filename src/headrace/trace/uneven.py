"""Arithmetic with a number on rows of unknown sizes, such as images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import Varied
from headrace.columns.dense import MIN_THREADED_COPY_BYTES, pooled
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, KeywordArguments
from headrace.plan.spec import TensorSpec
from headrace.trace.values import Operand, Result, Value

EXACT: KeywordArguments = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "true_divide": np.divide}
"""Operations that IEEE 754 rounds correctly: any loop gives the same bits."""

Change = Callable[[Any], Any]
"""A function from values to the same number of values."""


def change_of_values(name: str, args: tuple[object, ...]) -> tuple[AnyFunction, AnyFunction] | None:
    """Return what an operation does to specs, and to columns, if it works value by value; else None."""
    args = tuple(a.sample if isinstance(a, Value) and a.static else a for a in args)
    rows = [a for a in args if isinstance(a, Value)]
    if len(rows) != 1 or not _is_known(rows[0].spec):
        return None
    if name == "astype" and len(args) == 2 and args[0] is rows[0]:
        change = _cast(rows[0].spec, args[1])
    elif name in EXACT and len(args) == 2:
        change = _with_number(name, args)
    else:
        return None
    if change is None:
        return None

    def spec(*described: object) -> TensorSpec:
        (of,) = (d for d in described if isinstance(d, TensorSpec))
        return TensorSpec(of.shape, change(np.ones((1,) * len(of.shape or ()), of.dtype)).dtype)

    return spec, lambda *_: lambda column: _changed(column, change)


def _is_known(spec: Any) -> bool:
    known = isinstance(spec, TensorSpec) and bool(spec.shape) and spec.dtype is not None
    return known and spec.dtype.kind in "biuf" and spec.dtype.char != "g"


def _cast(spec: Any, kind: Operand) -> Change | None:
    try:
        target = np.dtype(kind)
    except TypeError:
        return None
    exact = target.kind in "biuf" and target.char != "g" and np.can_cast(spec.dtype, target, "same_kind")
    return (lambda values: values.astype(target)) if exact else None


def _with_number(name: str, args: tuple[object, ...]) -> Change | None:
    first = isinstance(args[0], Value)
    number = args[1] if first else args[0]
    if not isinstance(number, int | float | np.integer | np.floating) or number != number:  # noqa: PLR0124
        return None
    fn = EXACT[name]

    def change(values: Result) -> Result:
        given = (values, number) if first else (number, values)
        if values.nbytes < MIN_THREADED_COPY_BYTES:
            return fn(*given)
        dtype = fn.resolve_dtypes((*(_dtype(v) for v in given), None))[-1]
        return fn(*given, out=pooled(values.shape, dtype))

    return change


def _dtype(value: Operand) -> DTypeLike:
    """Return the dtype as a ufunc sees it: a Python number takes the array's dtype."""
    return type(value) if type(value) in (int, float) else value.dtype


def _changed(column: object, change: Change) -> Result:
    if isinstance(column, np.ndarray):
        return change(column)
    if isinstance(column, Varied):
        return Varied(change(column.packed()), column.shapes)
    if isinstance(column, Ragged) and isinstance(column.values, np.ndarray):
        return Ragged(change(column.values), column.offsets)
    raise TypeError(f"rows of {type(column).__name__}")  # the caller then handles each row by itself
