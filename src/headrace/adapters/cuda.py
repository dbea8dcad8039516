"""CUDA: batches copied through page-locked buffers on a stream of their own, ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.adapters.feed import framework
from headrace.adapters.tensors import Casts, nested, readable
from headrace.block import Block, Column, ordinal, values
from headrace.execute.starvation import Meter
from headrace.plan.structure import LEAF, Structure
from headrace.ragged import Ragged

EVERY = 8
"""After the first few, one batch in so many is timed: events cost as much as a small kernel."""
ALIGNED = 256
"""Where a component may begin in a buffer: what CUDA's own allocator gives."""


class Slot:
    """One page-locked buffer, and the event after which the copy out of it is done."""

    def __init__(self) -> None:
        self._memory: Any = None
        self._used = 0
        self.copied: Any = None

    def reserve(self, nbytes: int) -> None:
        """Make room for a batch, once the last one has left."""
        torch = framework("torch", "to_torch")
        if self.copied is not None:
            self.copied.synchronize()
        if self._memory is None or self._memory.numel() < nbytes:
            self._memory = None  # the old one goes back before the new one is taken
            self._memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self._used = 0

    def filled(self, source: Any, dtype: Any) -> Any:
        """A copy of a tensor in page-locked memory; torch copies with several threads, without the GIL."""
        nbytes = source.numel() * dtype.itemsize
        room = self._memory[self._used : self._used + nbytes].view(dtype).view(source.shape)
        self._used += aligned(nbytes)
        return room.copy_(source)


