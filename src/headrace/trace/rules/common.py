"""Helpers of batching rules: operands of a block, row-by-row kernels, memory layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headrace.core.types import DType, KeywordArguments
from headrace.trace.errors import Mismatch
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values, map_arguments

Rule = Callable[[Call, bool], Kernel | None]
"""The kernel for an operation, exact or nearly, or None if it has none."""

LAYOUT_FREE = frozenset({
    "getitem", "setitem", "reshape", "ravel", "transpose", "T", "copy", "where", "astype", "concatenate", "stack",
    "array", "asarray", "take", "pad", "repeat", "tile", "roll", "flip", "squeeze", "expand_dims", "isin", "diag",
    "bincount", "histogram", "delete", "insert", "append", "resize", "triu", "tril", "pow", "power", "argsort", "sort",
})  # fmt: skip
"""Operations whose results do not depend on the memory layout of their operands."""

Getter = Callable[[Values], Result]


def rank(item: Operand) -> int:
    """Return the number of axes that an operand has in a row."""
    return int(np.ndim(item.sample if isinstance(item, Value) else item))


def operand(item: object, axes: int) -> Getter:
    """Return the operand for a whole block, for broadcasting against rows with `axes` axes."""
    if not isinstance(item, Value):
        return lambda _: item
    slot, missing = item.slot, axes - rank(item)
    if not item.batched or missing <= 0 or rank(item) == axes:
        return lambda values: values[slot]
    shift = (slice(None), *(None,) * missing)
    return lambda values: values[slot][shift]


def operand_rows(item: object) -> Callable[[Values, int], Result]:
    """Return the operand of every row: (rows, …), repeated if it is the same for all."""
    if isinstance(item, Value) and item.batched:
        slot = item.slot
        return lambda values, _: values[slot]

    def spread(values: Values, n: int) -> Result:
        value = np.asarray(values[item.slot] if isinstance(item, Value) else item)
        return np.broadcast_to(value, (n, *value.shape))

    return spread


def dtypes(call: Call) -> list[DType]:
    """Return the dtypes of the values that go in."""
    return [v.sample.dtype for v in call.values]


def named_arguments(call: Call, *names: str, **defaults: object) -> KeywordArguments | None:
    """Arguments by name, as given by position or by keyword; None if there are others."""
    given = dict(zip(names, call.args, strict=False))
    if len(call.args) > len(names) or set(call.kwargs) & set(given) or not set(call.kwargs) <= {*names, *defaults}:
        return None
    return {**defaults, **given, **call.kwargs}


def along_axis(call: Call, default: int | None, *names: str) -> tuple[Value, Any, KeywordArguments] | None:
    """Return the array, the axis and the settings of a call along an axis; None if they are not all known."""
    given = named_arguments(call, "a", "axis", *names, axis=default)
    if given is None:
        return None
    source = given.pop("a")
    if not isinstance(source, Value) or not source.batched or rank(source) == 0 or not is_known(list(given.values())):
        return None
    axis = constant(given.pop("axis"))
    return source, axis, {key: constant(value) for key, value in given.items()}


def is_static(item: object) -> bool:
    """Return whether an argument holds no values of the graph."""
    return not any(True for _ in _values(item))


def _values(item: object) -> Iterator[Value]:
    from headrace.trace.values import leaves

    return leaves(item)


def constant(item: object) -> Operand:
    """Return a static argument, constants of the graph included."""
    return map_arguments(item, lambda i: i.sample if isinstance(i, Value) else i)


def is_known(item: object) -> bool:
    """Return whether an argument is the same for all rows and forever."""
    return all(v.static for v in _values(item))


def single_rows(value: Value) -> Callable[[Values], Iterator[Result]]:
    """Return the rows of a value as the function would see them."""
    slot = value.slot
    if isinstance(value.sample, np.ndarray) and value.sample.ndim == 0:
        return lambda values: (np.asarray(v) for v in values[slot])
    return lambda values: iter(values[slot])


def by_row(call: Call) -> Kernel:
    """Return the operation itself, called on row after row: the same bits by construction."""
    batched = list({v.slot: v for v in call.values if v.batched}.values())
    sources = [single_rows(v) for v in batched]
    position = {v.slot: i for i, v in enumerate(batched)}
    fn, args, kwargs, sample = call.fn, call.args, call.kwargs, call.sample
    flat = len(batched) == len(args) and not kwargs and all(isinstance(a, Value) and a.batched for a in args)

    def outcomes(values: Values) -> Iterator[Result]:
        rows = zip(*[source(values) for source in sources], strict=True)
        if flat:
            return (fn(*row) for row in rows)

        def one(row: tuple[object, ...]) -> Operand:
            def filled(item: object) -> Operand:
                if not isinstance(item, Value):
                    return item
                return row[position[item.slot]] if item.batched else values[item.slot]

            return fn(*map_arguments(args, filled), **map_arguments(kwargs, filled))

        return map(one, rows)

    if type(sample) in (tuple, list):
        return lambda values, n: _columns(outcomes(values), sample, n)
    return lambda values, n: _column(outcomes(values), sample, n)


def _column(results: Iterator[Result], sample: Operand, n: int) -> Result:
    if not isinstance(sample, np.ndarray):
        scalars = list(results)
        if any(type(r) is not type(sample) or r.dtype != sample.dtype for r in scalars):
            raise Mismatch
        return np.array(scalars, sample.dtype)
    out = np.empty((n, *sample.shape), sample.dtype)
    for i, row in enumerate(results):
        if row.shape != sample.shape or row.dtype != sample.dtype:
            raise Mismatch
        out[i] = row
    return out


def _columns(results: Iterator[object], sample: Operand, n: int) -> Result:
    columns = zip(*results, strict=True)
    return [_column(iter(column), one, n) for column, one in zip(columns, sample, strict=True)]


def laid_out_alike(made: Result, sample: Operand) -> bool:
    """Return whether rows of a block have the sample's memory layout."""
    if isinstance(sample, tuple | list):
        return all(laid_out_alike(m, s) for m, s in zip(made, sample, strict=True))
    if not isinstance(sample, np.ndarray):
        return True
    pairs = zip(made.strides[1:], sample.strides, sample.shape, strict=True)
    return all(a == b for a, b, size in pairs if size > 1)


