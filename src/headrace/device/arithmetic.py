"""NumPy's arithmetic on tensors with the rows on the first axis, in the dtypes that NumPy computes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.core.types import Array, Component, DType, TorchTensor
from headrace.device.forms import UnsupportedError, parameters
from headrace.device.pixels import DeviceValue
from headrace.trace.values import Call, Operand, Value, map_arguments

if TYPE_CHECKING:
    import torch

    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

Tensors = dict[int, DeviceValue]
"""By slot, the values on the device."""
Kernel = Callable[["Machine", Tensors, int], DeviceValue]
"""`kernel(machine, values, n)` returns the result for `n` rows."""

UNARY = {
    "negative": "neg", "absolute": "abs", "fabs": "abs", "sign": "sign", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sqrt": "sqrt",
    "square": "square", "reciprocal": "reciprocal", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "rint": "round", "logical_not": "logical_not", "invert": "bitwise_not",
    "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "positive": "clone",
}  # fmt: skip
BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "true_divide", "true_divide": "true_divide",
    "power": "pow", "pow": "pow", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax", "fmin": "fmin",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "arctan2": "atan2",
    "hypot": "hypot", "floor_divide": "floor_divide", "remainder": "remainder", "mod": "remainder",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip
IN_PLACE = {
    "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "true_divide", "ifloordiv": "floor_divide",
    "imod": "remainder", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor", "ipow": "power",
}  # fmt: skip
ZERO_DIVISION = frozenset({"floor_divide", "remainder", "mod"})
CASTS = frozenset({"astype", "asarray", "array", "scalar type", "ascontiguousarray", "copy"})
REDUCTIONS = {
    "sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "amax": "amax", "min": "amin", "amin": "amin",
    "any": "any", "all": "all", "std": "std", "var": "var", "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip
MOVES = frozenset({
    "reshape", "ravel", "flatten", "transpose", "permute_dims", "T", "swapaxes", "moveaxis", "expand_dims", "squeeze",
    "flip", "fliplr", "flipud", "roll", "concatenate", "stack", "where", "clip", "getitem", "take", "broadcast_to",
    "setitem", "matmul", "dot", "pad", "repeat", "tile",
})  # fmt: skip
REMEDY = "compute it in a map without device= before this one"


def torch_dtype(machine: Machine, dtype: DType) -> torch.dtype:
    """Return PyTorch's name of a dtype."""
    made = getattr(machine.torch, "bool" if dtype == np.bool_ else dtype.name, None)
    if made is None:
        raise UnsupportedError(f"PyTorch has no dtype {dtype}: change it with astype in a map without device=")
    return made


def cast(machine: Machine, tensor: TorchTensor, dtype: DType) -> DeviceValue:
    """Return the tensor in this dtype; floats become small integers as on the CPU, by way of 32 bits."""
    wanted = torch_dtype(machine, dtype)
    if tensor.dtype == wanted:
        return tensor
    if tensor.dtype.is_floating_point and dtype.kind in "iu" and dtype.itemsize < 4:
        tensor = tensor.to(machine.torch.int32)
    return tensor.to(wanted)


def kernel_of(call: Call) -> Kernel:
    """Return how an operation of NumPy runs on a device. Raise UnsupportedError if it cannot."""
    name = call.name.removesuffix(".reduce") if call.name.endswith(".reduce") else call.name
    for value in call.values:
        if value.sample is None:
            return _of_any_shape(call)
        _check_dtype(value.sample, call.name)
    several = isinstance(call.sample, tuple | list)
    if several:
        raise UnsupportedError(f"{call.name} gives several arrays: {REMEDY}")
    if name in CASTS:
        return _cast_kernel(call)
    if call.name.endswith(".reduce"):
        reduced = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(name)
        if reduced is None:
            raise UnsupportedError(f"np.{call.name} has no form on a device: {REMEDY}")
        return _reduction(call, reduced)
    if name in UNARY or name in BINARY or name in IN_PLACE:
        return _elementwise(call, IN_PLACE.get(name, name))
    if name in REDUCTIONS:
        return _reduction(call, name)
    if name in MOVES:
        return _move(call, name)
    raise UnsupportedError(f"{call.name} has no form on a device: {REMEDY}")


def _check_dtype(sample: Component, name: str) -> None:
    dtype = sample.dtype
    if dtype.kind == "u" and dtype.itemsize > 1 and name not in CASTS:
        raise UnsupportedError(
            f"{name} of {dtype}, which PyTorch hardly computes with: use astype(np.int32) or astype(np.int64) first"
        )
    if dtype.kind in "mMc":
        raise UnsupportedError(f"{name} of {dtype} has no form on a device: {REMEDY}")


