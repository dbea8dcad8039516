"""Register the form of a function of images."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from headrace.core.types import Argument, KeywordArguments
from headrace.device.forms import device_form
from headrace.device.lazy_pixels import LazyPixels
from headrace.device.pixels import DeviceValue, Pixels, packed
from headrace.image.operation import Each

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

Run: TypeAlias = Callable[..., DeviceValue]
Check: TypeAlias = Callable[..., str | None]


def image_form(
    operation: Callable[..., object], *, each: tuple[str, ...] = (), check: Check | None = None
) -> Callable[[Run], Run]:
    """Register `run(machine, pixels, **arguments)` as the form of an operation on images.

    It gets Pixels and returns Pixels or a tensor. Arguments in `each` are as the operation's own block form gets them,
    on the CPU. Rows that are batches of images are images in a row.
    """

    def form(run: Run, machine: Machine, value: LazyPixels, given: KeywordArguments) -> DeviceValue:
        made = run(machine, value.source.pixels, **given)
        if (batches := value.source.batches) is None:
            return made
        dense = made.dense(machine) if isinstance(made, Pixels) else made
        return dense.reshape(*batches, *dense.shape[1:])

    return _registers(form, operation, each, check, lazy=False)


def moving_form(operation: Callable[..., object], *, each: tuple[str, ...] = ()) -> Callable[[Run], Run]:
    """Register `run(machine, pixels, **arguments)`, which returns other places of the same images: see `image_form`.

    What is yet to be computed of the images may stay so.
    """

    def form(run: Run, machine: Machine, value: LazyPixels, given: KeywordArguments) -> DeviceValue:
        return value.moved(run(machine, value.source.pixels, **given))

    return _registers(form, operation, each, None, lazy=True)


def pixel_form(operation: Callable[..., object], *, each: tuple[str, ...] = ()) -> Callable[[Run], Run]:
    """Register `run(images, **arguments)`, which adds arithmetic on single pixels to LazyPixels: see `image_form`."""

    def form(run: Run, machine: Machine, value: LazyPixels, given: KeywordArguments) -> DeviceValue:
        channels = value.source.pixels.shapes[:, 2]
        if (channels == channels[0]).all():
            return run(value, **given)
        made, pixels = [], LazyPixels.of(machine, value.made()).source.pixels
        for i in range(len(pixels)):
            own = {k: Each(v.rows[i : i + 1]) if isinstance(v, Each) else v for k, v in given.items()}
            image = LazyPixels.of(machine, pixels.rows(i, i + 1).dense(machine))
            made.append(run(image, **own).made())
        return packed(machine, made)

    return _registers(form, operation, each, None, lazy=True)


def _registers(
    form: Callable[[Run, Machine, LazyPixels, KeywordArguments], DeviceValue],
    operation: Callable[..., object],
    each: tuple[str, ...],
    check: Check | None,
    *,
    lazy: bool,
) -> Callable[[Run], Run]:
    signature = inspect.signature(operation)
    first = next(iter(signature.parameters))

    def register(run: Run) -> Run:
        def prepared(machine: Machine, **given: Argument) -> DeviceValue:
            value = LazyPixels.of(machine, given.pop(first))
            batches = value.source.batches
            for name in each:
                if isinstance(given[name], np.ndarray):
                    rows = given[name] if batches is None else np.repeat(given[name], batches[1], 0)
                    given[name] = Each(rows)
            return form(run, machine, value, given)

        device_form(operation.__name__, signature, on_cpu=each, check=check, lazy=lazy)(prepared)
        return run

    return register
