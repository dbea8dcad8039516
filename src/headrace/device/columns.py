"""Columns whose rows are in the memory of a device."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns.kind import Indices, Kind, Notes, kind_named, kind_of, register_kind
from headrace.core.override import override
from headrace.core.types import Array, DType, TorchTensor
from headrace.device.machine import Machine, Usage
from headrace.device.pixels import DeviceValue
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.device.pixels import DeviceValue


class DeviceColumn:
    """Rows of one shape in a tensor, on its first axis. As elements they are NumPy arrays, copied back."""

    __slots__ = ("__weakref__", "machine", "tensor", "usage")

    def __init__(self, tensor: TorchTensor, machine: Machine, usage: Usage | None = None) -> None:
        self.tensor: TorchTensor = tensor
        self.machine: Machine = machine
        self.usage: Usage | None = usage
        if usage is not None:
            nbytes = tensor.numel() * tensor.element_size()
            usage.hold(nbytes)
            weakref.finalize(self, usage.hold, -nbytes).atexit = False

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    def __getitem__(self, rows: slice) -> DeviceColumn:
        return self.like(self.tensor[rows])

    def like(self, tensor: object) -> DeviceColumn:
        """Return a column of another tensor on the same device."""
        return DeviceColumn(tensor, self.machine)

    def fetch(self) -> Array:
        """Return the rows as an array."""
        return self.machine.fetch(self.tensor)


class DeviceKind(Kind):
    """See DeviceColumn. What is done to a column is queued behind what made it."""

    name = "device"

    def values(self, column: DeviceColumn) -> Iterator[Any]:
        return iter(column.fetch())

    def take(self, column: DeviceColumn, indices: Indices) -> DeviceColumn:
        machine = column.machine
        with machine.queue():
            return column.like(column.tensor[machine.put(np.asarray(indices))])

    def join(self, columns: Sequence[DeviceColumn]) -> DeviceColumn | None:
        first = columns[0]
        if any(c.tensor.shape[1:] != first.tensor.shape[1:] or c.tensor.dtype != first.tensor.dtype for c in columns):
            return None
        with first.machine.queue():
            return first.like(first.machine.torch.cat([c.tensor for c in columns]))

    @override
    def stack(self, column: DeviceColumn, size: int, path: str) -> DeviceColumn:
        with column.machine.queue():
            return column.like(column.tensor.reshape(len(column) // size, size, *column.tensor.shape[1:]))

    def nbytes(self, column: DeviceColumn) -> int:
        return int(column.tensor.numel() * column.tensor.element_size())

    def spec(self, column: DeviceColumn) -> TensorSpec:
        return TensorSpec(tuple(column.tensor.shape[1:]), numpy_dtype_of(column.tensor))

    def lock(self, column: DeviceColumn) -> Array:
        rows = column.fetch()
        rows.flags.writeable = False
        return rows

    def copy(self, column: DeviceColumn) -> DeviceColumn:
        with column.machine.queue():
            return column.like(column.tensor.clone())

    def to_arrow(self, column: DeviceColumn) -> tuple[pa.Array, Notes]:
        rows = column.fetch()
        return kind_of(rows).to_arrow(rows)

    def from_arrow(self, array: pa.Array, notes: Notes) -> DeviceValue:
        return kind_named("dense").from_arrow(array, notes)


register_kind(DeviceKind(), DeviceColumn)


def numpy_dtype_of(tensor: TorchTensor) -> DType:
    """Return the NumPy dtype of a tensor."""
    return np.dtype(str(tensor.dtype).removeprefix("torch."))
