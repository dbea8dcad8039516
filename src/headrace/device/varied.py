"""Arithmetic with a number on images of any sizes, as `trace/uneven.py` records it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import AnyFunction, TorchTensor
from headrace.device.arithmetic import BINARY, cast
from headrace.device.columns import numpy_dtype_of
from headrace.device.forms import device_form, parameters
from headrace.device.pixels import DeviceValue, Pixels

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue


def _on_values(value: DeviceValue, change: AnyFunction) -> DeviceValue:
    if isinstance(value, Pixels):
        return Pixels(change(value.flat), value.shapes, value.starts, value.strides)
    return change(value)


def _with_number(name: str) -> None:
    ufunc: np.ufunc = getattr(np, name)

    def run(machine: Machine, x: DeviceValue, y: DeviceValue) -> DeviceValue:
        first = isinstance(x, Pixels | machine.torch.Tensor)
        value, number = (x, y) if first else (y, x)

        def change(tensor: TorchTensor) -> DeviceValue:
            own, other = numpy_dtype_of(tensor), type(number) if type(number) in (int, float) else number.dtype
            loop = ufunc.resolve_dtypes((own, other, None) if first else (other, own, None))
            known = machine.torch.tensor(np.asarray(number, loop[1] if first else loop[0]).item())
            known = cast(machine, known, loop[1] if first else loop[0])
            given = cast(machine, tensor, loop[0] if first else loop[1])
            operation = getattr(machine.torch, BINARY[name])
            return cast(machine, operation(given, known) if first else operation(known, given), loop[-1])

        return _on_values(value, change)

    device_form(name, parameters("x", "y"))(run)


for _name in ("add", "subtract", "multiply", "true_divide"):
    _with_number(_name)


@device_form("astype", parameters("x", "dtype"))
def _astype(machine: Machine, x: object, dtype: DTypeLike) -> DeviceValue:
    return _on_values(x, lambda tensor: cast(machine, tensor, np.dtype(dtype)))
