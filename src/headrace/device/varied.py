"""Arithmetic with a number on images of any sizes, as `trace/uneven.py` records it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.device.arithmetic import BINARY
from headrace.device.columns import numpy_dtype_of
from headrace.device.evaluate import evaluate
from headrace.device.expression import Expression, number, pixel
from headrace.device.forms import device_form, parameters
from headrace.device.lazy_pixels import LazyPixels
from headrace.device.pixels import DeviceValue, Pixels

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

IMAGES_RANK = 4


def _changed(machine: Machine, value: DeviceValue, change: Callable[[Expression], Expression]) -> DeviceValue:
    if isinstance(value, machine.torch.Tensor) and value.dim() != IMAGES_RANK:
        return evaluate(machine, change(pixel(numpy_dtype_of(value), 1)), value, [])
    images = LazyPixels.of(machine, value)
    return images.then(change(images.expression))


def _with_number(name: str) -> None:
    ufunc: np.ufunc = getattr(np, name)

    def run(machine: Machine, x: DeviceValue, y: DeviceValue) -> DeviceValue:
        first = isinstance(x, LazyPixels | Pixels | machine.torch.Tensor)
        value, other = (x, y) if first else (y, x)
        kind = type(other) if type(other) in (int, float) else other.dtype

        def change(own: Expression) -> Expression:
            *dtypes, made = ufunc.resolve_dtypes((own.dtype, kind, None) if first else (kind, own.dtype, None))
            pair = (own, number(other, dtypes[1])) if first else (number(other, dtypes[0]), own)
            left, right = (one.cast(dtype) for one, dtype in zip(pair, dtypes, strict=True))
            return left.binary(BINARY[name], right).cast(made)

        return _changed(machine, value, change)

    device_form(name, parameters("x", "y"), lazy=True)(run)


for _name in ("add", "subtract", "multiply", "true_divide"):
    _with_number(_name)


@device_form("astype", parameters("x", "dtype"), lazy=True)
def _astype(machine: Machine, x: object, dtype: DTypeLike) -> DeviceValue:
    return _changed(machine, x, lambda own: own.cast(dtype))
