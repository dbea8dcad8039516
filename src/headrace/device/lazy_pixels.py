"""Images on a device with arithmetic that is yet to be done, so that a chain of operations is one pass over pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import AnyFunction, Array, TorchTensor
from headrace.device.columns import numpy_dtype_of
from headrace.device.evaluate import evaluate
from headrace.device.expression import Expression, pixel, schedule, table
from headrace.device.pixels import DeviceValue, Pixels

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

MAX_STEPS = 256
"""With more of them an expression is computed: the time to compile a kernel grows with its length."""


class Source:
    """Images that expressions read, all of the same number of channels, and tables with values for them."""

    def __init__(self, machine: Machine, pixels: Pixels, batches: tuple[int, ...] | None) -> None:
        self.machine = machine
        self.pixels = pixels
        self.batches = batches
        """If rows are batches of images: how many rows, and how many images in each."""
        self.tables: list[TorchTensor] = []

    def each(self, change: AnyFunction) -> DeviceValue:
        """Return what a function makes of a tensor of images and their rows of the tables: see `Pixels.each`."""

        def of_part(x: TorchTensor, part: slice) -> TorchTensor:
            return change(x, [t[part] if len(t) == len(self.pixels) else t for t in self.tables])

        return self.pixels.each(self.machine, of_part)


class LazyPixels:
    """Images of which an expression is yet to be computed. Geometry changes the source alone."""

    def __init__(self, source: Source, expression: Expression) -> None:
        self.source = source
        self.expression = expression
        self._made: DeviceValue = None

    @classmethod
    def of(cls, machine: Machine, value: DeviceValue) -> LazyPixels:
        """Return images (rows, height, width, channels), or batches of images, with nothing to be done."""
        if isinstance(value, LazyPixels):
            return value
        batches = None if isinstance(value, Pixels) or value.dim() != 5 else tuple(value.shape[:2])
        pixels = Pixels.of(value if batches is None else value.reshape(-1, *value.shape[2:]))
        plain = pixel(numpy_dtype_of(pixels.flat), int(pixels.shapes[0, 2]))
        return cls(Source(machine, pixels, batches), plain)

    def __len__(self) -> int:
        return len(self.source.pixels)

    def table(self, rows: Array | TorchTensor) -> Expression:
        """Return the values of an array with a row for each image, or one for all, and a column for each channel."""
        tables = self.source.tables
        tables.append(self.source.machine.put(rows) if isinstance(rows, np.ndarray) else rows.contiguous())
        count, channels = tables[-1].shape
        return table(len(tables) - 1, numpy_dtype_of(tables[-1]), channels, per_image=count == len(self))

    def then(self, expression: Expression) -> LazyPixels:
        """Return the images with another expression of the same source."""
        lazy = LazyPixels(self.source, expression)
        return lazy if len(schedule(expression)) <= MAX_STEPS else LazyPixels.of(self.source.machine, lazy.made())

    def moved(self, pixels: Pixels) -> LazyPixels:
        """Return other places of the same images: arithmetic on single pixels stays what it is."""
        source = Source(self.source.machine, pixels, self.source.batches)
        source.tables = list(self.source.tables)
        return LazyPixels(source, self.expression)

    def settled(self) -> LazyPixels:
        """Return the images to be reduced: computed, unless one kernel computes and reduces them."""
        source = self.source
        fused = source.machine.fused
        if not self.expression.args or (fused is not None and fused.fits(source.pixels, self.expression)):
            return self
        return LazyPixels.of(source.machine, self.made())

    def sums(self, expression: Expression) -> TorchTensor:
        """Return the sum of each channel of each image, (images, channels): int64 of integers, else float64."""
        source = self.source
        machine = source.machine
        if (fused := machine.fused) is not None and fused.fits(source.pixels, expression):
            return fused.sums(machine, source.pixels, expression, source.tables)
        dtype = machine.torch.int64 if expression.dtype.kind in "iu" else machine.torch.float64
        return source.each(lambda x, tables: evaluate(machine, expression, x, tables).to(dtype).sum((1, 2)))

    def made(self) -> DeviceValue:
        """Return the images: a tensor if they are computed and have one shape, or if they are batches; else Pixels."""
        if self._made is None:
            self._made = self._compute()
        return self._made

    def _compute(self) -> DeviceValue:
        source, expression = self.source, self.expression
        machine, pixels = source.machine, source.pixels
        if not expression.args:
            value: DeviceValue = pixels
        elif (fused := machine.fused) is not None and fused.fits(pixels, expression):
            value = fused.compute(machine, pixels, expression, source.tables)
        else:
            value = source.each(lambda x, tables: evaluate(machine, expression, x, tables))
        if isinstance(value, Pixels) and value.even and (expression.args or source.batches is not None):
            value = value.dense(machine)
        return value if source.batches is None else value.reshape(*source.batches, *value.shape[1:])


def made(value: DeviceValue) -> DeviceValue:
    """Return a value with all that was to be done to it done."""
    return value.made() if isinstance(value, LazyPixels) else value
