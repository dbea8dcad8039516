"""NumPy's arithmetic on images, left to the kernel of a chain: with numbers, and with values of a row or a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from headrace.core.types import DType, TorchTensor
from headrace.device.arithmetic import BINARY, CASTS, IN_PLACE, UNARY, Tensors, given_arguments, loop_dtypes
from headrace.device.expression import BINARY as BINARY_OF_PIXELS
from headrace.device.expression import BOOL, DTYPES, Expression, number, where
from headrace.device.expression import UNARY as UNARY_OF_PIXELS
from headrace.device.lazy_pixels import LazyPixels
from headrace.trace.values import Call, Operand, Value

if TYPE_CHECKING:
    from headrace.device.machine import Machine

LazyKernel: TypeAlias = Callable[["Machine", Tensors], "LazyPixels | None"]
"""`kernel(machine, values)` returns lazy images, or None if the operation has to run at once."""
Finish: TypeAlias = Callable[[list[Expression]], Expression]
MAX_CHANNELS = 4


def lazy_kernel_of(call: Call) -> LazyKernel | None:
    """Return how an operation of NumPy becomes arithmetic on single pixels; None if it does not."""
    sample = call.sample
    image = isinstance(sample, np.ndarray) and sample.ndim in (3, 4) and 0 < sample.shape[-1] <= MAX_CHANNELS
    if not image or sample.dtype not in DTYPES | {BOOL} or any(value.sample is None for value in call.values):
        return None
    if call.name in CASTS:
        return _lazy(call, call.args[:1], lambda args: args[0].cast(sample.dtype))
    if call.name == "clip":
        return _clip(call)
    if call.name == "where" and len(call.args) == 3:
        return _lazy(call, call.args, lambda args: where(_truth(args[0]), *_cast(args[1:], [sample.dtype] * 2)))
    return _elementwise(call)


def _elementwise(call: Call) -> LazyKernel | None:
    name = IN_PLACE.get(call.name, call.name)
    op = UNARY.get(name) or BINARY.get(name)
    if op not in UNARY_OF_PIXELS | BINARY_OF_PIXELS or call.kwargs or len(call.args) != getattr(np, name).nin:
        return None
    dtypes = loop_dtypes(getattr(np, name), call.args)[: len(call.args)]
    if not DTYPES.issuperset(dtypes) or (op in ("floor", "true_divide") and dtypes[0].kind != "f"):
        return None

    def finish(args: list[Expression]) -> Expression:
        first, *others = _cast(args, dtypes)
        made = first.binary(op, others[0]) if others else first.unary(op)
        return made.cast(call.sample.dtype)

    return _lazy(call, call.args, finish)


def _clip(call: Call) -> LazyKernel | None:
    given = given_arguments(call, "clip")
    low = given["min"] if given["a_min"] is None else given["a_min"]
    high = given["max"] if given["a_max"] is None else given["a_max"]
    limits = [(op, limit) for op, limit in (("maximum", low), ("minimum", high)) if limit is not None]

    def finish(args: list[Expression]) -> Expression:
        made, *others = _cast(args, [call.sample.dtype] * len(args))
        for (op, _), other in zip(limits, others, strict=True):
            made = made.binary(op, other)
        return made

    return _lazy(call, [given["a"], *(limit for _, limit in limits)], finish)


def _cast(args: Sequence[Expression], dtypes: Sequence[DType]) -> list[Expression]:
    return [arg.cast(dtype) for arg, dtype in zip(args, dtypes, strict=True)]


def _truth(x: Expression) -> Expression:
    return x if x.dtype == BOOL else x.binary("ne", 0)


def _lazy(call: Call, args: Sequence[Operand], finish: Finish) -> LazyKernel | None:
    shape = np.shape(call.sample)
    images = [_is_image(arg, shape) for arg in args]
    if not any(images) or not all(image or _fits(arg, shape) for image, arg in zip(images, args, strict=True)):
        return None

    def kernel(machine: Machine, values: Tensors) -> LazyPixels | None:
        for image, arg in zip(images, args, strict=True):
            if image:  # kept, so that all that is made of it has one source
                values[arg.slot] = LazyPixels.of(machine, values[arg.slot])
        whole: LazyPixels = values[args[images.index(True)].slot]
        if any(values[a.slot].source is not whole.source for i, a in zip(images, args, strict=True) if i):
            return None
        made = [
            values[arg.slot].expression if image else _operand(machine, whole, values, arg, shape)
            for image, arg in zip(images, args, strict=True)
        ]
        return whole.then(finish(made))

    return kernel


def _is_image(item: Operand, shape: tuple[int, ...]) -> bool:
    """Return whether an operand has a value for each pixel."""
    return isinstance(item, Value) and item.batched and np.shape(item.sample)[:-1] == shape[:-1]


def _fits(item: Operand, shape: tuple[int, ...]) -> bool:
    """Return whether an operand has the same values for all pixels of an image."""
    sample = item.sample if isinstance(item, Value) else item
    if not isinstance(sample, np.ndarray | np.generic | bool | int | float):
        return False
    *images, height, width, channels = (1,) * (len(shape) - np.ndim(sample)) + np.shape(sample)
    return height == width == 1 and channels in (1, shape[-1]) and (not images or images[0] in (1, shape[0]))


def _operand(machine: Machine, whole: LazyPixels, values: Tensors, item: Operand, shape: tuple[int, ...]) -> Expression:
    known = item.sample if isinstance(item, Value) and item.static else item
    if not isinstance(known, Value) and np.size(known) == 1:
        array = np.asarray(known)
        return number(array.reshape(()), array.dtype)
    tensor: TorchTensor = values[known.slot] if isinstance(known, Value) else machine.put(np.asarray(known))
    batched = isinstance(known, Value) and known.batched
    own = tuple(tensor.shape[1:] if batched else tensor.shape)
    own = (1,) * (len(shape) - len(own)) + own
    if batched or own[:-1] != (1,) * len(own[:-1]):
        rows = len(whole) // int(np.prod(shape[:-3]))
        tensor = tensor.reshape(-1, *own).expand(rows, *shape[:-3], 1, 1, own[-1])
    tensor = tensor.reshape(-1, own[-1])
    if tensor.dtype == machine.torch.bool:
        return whole.table(tensor.to(machine.torch.uint8)).binary("ne", 0)
    return whole.table(tensor)