def _of_any_shape(call: Call) -> Kernel:
    raise UnsupportedError(
        f"{call.name} of images whose sizes are not known: resize or crop them first, or use hr.image's functions"
    )


def rank(item: Operand) -> int:
    """Return how many axes an operand has in a row."""
    return int(np.ndim(item.sample if isinstance(item, Value) else item))


def aligned(machine: Machine, values: Tensors, item: object, axes: int) -> DeviceValue:
    """Return an operand for broadcasting against rows with `axes` axes."""
    if not isinstance(item, Value):
        return machine.put(np.asarray(item)) if isinstance(item, np.ndarray) else item
    tensor = values[item.slot]
    missing = axes - rank(item)
    if item.batched and missing > 0:
        return tensor.reshape(tensor.shape[0], *(1,) * missing, *tensor.shape[1:])
    return tensor


def loop_dtypes(ufunc: np.ufunc, args: tuple[object, ...]) -> tuple[DType, ...]:
    """Return the dtypes in which NumPy computes, and that of the result last."""

    def kind(item: object) -> DType | type:
        value = item.sample if isinstance(item, Value) else item
        if type(value) in (int, float, complex):
            return type(value)
        return np.asarray(value).dtype

    return ufunc.resolve_dtypes((*map(kind, args), *[None] * ufunc.nout))


def _elementwise(call: Call, name: str) -> Kernel:
    ufunc: np.ufunc = getattr(np, "power" if name == "pow" else name)
    args = call.args
    if call.kwargs or len(args) != ufunc.nin:
        raise UnsupportedError(f"{call.name} with {', '.join(call.kwargs) or 'out='}: {REMEDY}")
    dtypes = loop_dtypes(ufunc, args)
    for dtype in dtypes:
        _check_dtype(np.empty(0, dtype), call.name)
    axes = max(map(rank, args))
    torch_name, made = UNARY.get(name) or BINARY[name], call.sample.dtype
    unary = name in UNARY
    guarded = name in ZERO_DIVISION and dtypes[1].kind in "iu"

    def operand(machine: Machine, values: Tensors, item: object, dtype: DType) -> DeviceValue:
        found = aligned(machine, values, item, axes)
        if not isinstance(found, machine.torch.Tensor):
            return machine.torch.tensor(np.asarray(found, dtype).item(), dtype=torch_dtype(machine, dtype))
        return cast(machine, found, dtype)

    def kernel(machine: Machine, values: Tensors, _n: int) -> DeviceValue:
        torch = machine.torch
        first = operand(machine, values, args[0], dtypes[0])
        if unary:
            return cast(machine, getattr(torch, torch_name)(first), made)
        second = operand(machine, values, args[1], dtypes[1])
        if machine.on_gpu:
            first, second = (x.to(machine.device) if x.dim() else x for x in (first, second))
            if torch_name == "true_divide" and not second.dim() and not second.is_cuda:
                # PyTorch would multiply by the reciprocal of a divisor that is on the CPU.
                second = torch.full((), second.item(), dtype=second.dtype, device=machine.device)
        if guarded:
            zero = second == 0
            result = getattr(torch, torch_name)(first, torch.where(zero, torch.ones_like(second), second))
            return cast(machine, torch.where(zero, torch.zeros_like(result), result), made)
        return cast(machine, getattr(torch, torch_name)(first, second), made)

    return kernel


def _cast_kernel(call: Call) -> Kernel:
    source, made = call.args[0], call.sample.dtype
    if isinstance(source, list | tuple):
        return _stack_scalars(source, made)
    if not isinstance(source, Value) or np.shape(source.sample) != np.shape(call.sample):
        raise UnsupportedError(f"{call.name} of several values: {REMEDY}")
    slot = source.slot
    return lambda machine, values, _n: cast(machine, values[slot], made)


def _stack_scalars(items: Operand, made: DType) -> Kernel:
    if not all(isinstance(i, Value | int | float) and rank(i) == 0 for i in items):
        raise UnsupportedError(f"an array of nested lists: {REMEDY}")

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        columns = [_rows_of(machine, values, item, n) for item in items]
        return machine.torch.stack([cast(machine, c, made) for c in columns], 1)

    return kernel


def _rows_of(machine: Machine, values: Tensors, item: object, n: int) -> DeviceValue:
    """Return an operand with a value for each row."""
    if isinstance(item, Value) and item.batched:
        return values[item.slot]
    known = values[item.slot] if isinstance(item, Value) else machine.put(np.asarray(item))
    return known.expand(n, *known.shape)


