"""Expressions computed by PyTorch's operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.types import TorchTensor
from headrace.device.arithmetic import cast, torch_dtype
from headrace.device.expression import Expression, literal, schedule

if TYPE_CHECKING:
    from headrace.device.machine import Machine


def evaluate(
    machine: Machine, expression: Expression, pixels: TorchTensor, tables: Sequence[TorchTensor]
) -> TorchTensor:
    """Return the expression of pixels (images, height, width, channels); tables have a row for each image, or one."""
    values: dict[Expression, TorchTensor] = {}
    for one, unused in schedule(expression):
        if one.op == "pixel":
            values[one] = pixels
        elif one.op == "table":
            values[one] = tables[int(one.value[0])][:, None, None]
        else:
            values[one] = _apply(machine, one, [values[arg] for arg in one.args])
        for arg in unused:  # the next operation may need the memory
            del values[arg]
    return values[expression]


def _apply(machine: Machine, one: Expression, args: list[TorchTensor]) -> TorchTensor:
    torch = machine.torch
    if one.op == "number":
        # On the device: PyTorch would multiply by the reciprocal of a divisor that is on the CPU.
        return torch.full((), literal(one.value[0]), dtype=torch_dtype(machine, one.dtype), device=machine.device)
    if one.op == "cast":
        return cast(machine, args[0], one.dtype)
    if one.op == "clamp":
        return args[0].clamp(*map(literal, one.value))
    if one.op == "nan_to_zero":
        return args[0].nan_to_num(0)
    if one.op == "shifted":
        return args[0] >> one.value[0]
    if one.op in ("amax", "amin"):
        return getattr(args[0], one.op)(3, keepdim=True)
    if one.op == "channel":
        return args[0][..., one.value[0] : int(one.value[0]) + 1]
    if one.op == "stack":
        return torch.cat(args, 3)
    return getattr(torch, one.op)(*args)
