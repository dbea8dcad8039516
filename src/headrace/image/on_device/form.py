"""Register the form of a function of images."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import Argument
from headrace.device.forms import device_form
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image.operation import Each

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

Run = Callable[..., DeviceValue]


def image_form(
    operation: Callable[..., object], *, each: tuple[str, ...] = (), check: Callable[..., str | None] | None = None
) -> Callable[[Run], Run]:
    """Register `run(machine, pixels, **arguments)` as the form of an operation on images.

    It gets Pixels and returns Pixels or a tensor. Arguments in `each` are as the operation's own block form gets them,
    on the CPU. Rows that are batches of images are images in a row.
    """
    signature = inspect.signature(operation)
    first = next(iter(signature.parameters))

    def register(run: Run) -> Run:
        def form(machine: Machine, **given: Argument) -> DeviceValue:
            value = given.pop(first)
            batches = None if isinstance(value, Pixels) or value.dim() != 5 else value.shape[:2]
            for name in each:
                if isinstance(given[name], np.ndarray):
                    rows = given[name] if batches is None else np.repeat(given[name], batches[1], 0)
                    given[name] = Each(rows)
            if batches is not None:
                value = value.reshape(-1, *value.shape[2:])
            made = run(machine, Pixels.of(value), **given)
            if batches is None:
                return made
            dense = made.dense(machine) if isinstance(made, Pixels) else made
            return dense.reshape(*batches, *dense.shape[1:])

        device_form(operation.__name__, signature, on_cpu=each, check=check)(form)
        return run

    return register