SIGNATURES = {
    "where": parameters("condition", "x", "y"),
    "clip": parameters("a", a_min=None, a_max=None, min=None, max=None),
    "reduce": parameters("a", axis=None, dtype=None, out=None, keepdims=False, ddof=0, correction=None),
    "max": parameters("a", axis=None, out=None, keepdims=False),
    "std": parameters("a", axis=None, dtype=None, out=None, ddof=0, keepdims=False, correction=None),
    "ufunc": parameters("a", axis=0, dtype=None, out=None, keepdims=False),
}


def given_arguments(call: Call, of: str) -> dict[str, Any]:
    """Return the arguments of a call by name, after one of SIGNATURES."""
    try:
        bound = SIGNATURES[of].bind(*call.args, **call.kwargs)
    except TypeError as error:
        raise UnsupportedError(f"{call.name}: {error}; {REMEDY}") from None
    bound.apply_defaults()
    return bound.arguments


def static(item: object, what: str) -> Operand:
    """Return an argument that is the same for all rows; refuse others."""

    def known(one: object) -> Operand:
        if isinstance(one, Value):
            if not one.static:
                raise UnsupportedError(f"{what} that depends on the data: {REMEDY}")
            return one.sample
        return one

    return map_arguments(item, known)


def source_of(item: object, name: str) -> Value:
    """Return the array of the rows that an operation works on; refuse anything else."""
    if not isinstance(item, Value) or not item.batched:
        raise UnsupportedError(f"{name} of what is no array of the rows: {REMEDY}")
    return item


def _axes(axis: object, axes: int) -> tuple[int, ...]:
    """Return the axes of a batch for those of a row."""
    chosen = range(axes) if axis is None else (axis if isinstance(axis, tuple | list) else (axis,))
    return tuple(int(a) % axes + 1 for a in chosen)


def _reduction(call: Call, name: str) -> Kernel:
    kind = "ufunc" if call.name.endswith(".reduce") else "std" if name in ("std", "var") else "max"
    kind = "reduce" if name in ("sum", "mean", "prod") and kind == "max" else kind
    given = given_arguments(call, kind)
    source = source_of(given["a"], call.name)
    axis = static(given["axis"], f"an axis of {call.name}")
    keep = bool(static(given["keepdims"], "keepdims"))
    made, axes = call.sample.dtype, rank(source)
    if axes == 0:
        raise UnsupportedError(f"{call.name} of numbers: {REMEDY}")
    ddof = float(static(given.get("correction") or given.get("ddof") or 0, "ddof"))
    dims, slot = _axes(axis, axes), source.slot

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        torch, x = machine.torch, values[slot]
        if name in ("argmax", "argmin"):
            flat = x.reshape(n, -1) if axis is None else x
            dim = 1 if axis is None else dims[0]
            best = getattr(torch, "amax" if name == "argmax" else "amin")(flat, dim, keepdim=True)
            return (flat == best).to(torch.uint8).argmax(dim, keepdim=keep)
        if name in ("any", "all"):
            x = x.to(torch.bool)
            for dim in sorted(dims, reverse=True):
                x = getattr(torch, name)(x, dim, keepdim=keep)
            return x
        if name in ("max", "amax", "min", "amin"):
            return getattr(torch, REDUCTIONS[name])(x, dims, keepdim=keep)
        working = made if made.kind == "f" else np.dtype(np.int64)
        if made == np.float16:
            working = np.dtype(np.float32)
        x = cast(machine, x, working)
        if name in ("std", "var"):
            return cast(machine, getattr(torch, name)(x, dims, correction=ddof, keepdim=keep), made)
        if name == "prod":
            for dim in sorted(dims, reverse=True):
                x = torch.prod(x, dim, keepdim=keep)
            return cast(machine, x, made)
        return cast(machine, getattr(torch, name)(x, dims, keepdim=keep), made)

    return kernel


def _move(call: Call, name: str) -> Kernel:
    if name == "where":
        return _where(call)
    if name == "clip":
        return _clip(call)
    if name in ("concatenate", "stack"):
        return _join(call, name)
    if name in ("matmul", "dot"):
        return _matmul(call)
    if name == "getitem":
        return _getitem(call)
    if name == "setitem":
        return _setitem(call)
    if name == "take":
        return _take(call)
    source = source_of(call.args[0], call.name)
    settings = static((call.args[1:], call.kwargs), f"an argument of {call.name}")
    # What moves values is found by moving their numbers: any combination of arguments means what it means in NumPy.
    numbers = np.arange(source.sample.size).reshape(source.sample.shape)
    if name == "pad":
        return _pad(call, source, settings)
    moved = call.fn(numbers, *settings[0], **settings[1])
    return gathering(source.slot, np.asarray(moved), numbers)


