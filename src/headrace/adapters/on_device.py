"""PyTorch: batches that a map with `device=` made, handed over where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.adapters.device_meter import DeviceMeter
from headrace.adapters.feed import PlainTarget
from headrace.adapters.tensors import Casts, nested_tensor, own_tensor
from headrace.columns import Column, values
from headrace.columns.block import Block
from headrace.core.ragged import Ragged
from headrace.core.types import Attribute, Component, LibraryObject, Nested, TorchTensor
from headrace.device.columns import DeviceColumn, numpy_dtype_of
from headrace.device.machine import machine_of
from headrace.execute.stages.starvation import Meter
from headrace.plan.structure import LEAF, Structure, flatten

if TYPE_CHECKING:
    import torch

    from headrace.adapters.feed import Target


class Queued(NamedTuple):
    """An element whose tensors are being made: they are done when the event is reached."""

    structure: Structure
    leaves: list[Component]
    ready: LibraryObject


class DeviceTensors(PlainTarget):
    """Tensors of rows on a device, without a copy; what is still on the CPU follows on the same stream.

    The stream that is current when an element is taken waits for it, the program does not.
    """

    name = "to_torch"

    def __init__(self, device: str, casts: Casts, prefetch: int | None) -> None:
        self._machine = machine_of(device)
        self._casts = casts
        self._meter: DeviceMeter | None = None
        super().__init__((2 if self._machine.on_gpu else 0) if prefetch is None else prefetch)

    def meter(self) -> Meter:
        """Return the meter of the device's stream; on the CPU waiting shows in the time of the calls."""
        if not self._machine.on_gpu:
            return Meter(watch=True)
        self._meter = DeviceMeter(self._machine.device)
        return self._meter

    def check(self, structure: Structure) -> None:
        """Refuse elements that do not have the components that dtypes name."""
        self._casts.of(structure)

    def convert(self, block: Block) -> Block:
        """Return columns of tensors; on a GPU, of elements that are queued."""
        structure = block.structure
        wanted = self._casts.of(structure) if self._casts else [None] * len(block.columns)
        with self._machine.queue():
            columns: list[Column] = [
                self._rows(column, dtype, path)
                for column, dtype, path in zip(block.columns, wanted, structure.paths, strict=True)
            ]
            ready = self._machine.ready()
        if ready is None:
            return Block(structure, columns, block.rows)
        rows = zip(*columns, strict=True) if columns else [()] * block.rows
        queued: Column = [Queued(structure, list(row), ready) for row in rows]
        return Block(LEAF, [queued], block.rows, nbytes=block.nbytes)

    def _rows(self, column: Column, dtype: torch.dtype | None, path: str) -> list[Component]:
        if isinstance(column, DeviceColumn):
            wanted = dtype or self._casts.dtype(numpy_dtype_of(column.tensor))
            tensor = column.tensor if wanted is None else column.tensor.to(wanted)
            return [row.data for row in tensor.unbind()]  # each with a version counter of its own, for autograd
        return [self._leaf(value, dtype, path) for value in values(column)]

    def _leaf(self, value: object, dtype: torch.dtype | None, path: str) -> Nested:
        if isinstance(value, Ragged):
            rows, offsets = own_tensor(value.values, path), own_tensor(value.offsets.copy(), path)
            return nested_tensor(self._there(rows, dtype), self._there(offsets, None))
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return value.tolist()
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            return self._there(own_tensor(array, path), dtype or self._casts.dtype(array.dtype))
        return value

    def _there(self, tensor: TorchTensor, dtype: torch.dtype | None) -> TorchTensor:
        if self._machine.on_gpu:
            tensor = tensor.pin_memory().to(self._machine.device, non_blocking=True)
        return tensor if dtype is None else tensor.to(dtype)

    def deliver(self, element: Nested) -> Nested:
        """Let the consumer's stream wait for the element."""
        if not isinstance(element, Queued):
            return element
        tensors = [leaf for leaf in element.leaves if isinstance(leaf, self._machine.torch.Tensor)]
        self._machine.hand_over(tensors, element.ready)
        if self._meter is not None:
            self._meter.note_delivery()
        return element.structure.pack(element.leaves)


CHANNELS = (1, 3, 4)


class ChannelsFirst:
    """A target whose batches of images come as (batch, channels, height, width), in the same memory."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Attribute:
        return getattr(self._target, name)

    def deliver(self, element: Nested) -> Nested:
        """Return the element with its batches of images permuted: four axes, of which the last has 1, 3 or 4 values."""
        structure, leaves = flatten(self._target.deliver(element))
        return structure.pack([_channels_first(leaf) for leaf in leaves])


def _channels_first(leaf: Nested) -> Nested:
    images = getattr(leaf, "ndim", 0) == 4 and not leaf.is_nested and leaf.shape[-1] in CHANNELS
    return leaf.permute(0, 3, 1, 2) if images else leaf