def aligned(nbytes: int) -> int:
    """A size rounded up."""
    return -(-nbytes // ALIGNED) * ALIGNED


class Staged:
    """A batch on its way to a device: tensors, and the event after which they are there."""

    __slots__ = ("device", "leaves", "nbytes", "structure", "there")

    def __init__(self, structure: Structure, leaves: list[Any], device: Any, there: Any, nbytes: int) -> None:
        self.structure = structure
        self.leaves = leaves
        self.device = device
        self.there = there
        self.nbytes = nbytes


class Moved:
    """Tensors of one component: one, or the values and offsets of a nested tensor."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def whole(self) -> Any:
        """The component."""
        return self.parts[0] if len(self.parts) == 1 else nested(*self.parts)


class Staging:
    """Has a thread copy batches to CUDA devices, in turn, `ahead` of them before they are asked for.

    A buffer is filled again only after the event behind its last copy. Device memory is allocated on the copying stream
    and told of the consumer's (`record_stream`), so that it is not reused while the consumer's kernels may read it.
    """

    name = "to_torch"

    def __init__(self, devices: tuple[Any, ...], casts: Casts, *, pin: bool, wait: bool, ahead: int) -> None:
        torch = framework("torch", "to_torch")
        self._cuda = torch.cuda
        current = torch.cuda.current_device()
        self._devices = [d if d.index is not None else torch.device("cuda", current) for d in devices]
        self._streams = {device: torch.cuda.Stream(device) for device in self._devices}
        self._casts = casts
        self._pin = pin
        self._wait = wait
        self._slots = deque(Slot() for _ in range(max(2, ahead)))
        self._meter: DeviceMeter | None = None
        self.ahead = ahead

    def meter(self) -> Meter:
        """Of one device, that of its stream; of several, that of the host."""
        if len(self._devices) > 1:
            return Meter(watch=True)
        self._meter = DeviceMeter(self._devices[0])
        return self._meter

    def close(self) -> None:
        """Let go of the buffers; torch keeps them until copies are done."""
        self._slots = deque(Slot() for _ in self._slots)

    def convert(self, block: Block) -> Block:
        """The rows of a block, on their way."""
        first = ordinal(block.mark)
        wanted = self._casts.of(block.structure) if self._casts else [None] * len(block.columns)
        rows = zip(*(values(c) for c in block.columns), strict=True) if block.columns else [()] * block.rows
        staged: Column = [
            self._staged(block.structure, row, wanted, self._devices[(first + i) % len(self._devices)])
            for i, row in enumerate(rows)
        ]
        return Block(LEAF, [staged], block.rows)

    def _staged(self, structure: Structure, row: tuple[Any, ...], wanted: list[Any], device: Any) -> Staged:
        parts = [_parts(v) for v in row]
        tensors = [
            [self._typed(array, dtype if i == 0 else None, path) for i, array in enumerate(arrays)]
            for arrays, dtype, path in zip(parts, wanted, structure.paths, strict=True)
        ]
        nbytes = sum(aligned(t.numel() * small.itemsize) for ts in tensors for t, small, _ in ts)
        stream = self._streams[device]
        with self._cuda.device(device), self._cuda.stream(stream):
            copy = self._through_slot(nbytes) if self._pin else (lambda t, small: t.to(small))
            leaves = [
                Moved(*(copy(t, small).to(device, non_blocking=True).to(large) for t, small, large in ts)) if ts else v
                for v, ts in zip(_shown(row), tensors, strict=True)
            ]
            there = stream.record_event()
        if self._pin:
            self._slots[-1].copied = there
        return Staged(structure, leaves, device, there, nbytes)

    def _through_slot(self, nbytes: int) -> Callable[[Any, Any], Any]:
        slot = self._slots[0]
        self._slots.rotate(-1)
        slot.reserve(nbytes)
        return slot.filled

    def _typed(self, array: NDArray[Any], wanted: Any, path: str) -> tuple[Any, Any, Any]:
        """The tensor, the dtype it travels with, and the dtype it ends with: casts happen where they save bytes."""
        tensor = readable(array, path)
        large = wanted or self._casts.dtype(array.dtype) or tensor.dtype
        small = large if large.itemsize < tensor.dtype.itemsize else tensor.dtype
        return tensor, small, large

    def deliver(self, staged: Staged) -> Any:
        """Have the consumer's stream wait for the copy, not the program."""
        stream = self._cuda.current_stream(staged.device)
        stream.wait_event(staged.there)
        for leaf in staged.leaves:
            if isinstance(leaf, Moved):
                for tensor in leaf.parts:
                    tensor.record_stream(stream)
        if self._wait:
            staged.there.synchronize()
        if self._meter is not None:
            self._meter.delivered(stream)
        return staged.structure.pack(v.whole() if isinstance(v, Moved) else v for v in staged.leaves)


def _parts(value: Any) -> list[NDArray[Any]]:
    """The arrays of a component that go to the device."""
    if isinstance(value, Ragged):
        return [value.values, value.offsets]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return [] if array.dtype.hasobject else [array]
    return []


def _shown(row: tuple[Any, ...]) -> list[Any]:
    """What stays on the host, as lists."""
    return [v.tolist() if isinstance(v, np.ndarray) and v.dtype.hasobject else v for v in row]


class DeviceMeter(Meter):
    """Waiting as the device sees it: its stream had nothing to do between the last kernel and the next batch.

    The program's own time says little: it runs ahead of the device, and may wait for data while that is still busy.
    """

    def __init__(self, device: Any) -> None:
        super().__init__(watch=True)
        self._cuda = framework("torch", "to_torch").cuda
        self._device = device
        self._batches = 0
        self._pending: deque[tuple[Any, Any, Any]] = deque()
        self._stats: Callable[[], dict[str, Any]] | None = None
        self._last: Any = None
        self._wanted: Any = None

    def asked(self) -> None:
        """The consumer has queued all it had to do with the last batch."""
        if self._last is not None:
            self._wanted = self._event(self._cuda.current_stream(self._device))

    def given(self, stats: Callable[[], dict[str, Any]]) -> None:
        """The batch is delivered next."""
        self._stats = stats

    def delivered(self, stream: Any) -> None:
        """The stream goes on with the batch here."""
        self._batches += 1
        if self._last is not None:
            given = self._event(stream)
            self._pending.append((self._last, self._wanted or given, given))
            self._last = self._wanted = None
            self._count()
        if self._batches <= 2 * EVERY or self._batches % EVERY == 0:
            self._last = self._event(stream)

    def _event(self, stream: Any) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def _count(self) -> None:
        while self._pending and all(event.query() for event in self._pending[0]):
            last, wanted, given = self._pending.popleft()
            assert self._stats is not None
            waited, computed = wanted.elapsed_time(given), last.elapsed_time(wanted)
            scale = 1e6 if self._batches <= 2 * EVERY else 1e6 * EVERY
            self.add(int(waited * scale), int(computed * scale), self._stats)

    def report(self) -> dict[str, float]:
        """Seconds on the device, of the batches it has taken up."""
        self._count()
        return super().report()