def gathering(slot: int, moved: Array, numbers: Array) -> Kernel:
    """Return a kernel that puts value `moved[i]` of each row in place i: a view or one copy if the order says so."""
    shape = moved.shape
    in_order = moved.size == numbers.size and np.array_equal(moved.ravel(), numbers.ravel())
    axes = permutation(moved, numbers)

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        x = values[slot]
        if in_order:
            return x.reshape(n, *shape)
        if axes is not None:
            return x.permute(0, *(a + 1 for a in axes))
        flat = x.reshape(n, -1)
        return flat[:, machine.put(moved.ravel())].reshape(n, *shape)

    return kernel


def permutation(moved: Array, numbers: Array) -> tuple[int, ...] | None:
    """Return the order of axes that gives `moved`, if one does."""
    if moved.ndim != numbers.ndim or not numbers.size or moved.size != numbers.size:
        return None
    found = np.argsort([-s for s in numbers.strides], kind="stable")
    order = sorted(range(moved.ndim), key=lambda a: -moved.strides[a])
    axes = [0] * moved.ndim
    for place, axis in zip(order, found, strict=True):
        axes[place] = int(axis)
    fits = numbers.transpose(axes).shape == moved.shape and np.array_equal(numbers.transpose(axes), moved)
    return tuple(axes) if fits else None


def _where(call: Call) -> Kernel:
    given = given_arguments(call, "where")
    items = [given["condition"], given["x"], given["y"]]
    axes, made = max(map(rank, items)), call.sample.dtype

    def kernel(machine: Machine, values: Tensors, _n: int) -> DeviceValue:
        torch = machine.torch
        found = [aligned(machine, values, item, axes) for item in items]
        tensors = [x if isinstance(x, torch.Tensor) else machine.put(np.asarray(x)) for x in found]
        return torch.where(tensors[0].to(torch.bool), *(cast(machine, x, made) for x in tensors[1:]))

    return kernel


def _clip(call: Call) -> Kernel:
    given = given_arguments(call, "clip")
    source = source_of(given["a"], "clip")
    low = given["min"] if given["a_min"] is None else given["a_min"]
    high = given["max"] if given["a_max"] is None else given["a_max"]
    made, axes = call.sample.dtype, rank(call.sample)

    def bound(machine: Machine, values: Tensors, item: object) -> DeviceValue:
        found = aligned(machine, values, item, axes)
        return cast(machine, found if isinstance(found, machine.torch.Tensor) else machine.put(np.asarray(found)), made)

    def kernel(machine: Machine, values: Tensors, _n: int) -> DeviceValue:
        x = cast(machine, aligned(machine, values, source, axes), made)
        if low is not None:
            x = machine.torch.maximum(x, bound(machine, values, low))
        return x if high is None else machine.torch.minimum(x, bound(machine, values, high))

    return kernel


def _join(call: Call, name: str) -> Kernel:
    items = call.args[0]
    axis = static(call.args[1] if len(call.args) > 1 else call.kwargs.get("axis", 0), "an axis")
    if not isinstance(items, list | tuple) or axis is None or len(call.args) > 2 or set(call.kwargs) - {"axis"}:
        raise UnsupportedError(f"{call.name} with such arguments: {REMEDY}")
    made, axes = call.sample.dtype, rank(call.sample)
    dim = axis % axes + 1

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        parts = [cast(machine, _rows_of(machine, values, item, n), made) for item in items]
        return machine.torch.cat(parts, dim) if name == "concatenate" else machine.torch.stack(parts, dim)

    return kernel


def _matmul(call: Call) -> Kernel:
    if call.kwargs or len(call.args) != 2 or call.sample.dtype.kind != "f":
        raise UnsupportedError(f"{call.name} of anything but floats: {REMEDY}")
    a, b = call.args
    if not (isinstance(a, Value) and a.batched and rank(a) in (1, 2)):
        raise UnsupportedError(f"{call.name} with the rows' values on the right: {REMEDY}")
    if (isinstance(b, Value) and b.batched) or rank(b) != 2:
        raise UnsupportedError(f"{call.name} with anything but a matrix that all rows share: {REMEDY}")
    made = call.sample.dtype

    def kernel(machine: Machine, values: Tensors, _n: int) -> DeviceValue:
        matrix = values[b.slot] if isinstance(b, Value) else machine.put(np.asarray(b))
        return cast(machine, values[a.slot], made) @ cast(machine, matrix, made)

    return kernel