MAX_BITWISE_SAMPLE_VALUES = 1 << 13
"""Samples of at most this many values are compared to the bit; of larger ones the first real rows are enough."""


def self_test(call: Call, kernel: Kernel, exact: bool) -> Result:
    """Return what the kernel makes of a block of samples, None unless its rows are what the operation makes of one."""
    values: Values = []
    rows = 2 if all(np.size(v.sample) <= MAX_BITWISE_SAMPLE_VALUES for v in call.values if v.batched) else 1
    for value in call.values:
        values += [None] * (value.slot + 1 - len(values))
        values[value.slot] = _block(value.sample, rows) if value.batched else value.sample
    try:
        with np.errstate(all="ignore"):
            made = kernel(values, rows)
    except Exception:
        return None
    several = isinstance(call.sample, tuple | list)
    pairs = zip(made, call.sample, strict=True) if several else [(made, call.sample)]
    return made if all(_agrees(m, s, rows, exact) for m, s in pairs) else None


def _block(sample: Operand, rows: int) -> Result:
    """Return rows of samples, with the sample's strides; one row without a copy."""
    if rows == 1:
        return sample[None]
    if not isinstance(sample, np.ndarray) or sample.flags.c_contiguous:
        return np.stack([sample] * rows)
    order = sorted(range(sample.ndim), key=lambda axis: -abs(sample.strides[axis]))
    block = np.stack([sample.transpose(order)] * rows)
    return block.transpose(0, *[1 + i for i in np.argsort(order)])


def _agrees(made: Result, sample: Operand, rows: int, exact: bool) -> bool:
    if made.shape != (rows, *sample.shape) or made.dtype != sample.dtype:
        return False
    if not exact or sample.size > MAX_BITWISE_SAMPLE_VALUES:
        return True
    return all(np.asarray(row).tobytes() == np.asarray(sample).tobytes() for row in made)
