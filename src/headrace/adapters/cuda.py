"""CUDA: batches copied from page-locked memory on a stream of their own, ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from headrace.adapters.buffers import Buffer, BufferPart, Route
from headrace.adapters.device_meter import DeviceMeter
from headrace.adapters.locked import Locked, LockedPool
from headrace.adapters.tensors import Casts, nested_tensor, readable
from headrace.columns import Column, values
from headrace.columns.block import Block
from headrace.core.frameworks import framework
from headrace.core.ragged import Ragged
from headrace.core.types import Component, DeviceLike, LibraryObject, Nested, TorchTensor
from headrace.execute.stages.starvation import Meter
from headrace.iterator import Refused
from headrace.plan.structure import LEAF, Structure

if TYPE_CHECKING:
    pass

MAX_JOINT_BATCH_BYTES = 8 << 20
"""Batches that come together travel together up to this size: keeping one of them keeps the memory of all."""


class Jagged(NamedTuple):
    """A ragged component on a device."""

    values: TorchTensor
    offsets: TorchTensor


class Staged(NamedTuple):
    """A batch in transit to a device: leaves, the tensors that own their memory, the event after which it is there.

    `direct` says that the device reads arrays of another owner in place. Batches that travelled together share the
    memory, the event, and the streams that are `told` of both.
    """

    structure: Structure
    leaves: list[Component]
    owners: list[Component]
    device: DeviceLike
    there: LibraryObject
    direct: bool
    nbytes: int
    told: set[int]


class Staging:
    """Copy batches to CUDA devices, in turn, on a thread that runs `ahead` batches ahead.

    They pass through page-locked buffers; a buffer is filled again only after the event of its last copy. Large arrays
    go without: those in memory of the pool, and views of an array that is read repeatedly, once that memory itself is
    locked. Device memory is allocated on the copying stream and recorded on the consumer's (`record_stream`), so that
    it is not reused while the consumer's kernels may read it. Small batches that come together travel together: each is
    a separate tensor in shared memory.
    """

    name = "to_torch"
    copies = True

    def __init__(
        self, devices: tuple[object, ...], casts: Casts, locked: Locked, *, pin: bool, wait: bool, ahead: int
    ) -> None:
        torch = framework("torch", "to_torch")
        self._cuda = torch.cuda
        self._current_stream = torch._C._cuda_getCurrentRawStream  # a tenth of the time that a Stream takes to make
        self._devices = [with_index(device) for device in devices]
        self._streams = {device: torch.cuda.Stream(device) for device in self._devices}
        self._casts = casts
        self._locked = locked
        self._pin = pin
        self._wait = wait
        self._buffers = deque(Buffer(casts) for _ in range(max(2, ahead)))
        self._meter: DeviceMeter | None = None
        self.ahead = ahead

    def meter(self) -> Meter:
        """Return the meter of the device's stream, or of the host if there are several devices."""
        if len(self._devices) > 1:
            return Meter(watch=True)
        self._meter = DeviceMeter(self._devices[0])
        return self._meter

    def close(self) -> None:
        """Release the buffers, which torch keeps until the copies are done, and the arrays that are copied in place."""
        for buffer in self._buffers:
            if buffer.lent:
                buffer.wait()
        self._buffers = deque(Buffer(self._casts) for _ in self._buffers)

    def check(self, structure: Structure) -> None:
        """Refuse elements that do not have the components that dtypes name."""
        self._casts.of(structure)

    def convert(self, block: Block) -> Block:
        """Return the rows of a block, on their way."""
        first = block.mark.ordinal
        wanted = self._casts.of(block.structure) if self._casts else [None] * len(block.columns)
        together = block.rows > 1 and block.nbytes <= MAX_JOINT_BATCH_BYTES and len(self._devices) == 1
        if together and block.columns and all(map(_numeric, block.columns)):
            return self._together(block, wanted)
        rows = zip(*(values(c) for c in block.columns), strict=True) if block.columns else [()] * block.rows
        nbytes = block.nbytes // block.rows
        staged: Column = [
            self._staged(block.structure, row, wanted, self._devices[(first + i) % len(self._devices)], nbytes)
            for i, row in enumerate(rows)
        ]
        return Block(LEAF, [staged], block.rows, nbytes=block.nbytes)

    def _together(self, block: Block, wanted: list[Component]) -> Block:
        """Return the rows of a block at once."""
        nbytes = block.nbytes // block.rows
        whole = self._staged(block.structure, tuple(block.columns), wanted, self._devices[0], nbytes)
        # What `data` returns has its own version counter: writing to one batch does not change the others for autograd.
        leaves = [[row.data for row in leaf.unbind()] for leaf in whole.leaves]
        staged: Column = [whole._replace(leaves=list(row)) for row in zip(*leaves, strict=True)]
        return Block(LEAF, [staged], block.rows, nbytes=block.nbytes)

    def _staged(
        self, structure: Structure, row: tuple[object, ...], wanted: list[Component], device: DeviceLike, nbytes: int
    ) -> Staged:
        parts = [part for leaf in zip(row, wanted, structure.paths, strict=True) for part in _parts(*leaf)]
        stream = self._streams[device]
        buffer = self._buffers[0]
        self._buffers.rotate(-1)
        buffer.wait()
        pooled = [self._pin and self._locked.pool.holds(part.array) for part in parts]
        with self._cuda.stream(stream):
            moved = [self._move(part, device, locked=ours) for part, ours in zip(parts, pooled, strict=True)]
            rest = [part for part, tensor in zip(parts, moved, strict=True) if tensor is None]
            tensors, owners = buffer.send(rest, device) if rest else ([], [])
            there = buffer.copied = stream.record_event()
        buffer.lent = [part.array for part, tensor in zip(parts, moved, strict=True) if tensor is not None]
        direct = any(tensor is not None and not ours for tensor, ours in zip(moved, pooled, strict=True))
        if direct:
            self._locked.read(device, there)
        owners = [*owners, *(tensor for tensor in moved if tensor is not None)]
        staged = iter(tensors)
        arrived = (next(staged) if tensor is None else tensor for tensor in moved)
        leaves = [_leaf(value, arrived) for value in row]
        return Staged(structure, leaves, owners, device, there, direct, nbytes, set())

    def _move(self, part: BufferPart, device: DeviceLike, *, locked: bool) -> TorchTensor:
        """Return the array on the device, if it can go there directly."""
        if self._pin and not locked and not self._locked.holds(part.array):
            return None
        route = Route(part, self._casts)
        if self._pin and route.travels_as is not route.own:
            return None  # fewer bytes are worth the copy
        return route.receive(readable(part.array, part.path).to(route.travels_as).to(device, non_blocking=True))

    def deliver(self, staged: Staged) -> Nested:
        """Let the consumer's stream wait for the copy, not the program."""
        current = self._current_stream(staged.device.index)
        if current not in staged.told:
            stream = self._cuda.current_stream(staged.device)
            stream.wait_event(staged.there)
            for tensor in staged.owners:
                tensor.record_stream(stream)
            staged.told.add(current)
        if self._wait or staged.direct:  # the consumer of a batch may write to the array that it came from
            staged.there.synchronize()
        if self._meter is not None:
            self._meter.note_delivery()
        leaves = [nested_tensor(*leaf) if type(leaf) is Jagged else leaf for leaf in staged.leaves]
        try:
            return staged.structure.pack(leaves)
        except Exception as error:
            raise Refused(error) from error