def _getitem(call: Call) -> Kernel:
    source, index = call.args
    if isinstance(source, Value) and not source.batched:
        return _lookup(source, index)
    source = source_of(source, "an index")
    known = static(index, "an index")
    numbers = np.arange(source.sample.size).reshape(np.shape(source.sample))
    if isinstance(known, list | np.ndarray):
        return gathering(source.slot, np.asarray(numbers[known]), numbers)
    parts = known if isinstance(known, tuple) else (known,)
    basic = all(p is None or p is Ellipsis or isinstance(p, int | np.integer | slice) for p in parts)
    forward = all(not isinstance(p, slice) or (p.step or 1) > 0 for p in parts)
    if not (basic and forward):
        return gathering(source.slot, np.asarray(numbers[known]), numbers)
    whole = (slice(None), *(int(p) if isinstance(p, np.integer) else p for p in parts))
    slot = source.slot
    return lambda _machine, values, _n: values[slot][whole]


def _lookup(table: Value, index: object) -> Kernel:
    """Return rows of a table that all rows share, by numbers that they have."""
    if not isinstance(index, Value) or not index.batched or index.sample.dtype.kind not in "iu":
        raise UnsupportedError(f"an index that is not one array of integers: {REMEDY}")
    size = len(table.sample)
    return lambda machine, values, _n: _looked_up(machine, values[table.slot], values[index.slot], size)


def _looked_up(machine: Machine, table: TorchTensor, index: TorchTensor, size: int) -> DeviceValue:
    index = index.to(machine.torch.int64)
    if index.numel() and not bool(((index >= -size) & (index < size)).all()):  # a GPU would stop for good
        raise IndexError(f"index is out of bounds for axis 0 with size {size}")
    return table[index]


def _take(call: Call) -> Kernel:
    if set(call.kwargs) - {"axis"} or len(call.args) not in (2, 3):
        raise UnsupportedError(f"take with such arguments: {REMEDY}")
    table, index = call.args[:2]
    axis = static(call.args[2] if len(call.args) == 3 else call.kwargs.get("axis"), "an axis")
    if isinstance(table, Value) and not table.batched and (axis == 0 or rank(table) == 1):
        return _lookup(table, index)
    source = source_of(table, "take")
    numbers = np.arange(source.sample.size).reshape(source.sample.shape)
    return gathering(source.slot, np.asarray(np.take(numbers, static(index, "an index"), axis=axis)), numbers)


def _setitem(call: Call) -> Kernel:
    target, index, value = call.args
    known = static(index, "an index")
    target = source_of(target, "an assignment")
    numbers = np.arange(target.sample.size).reshape(target.sample.shape)
    places = np.asarray(numbers[known])
    made, axes = call.sample.dtype, places.ndim

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        flat = values[target.slot].reshape(n, -1).clone()
        given = aligned(machine, values, value, axes)
        given = given if isinstance(given, machine.torch.Tensor) else machine.put(np.asarray(given))
        whole = (n, *places.shape) if isinstance(value, Value) and value.batched else places.shape
        given = cast(machine, given, made).expand(whole)
        flat[:, machine.put(places.ravel())] = given.reshape(*whole[: len(whole) - axes], -1)
        return flat.reshape(n, *target.sample.shape)

    return kernel


def _pad(call: Call, source: Value, settings: Operand) -> Kernel:
    args, named = settings
    mode = args[1] if len(args) > 1 else named.get("mode", "constant")
    if mode != "constant":
        numbers = np.arange(source.sample.size).reshape(source.sample.shape)
        if mode not in ("edge", "reflect", "symmetric", "wrap"):
            raise UnsupportedError(f"np.pad with mode={mode!r}: {REMEDY}")
        return gathering(source.slot, np.asarray(call.fn(numbers, *args, **named)), numbers)
    numbers = np.arange(1, source.sample.size + 1).reshape(source.sample.shape)
    known = {k: v for k, v in named.items() if k != "constant_values"}
    moved = np.pad(numbers, *args, **known)
    filled = np.pad(np.zeros(source.sample.shape, call.sample.dtype), *args, **named)
    slot = source.slot

    def kernel(machine: Machine, values: Tensors, n: int) -> DeviceValue:
        flat = values[slot].reshape(n, -1)
        made = flat[:, machine.put(np.maximum(moved.ravel() - 1, 0))].reshape(n, *moved.shape)
        return machine.torch.where(machine.put(moved > 0), made, machine.put(filled))

    return kernel
