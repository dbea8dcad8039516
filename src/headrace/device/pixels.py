"""Images of a batch on a device, of any sizes, as one flat tensor.

Crops, flips, turns and transposed images are other starts and strides of the same memory: they cost nothing, and the
values are read where something is computed of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, Varied, as_varied, values
from headrace.core.types import AnyFunction, Library, TorchTensor

if TYPE_CHECKING:
    from headrace.device.machine import Machine

Numbers = NDArray[np.int64]

DeviceValue: TypeAlias = Any
"""What a step makes on a device: a tensor whose first axis counts rows, `Pixels`, or a list of these."""

MAX_VALUES_AT_ONCE = 1 << 24
"""How many values are gathered at a time at most: their indices take eight times the memory of bytes."""


@dataclass
class Pixels:
    """Image i has the shape `shapes[i]` (height, width, channels); value (y, x, c) is at `starts[i] + (y, x, c) ·
    strides[i]` of the flat tensor.
    """

    flat: TorchTensor
    shapes: Numbers
    starts: Numbers
    strides: Numbers
    _geometry: TorchTensor | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, value: DeviceValue) -> Pixels:
        """Return images of a tensor (rows, height, width, channels)."""
        if isinstance(value, Pixels):
            return value
        if value.dim() != 4:
            raise ValueError(f"an image has height, width and channels, not the shape {tuple(value.shape[1:])}")
        value = value.contiguous()
        count, *shape = value.shape
        size = int(np.prod(shape))
        shapes = np.broadcast_to(np.array(shape, np.int64), (count, 3)).copy()
        return cls(value.reshape(-1), shapes, np.arange(count, dtype=np.int64) * size, _strides(shapes))

    @classmethod
    def of_varied(cls, machine: Machine, column: Column) -> Pixels:
        """Return the images of a column of the CPU."""
        varied = as_varied(column)
        if varied is None:
            rows = [np.asarray(row) for row in values(column)]
            if not rows or any(r.dtype.hasobject or r.dtype != rows[0].dtype or r.ndim != rows[0].ndim for r in rows):
                raise TypeError("rows of different kinds cannot go to a device: make them alike in a map before")
            varied = Varied.from_rows(rows)
        if varied.shapes.shape[1] != 3:
            raise TypeError(
                "only images may differ in size on a device: pad other arrays with padded_batch before the map"
            )
        shapes = np.ascontiguousarray(varied.shapes)
        return cls.packed(machine.put(varied.packed()), shapes)

    @classmethod
    def packed(cls, flat: TorchTensor, shapes: Numbers) -> Pixels:
        """Return images of these shapes, one behind the other."""
        sizes = shapes.prod(1)
        return cls(flat, shapes, np.cumsum(sizes) - sizes, _strides(shapes))

    @classmethod
    def empty(cls, machine: Machine, shapes: Numbers) -> Pixels:
        """Return memory for images of bytes, one behind the other."""
        sizes, torch = shapes.prod(1), machine.torch
        flat = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=machine.device)
        return cls(flat, shapes, np.cumsum(sizes) - sizes, _strides(shapes))

    @classmethod
    def merged(cls, machine: Machine, parts: list[tuple[Numbers, Pixels]]) -> Pixels:
        """Return the images of all parts in the order of their numbers, which come with each part."""
        if len(parts) == 1:
            return parts[0][1]
        order = np.argsort(np.concatenate([numbers for numbers, _ in parts]))
        lengths = [part.flat.numel() for _, part in parts]
        starts = [part.starts + start for (_, part), start in zip(parts, np.cumsum([0, *lengths[:-1]]), strict=True)]
        shapes, strides = ([getattr(part, name) for _, part in parts] for name in ("shapes", "strides"))
        flat = machine.torch.cat([part.flat for _, part in parts])
        return cls(flat, *(np.concatenate(each)[order] for each in (shapes, starts, strides)))

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def even(self) -> bool:
        """Whether all images have one shape."""
        return bool((self.shapes == self.shapes[:1]).all())

    def rows(self, start: int, stop: int) -> Pixels:
        """Return some of the images."""
        return self.picked(np.arange(start, stop))

    def picked(self, numbers: Numbers) -> Pixels:
        """Return the images of these numbers."""
        return Pixels(self.flat, self.shapes[numbers], self.starts[numbers], self.strides[numbers])

    def cropped(self, tops: Numbers, lefts: Numbers, heights: Numbers, widths: Numbers) -> Pixels:
        """Return parts of the images, which must be within them."""
        shapes = self.shapes.copy()
        shapes[:, 0], shapes[:, 1] = heights, widths
        starts = self.starts + tops * self.strides[:, 0] + lefts * self.strides[:, 1]
        return Pixels(self.flat, shapes, starts, self.strides)

    def mirrored(self, flags: NDArray[np.bool_], axis: int) -> Pixels:
        """Return the images with the axis (0: upside down, 1: left and right) reversed where the flag is set."""
        strides = self.strides.copy()
        starts = self.starts + np.where(flags, (self.shapes[:, axis] - 1) * strides[:, axis], 0)
        strides[:, axis] = np.where(flags, -strides[:, axis], strides[:, axis])
        return Pixels(self.flat, self.shapes, starts, strides)

    def transposed(self) -> Pixels:
        """Return rows as columns."""
        swap = [1, 0, 2]
        return Pixels(self.flat, self.shapes[:, swap], self.starts, self.strides[:, swap])

    @property
    def untouched(self) -> bool:
        """Whether the flat tensor is exactly these images, one behind the other."""
        sizes = self.shapes.prod(1)
        return (
            int(sizes.sum()) == self.flat.numel()
            and np.array_equal(self.starts, np.cumsum(sizes) - sizes)
            and np.array_equal(self.strides, _strides(self.shapes))
        )

    def dense(self, machine: Machine) -> DeviceValue:
        """Return images of one shape as a tensor (rows, height, width, channels)."""
        shape = [int(s) for s in self.shapes[0]]
        if self.untouched:
            return self.flat.reshape(len(self), *shape)
        height, width, _ = shape
        if (kernels := self.kernels(machine, height)) is not None:
            return kernels.copy(machine, self)
        count = len(self)
        y = np.broadcast_to(np.arange(height), (count, height))
        x = np.broadcast_to(np.arange(width), (count, width))
        return self.gather(machine, y, x)

    def geometry(self, machine: Machine) -> TorchTensor:
        """Return a row for each image, for kernels: its start, the strides of y, x and c, its height and width, and how
        many pixels are in the images before it.
        """
        if self._geometry is None:
            sizes = self.shapes[:, 0] * self.shapes[:, 1]
            before = np.cumsum(sizes) - sizes
            columns = [self.starts[:, None], self.strides, self.shapes[:, :2], before[:, None]]
            self._geometry = machine.put(np.concatenate(columns, 1).astype(np.int64))
        return self._geometry

    def kernels(self, machine: Machine, height: int) -> Library | None:
        """Return the kernels that read these images into `height` rows, if there are any."""
        if len(self) and (self.shapes[:, 2] != self.shapes[0, 2]).any():
            raise ValueError("images of different numbers of channels: give decode_jpeg channels=3")
        return machine.kernels if machine.kernels is not None and machine.kernels.fits(self, height) else None

    def gather(self, machine: Machine, y: Numbers, x: Numbers) -> DeviceValue:
        """Return the pixels at rows `y[i]` and columns `x[i]` of image i: (images, len(y), len(x), channels)."""
        torch = machine.torch
        count, channels = len(self), int(self.shapes[0, 2]) if len(self) else 0
        if (kernels := self.kernels(machine, y.shape[1])) is not None:
            return kernels.gather(machine, self, y, x)
        at_once = max(1, MAX_VALUES_AT_ONCE // max(1, y.shape[1] * x.shape[1] * channels))
        across = self.starts[:, None] + x * self.strides[:, 1:2]
        down = y * self.strides[:, 0:1]
        deep = np.arange(channels) * self.strides[:, 2:3]
        parts = []
        for start in range(0, count, at_once):
            part = slice(start, start + at_once)
            index = machine.put(down[part])[:, :, None, None] + machine.put(across[part])[:, None, :, None]
            parts.append(self.flat[index + machine.put(deep[part])[:, None, None, :]])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def each(self, machine: Machine, change: AnyFunction) -> DeviceValue:
        """Return what a function of a tensor of images and the slice of their rows makes of all; of each, if their
        shapes differ.
        """
        if self.even:
            return change(self.dense(machine), slice(0, len(self)))
        made = [change(self.rows(i, i + 1).dense(machine), slice(i, i + 1)) for i in range(len(self))]
        return packed(machine, made)


def packed(machine: Machine, images: list[DeviceValue]) -> DeviceValue:
    """Return tensors of some images each as one value."""
    if all(m.shape[1:] == images[0].shape[1:] for m in images):
        return machine.torch.cat(images)
    shapes = np.array([tuple(m.shape[1:]) for m in images for _ in range(m.shape[0])], np.int64)
    return Pixels.packed(machine.torch.cat([m.reshape(-1) for m in images]), shapes)


def _strides(shapes: Numbers) -> Numbers:
    return np.stack([shapes[:, 1] * shapes[:, 2], shapes[:, 2], np.ones(len(shapes), np.int64)], 1)