def _parts(value: object, wanted: object, path: str) -> list[BufferPart]:
    """Return the arrays of a component that go to the device."""
    if isinstance(value, Ragged):
        return [
            BufferPart(value.values, wanted, path),
            BufferPart(value.offsets, framework("torch", "to_torch").int64, path),
        ]
    return [BufferPart(np.asarray(value), wanted, path)] if _numeric(value) else []


def _leaf(value: object, moved: Iterator[object]) -> Nested:
    """Return a component: what has become of its arrays, or what stays on the host, as lists."""
    if isinstance(value, Ragged):
        return Jagged(next(moved), next(moved))
    if _numeric(value):
        return next(moved)
    return value.tolist() if isinstance(value, np.ndarray) else value


def _numeric(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject


def with_index(device: DeviceLike) -> TorchTensor:
    """Return a device with its number, which is that of the current one if it has none."""
    torch = framework("torch", "to_torch")
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def page_locks(device: DeviceLike) -> Locked:
    """Return arrays locked for all devices, with the help of the context of one."""
    cuda, device = framework("torch", "to_torch").cuda, with_index(device)

    def lock(address: int, nbytes: int) -> bool:
        with cuda.device(device):
            return int(cuda.cudart().cudaHostRegister(address, nbytes, 0)) == 0

    def unlock(address: int) -> None:
        with cuda.device(device):
            cuda.cudart().cudaHostUnregister(address)

    pool = _pools.get("pool") or _pools.setdefault("pool", LockedPool(lock, unlock))
    return Locked(lock, unlock, pool)


_pools: WeakValueDictionary[str, LockedPool] = WeakValueDictionary()
"""The only instance, as long as it is used."""
