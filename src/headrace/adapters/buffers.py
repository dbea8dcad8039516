"""Page-locked buffers that batches pass through on their way to a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.adapters.tensors import Casts, readable
from headrace.columns.dense import copy_with_help
from headrace.core.frameworks import framework
from headrace.core.types import Array, Component, DeviceLike, TorchTensor

if TYPE_CHECKING:
    import torch

    pass

ALIGNMENT_BYTES = 256
"""The alignment of components in a buffer: that of CUDA's own allocator."""
MAX_JOINT_BYTES = 64 << 10
"""Components up to this size travel in one copy.

They share memory then, so no large one may be among them: keeping the labels of an epoch must not keep its images.
"""


MAX_CACHED_LAYOUTS = 16
"""How many layouts are cached: the number of batches that come together varies."""


class BufferPart(NamedTuple):
    """An array that goes to a device, the dtype requested for its component, and the component's name for errors."""

    array: Array
    wanted: torch.dtype | None
    path: str


class Route:
    """How arrays of a kind travel: casts happen on the side that saves bytes."""

    __slots__ = ("ends_as", "own", "travels_as")

    def __init__(self, part: BufferPart, casts: Casts) -> None:
        self.own: torch.dtype = readable(part.array, part.path).dtype
        self.ends_as: torch.dtype = part.wanted or casts.dtype(part.array.dtype) or self.own
        self.travels_as: torch.dtype = self.ends_as if self.ends_as.itemsize < self.own.itemsize else self.own

    def receive(self, tensor: TorchTensor) -> TorchTensor:
        """Return a tensor on the device with the dtype that was requested."""
        return tensor if self.ends_as is self.travels_as else tensor.to(self.ends_as)


class Room:
    """The region of one array in a buffer."""

    __slots__ = ("_array", "_cut", "_tensor", "route")

    def __init__(self, part: BufferPart, route: Route, memory: TorchTensor, place: slice, *, shared: bool) -> None:
        self.route: Route = route
        self._tensor = memory[place].view(route.travels_as).view(part.array.shape)
        begin = place.start // route.travels_as.itemsize
        self._cut = (self._tensor.shape, self._tensor.stride(), begin) if shared else None
        self._array = self._tensor.numpy() if route.travels_as is route.own else None

    def fill(self, part: BufferPart) -> None:
        """Copy an array into the buffer; the GIL is free meanwhile."""
        if self._array is None:
            self._tensor.copy_(readable(part.array, part.path))
        else:
            copy_with_help(part.array, self._array)  # by our threads: those of torch spin when they are done

    def on_device(self, together: dict[Any, Any], device: DeviceLike) -> TorchTensor:
        """Return the array on the device: by itself, or cut from those that travelled `together`, seen as its dtype."""
        if self._cut is None:
            return self.route.receive(self._tensor.to(device, non_blocking=True))
        return self.route.receive(together[self.route.travels_as].as_strided(*self._cut))


class BufferLayout(NamedTuple):
    """The offsets of a batch's arrays in a buffer, and the part of it that travels in one copy, if there is one."""

    rooms: list[Room]
    together: TorchTensor


class Buffer:
    """A page-locked buffer, the layouts of recent batches, and the event after the last copy out of it."""

    def __init__(self, casts: Casts) -> None:
        self._casts = casts
        self._memory: TorchTensor = None
        self._layouts: dict[tuple[Any, ...], BufferLayout] = {}
        self.copied: torch.dtype = None
        self.lent: list[Array] = []
        """Arrays of the last batch that the device reads in place."""

    def wait(self) -> None:
        """Wait until the last batch has left."""
        if self.copied is not None:
            self.copied.synchronize()
        self.lent = []

    def __del__(self) -> None:
        if getattr(self, "lent", None):  # an interrupt may have come before it was made
            self.wait()

    def send(self, parts: Sequence[BufferPart], device: DeviceLike) -> tuple[list[Component], list[Component]]:
        """Return the arrays on a device, copied there on the current stream, and the tensors that own their memory."""
        kinds = tuple((array.shape, array.dtype, wanted) for array, wanted, _ in parts)
        layout = self._layouts.get(kinds)
        if layout is None:
            layout = self._lay_out(parts)
            self._layouts[kinds] = layout
        for room, part in zip(layout.rooms, parts, strict=True):
            room.fill(part)
        if layout.together is None:
            tensors = [room.on_device({}, device) for room in layout.rooms]
            return tensors, tensors
        memory = layout.together.to(device, non_blocking=True)
        together = {dtype: memory.view(dtype) for dtype in {room.route.travels_as for room in layout.rooms}}
        tensors = [room.on_device(together, device) for room in layout.rooms]
        return tensors, [memory, *(tensor for tensor in tensors if not tensor._is_view())]

    def _lay_out(self, parts: Sequence[BufferPart]) -> BufferLayout:
        """Return a place for every array: small ones first, side by side."""
        routes = [Route(part, self._casts) for part in parts]
        sizes = [part.array.size * route.travels_as.itemsize for part, route in zip(parts, routes, strict=True)]
        order = sorted(range(len(parts)), key=lambda i: sizes[i] > MAX_JOINT_BYTES)
        several = sum(size <= MAX_JOINT_BYTES for size in sizes) > 1
        places = [slice(0)] * len(parts)
        end = shared = 0
        for i in order:
            places[i] = slice(end, end + sizes[i])
            end += -(-sizes[i] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            shared = end if several and sizes[i] <= MAX_JOINT_BYTES else shared
        memory = self._reserved(end)
        rooms = [
            Room(part, route, memory, place, shared=place.stop <= shared)
            for part, route, place in zip(parts, routes, places, strict=True)
        ]
        return BufferLayout(rooms, memory[:shared] if several else None)

    def _reserved(self, nbytes: int) -> TorchTensor:
        torch = framework("torch", "to_torch")
        if len(self._layouts) >= MAX_CACHED_LAYOUTS:
            self._layouts.clear()
        if self._memory is None or self._memory.numel() < nbytes:
            self._memory = None  # the old one goes back before the new one is taken
            self._layouts.clear()
            self._memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        return self._memory
