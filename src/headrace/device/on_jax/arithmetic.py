"""NumPy's arithmetic on one row by jax.numpy, in the dtypes that NumPy computes in, as far as JAX has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.core.types import DType, Library
from headrace.device.arithmetic import (
    BINARY,
    CASTS,
    IN_PLACE,
    MOVES,
    REDUCTIONS,
    REMEDY,
    UNARY,
    ZERO_DIVISION,
    given_arguments,
    loop_dtypes,
    permutation,
    source_of,
    static,
)
from headrace.device.forms import UnsupportedError
from headrace.device.on_jax.forms import JaxArray
from headrace.trace.values import Call, Operand, Value

Row = dict[int, JaxArray]
"""By slot, the values of one row."""
Operation = Callable[[Library, Row], JaxArray]
"""`operation(jax, row)` returns the result for one row."""

REDUCED_UFUNCS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
SAME_IN_JAX = frozenset({"flip", "fliplr", "flipud", "roll", "repeat", "tile", "broadcast_to", "pad"})
PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def cast(jax: Library, x: JaxArray, dtype: DType) -> JaxArray:
    """Return a value in this dtype, or the 32 bits of it; floats become small integers as on the CPU."""
    x = jax.numpy.asarray(x)
    wanted = jax.dtypes.canonicalize_dtype(dtype)
    if jax.numpy.issubdtype(x.dtype, np.floating) and wanted.kind in "iu" and wanted.itemsize < 4:
        x = x.astype(np.int32)
    return x.astype(wanted)


def lookup_of(call: Call) -> tuple[Value, Value] | None:
    """Return the table and the index of a lookup in an array that all rows share."""
    if call.name not in ("getitem", "take") or len(call.args) < 2:
        return None
    table, index = call.args[:2]
    if not isinstance(table, Value) or table.batched:
        return None
    if not isinstance(index, Value) or not index.batched or index.sample is None or index.sample.dtype.kind not in "iu":
        raise UnsupportedError(f"an index that is not one array of integers: {REMEDY}")
    if call.name == "take":
        axis = static(call.args[2] if len(call.args) == 3 else call.kwargs.get("axis"), "an axis")
        if len(call.args) > 3 or set(call.kwargs) - {"axis"} or (axis != 0 and np.ndim(table.sample) != 1):
            raise UnsupportedError(f"take with such arguments: {REMEDY}")
    return table, index


def operation_of(call: Call) -> Operation:
    """Return how an operation of NumPy runs on a row. Raise UnsupportedError if it cannot."""
    name = call.name.removesuffix(".reduce")
    for value in call.values:
        if value.sample.dtype.kind in "mMc":
            raise UnsupportedError(f"{call.name} of {value.sample.dtype} has no form by JAX: {REMEDY}")
    if isinstance(call.sample, tuple | list):
        raise UnsupportedError(f"{call.name} gives several arrays: {REMEDY}")
    if call.name.endswith(".reduce"):
        name = REDUCED_UFUNCS.get(name, "")
        if name:
            return _reduction(call, name)
    elif name in CASTS:
        return _cast(call)
    elif name in UNARY or name in BINARY or name in IN_PLACE:
        return _elementwise(call, IN_PLACE.get(name, name))
    elif name in REDUCTIONS:
        return _reduction(call, name)
    elif name in MOVES:
        return OTHERS[name](call) if name in OTHERS else _move(call, name)
    raise UnsupportedError(f"{call.name} has no form by JAX: {REMEDY}")


def _operand(jax: Library, row: Row, item: Operand, dtype: DType) -> JaxArray:
    return cast(jax, row[item.slot] if isinstance(item, Value) else np.asarray(item, dtype), dtype)


def _elementwise(call: Call, name: str) -> Operation:
    name = "power" if name == "pow" else name
    ufunc: np.ufunc = getattr(np, name)
    args, made = call.args, call.sample.dtype
    if call.kwargs or len(args) != ufunc.nin:
        raise UnsupportedError(f"{call.name} with {', '.join(call.kwargs) or 'out='}: {REMEDY}")
    dtypes = loop_dtypes(ufunc, args)
    guarded = name in ZERO_DIVISION and dtypes[1].kind in "iu"

    def run(jax: Library, row: Row) -> JaxArray:
        jnp = jax.numpy
        given = [_operand(jax, row, item, dtype) for item, dtype in zip(args, dtypes, strict=False)]
        if not guarded:
            return cast(jax, getattr(jnp, name)(*given), made)
        zero = given[1] == 0
        result = getattr(jnp, name)(given[0], jnp.where(zero, 1, given[1]))
        return cast(jax, jnp.where(zero, 0, result), made)

    return run


def _cast(call: Call) -> Operation:
    source, made = call.args[0], call.sample.dtype
    if isinstance(source, list | tuple):
        if not all(isinstance(i, Value | int | float) and np.ndim(_sample(i)) == 0 for i in source):
            raise UnsupportedError(f"an array of nested lists: {REMEDY}")
        return lambda jax, row: jax.numpy.stack([_operand(jax, row, item, made) for item in source])
    if not isinstance(source, Value) or np.shape(source.sample) != np.shape(call.sample):
        raise UnsupportedError(f"{call.name} of several values: {REMEDY}")
    slot = source.slot
    return lambda jax, row: cast(jax, row[slot], made)


def _sample(item: Operand) -> Operand:
    return item.sample if isinstance(item, Value) else item


def _reduction(call: Call, name: str) -> Operation:
    name = {"amax": "max", "amin": "min"}.get(name, name)
    kind = "ufunc" if call.name.endswith(".reduce") else {"std": "std", "var": "std"}.get(name, "max")
    kind = "reduce" if name in ("sum", "mean", "prod") and kind == "max" else kind
    given = given_arguments(call, kind)
    source = source_of(given["a"], call.name)
    axis, keep = static(given["axis"], f"an axis of {call.name}"), bool(static(given["keepdims"], "keepdims"))
    made, slot, named = call.sample.dtype, source.slot, {}
    if kind == "std":
        named["ddof"] = float(static(given.get("correction") or given.get("ddof") or 0, "ddof"))
    working = made if name in ("sum", "mean", "prod", "std", "var") else source.sample.dtype
    if working == np.float16:
        working = np.dtype(np.float32)
    if isinstance(axis, list):
        axis = tuple(axis)

    def run(jax: Library, row: Row) -> JaxArray:
        found = getattr(jax.numpy, name)(cast(jax, row[slot], working), axis=axis, keepdims=keep, **named)
        return cast(jax, found, made)

    return run


def _move(call: Call, name: str) -> Operation:
    source = source_of(call.args[0], call.name)
    args, named = static((call.args[1:], call.kwargs), f"an argument of {call.name}")
    slot, shape, made = source.slot, np.shape(call.sample), call.sample.dtype
    if name == "pad":
        mode = args[1] if len(args) > 1 else named.get("mode", "constant")
        if mode not in PAD_MODES:
            raise UnsupportedError(f"np.pad with mode={mode!r}: {REMEDY}")
    if name in SAME_IN_JAX:
        return lambda jax, row: cast(jax, getattr(jax.numpy, name)(row[slot], *args, **named), made)
    numbers = np.arange(source.sample.size).reshape(source.sample.shape)
    moved = np.asarray(call.fn(numbers, *args, **named))
    if moved.size == numbers.size and np.array_equal(moved.ravel(), numbers.ravel()):
        return lambda _jax, row: row[slot].reshape(shape)
    axes = permutation(moved, numbers)
    if axes is not None:
        return lambda _jax, row: row[slot].transpose(axes)
    return lambda _jax, row: row[slot].reshape(-1)[moved]


def _where(call: Call) -> Operation:
    given = given_arguments(call, "where")
    made = call.sample.dtype

    def run(jax: Library, row: Row) -> JaxArray:
        condition = _operand(jax, row, given["condition"], np.dtype(bool))
        return jax.numpy.where(condition, *(_operand(jax, row, given[name], made) for name in "xy"))

    return run


def _clip(call: Call) -> Operation:
    given = given_arguments(call, "clip")
    source, made = source_of(given["a"], "clip"), call.sample.dtype
    low = given["min"] if given["a_min"] is None else given["a_min"]
    high = given["max"] if given["a_max"] is None else given["a_max"]

    def run(jax: Library, row: Row) -> JaxArray:
        x = cast(jax, row[source.slot], made)
        if low is not None:
            x = jax.numpy.maximum(x, _operand(jax, row, low, made))
        return x if high is None else jax.numpy.minimum(x, _operand(jax, row, high, made))

    return run


def _join(call: Call) -> Operation:
    items = call.args[0]
    axis = static(call.args[1] if len(call.args) > 1 else call.kwargs.get("axis", 0), "an axis")
    if not isinstance(items, list | tuple) or axis is None or len(call.args) > 2 or set(call.kwargs) - {"axis"}:
        raise UnsupportedError(f"{call.name} with such arguments: {REMEDY}")
    made, name = call.sample.dtype, call.name
    return lambda jax, row: getattr(jax.numpy, name)([_operand(jax, row, item, made) for item in items], axis=axis)


def _product(call: Call) -> Operation:
    if call.kwargs or len(call.args) != 2:
        raise UnsupportedError(f"{call.name} with such arguments: {REMEDY}")
    made, name, args = call.sample.dtype, call.name, call.args

    def run(jax: Library, row: Row) -> JaxArray:
        factors = [_operand(jax, row, item, made) for item in args]
        return getattr(jax.numpy, name)(*factors, precision=jax.lax.Precision.HIGHEST)

    return run


def _lookup(table: Value, index: Value) -> Operation:
    return lambda _jax, row: row[table.slot][row[index.slot]]


def _getitem(call: Call) -> Operation:
    found = lookup_of(call)
    if found is not None:
        return _lookup(*found)
    source, known = source_of(call.args[0], "an index"), static(call.args[1], "an index")
    parts = known if isinstance(known, tuple) else (known,)
    index = tuple(np.asarray(p) if isinstance(p, list) else p for p in parts)
    return lambda _jax, row: row[source.slot][index]


def _take(call: Call) -> Operation:
    found = lookup_of(call)
    if found is not None:
        return _lookup(*found)
    if set(call.kwargs) - {"axis"} or len(call.args) not in (2, 3):
        raise UnsupportedError(f"take with such arguments: {REMEDY}")
    axis = static(call.args[2] if len(call.args) == 3 else call.kwargs.get("axis"), "an axis")
    source, index = source_of(call.args[0], "take"), np.asarray(static(call.args[1], "an index"))
    return lambda jax, row: jax.numpy.take(row[source.slot], index, axis=axis)


def _setitem(call: Call) -> Operation:
    target, index, value = call.args
    target, known, made = source_of(target, "an assignment"), static(index, "an index"), call.sample.dtype
    parts = known if isinstance(known, tuple) else (known,)
    at = tuple(np.asarray(p) if isinstance(p, list) else p for p in parts)
    return lambda jax, row: row[target.slot].at[at].set(_operand(jax, row, value, made))


OTHERS: dict[str, Callable[[Call], Operation]] = {
    "where": _where, "clip": _clip, "concatenate": _join, "stack": _join, "matmul": _product, "dot": _product,
    "getitem": _getitem, "take": _take, "setitem": _setitem,
}  # fmt: skip
