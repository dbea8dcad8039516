"""A device and the stream on which its work is queued: transfers, waiting, memory."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns.dense import copy_with_help
from headrace.core.frameworks import framework
from headrace.core.types import Array, DeviceLike, Library, LibraryObject, TorchTensor
from headrace.device.nvjpeg import Decoder, open_decoder
from headrace.device.pixels import DeviceValue
from headrace.errors import TransportError
from headrace.plan.once import cached_property

if TYPE_CHECKING:
    from headrace.device.pixels import DeviceValue

    pass

log: logging.Logger = logging.getLogger("headrace")

TORCH = "map(device=…)"
"""What needs PyTorch, for the error if it is missing."""


class DeviceMemoryError(TransportError, MemoryError):
    """The device has no memory left for a batch. The iterator keeps its position."""


class Usage:
    """What the device did for one stage: time, bytes that travelled, bytes of results that are alive."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._moved = 0
        self._held = 0
        self._most_held = 0
        self._batches = 0
        self._pending: deque[tuple[LibraryObject, LibraryObject]] = deque()

    def add(self, *, seconds: float = 0.0, moved: int = 0, batches: int = 0) -> None:
        """Count work that is done."""
        with self._lock:
            self._seconds += seconds
            self._moved += moved
            self._batches += batches

    def add_events(self, start: object, end: object) -> None:
        """Count the time between two events of the device once both are reached."""
        with self._lock:
            self._pending.append((start, end))
            while len(self._pending) > 1 and self._pending[0][1].query():
                first, last = self._pending.popleft()
                self._seconds += first.elapsed_time(last) / 1e3

    def hold(self, nbytes: int) -> None:
        """Count bytes of a result that is alive; negative once it is freed."""
        with self._lock:
            self._held += nbytes
            self._most_held = max(self._most_held, self._held)

    def report(self) -> dict[str, Any]:
        """Return the counts, for `stats()`."""
        with self._lock:
            while self._pending and self._pending[0][1].query():
                first, last = self._pending.popleft()
                self._seconds += first.elapsed_time(last) / 1e3
            return {
                "device": self.device,
                "device_s": self._seconds,
                "moved_bytes": self._moved,
                "held_bytes": self._held,
                "most_held_bytes": self._most_held,
                "batches": self._batches,
            }


class Machine:
    """One device as this process uses it.

    On CUDA all work of feeds is queued on one side stream: operations on columns are entered by `queue()`, so that they
    follow one another, and a consumer waits for them with `hand_over()`.
    """

    def __init__(self, name: str) -> None:
        torch: Library = framework("torch", TORCH)
        self.torch: Library = torch
        self.device: DeviceLike = torch.device(name)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        # Of high priority, because the consumer waits for it while the device has much other work queued.
        self.stream: LibraryObject = torch.cuda.Stream(self.device, priority=-1) if self.on_gpu else None

    @property
    def on_gpu(self) -> bool:
        """Whether work is queued instead of done at once."""
        return bool(self.device.type == "cuda")

    @cached_property
    def kernels(self) -> ModuleType | None:
        """The kernels that read pixels, with the results of PyTorch's operations; None if Triton cannot run them."""
        if not self.on_gpu:
            return None
        try:
            from headrace.device import fused_kernels, triton_kernels

            triton_kernels.try_out(self)
            fused_kernels.try_out(self)
        except Exception as error:
            log.warning(
                "%s: crops, resizes and colours run by single operations of PyTorch, which take ten times as long, "
                "because Triton cannot compile kernels here (%s): install triton and a C compiler",
                self.device, error,
            )  # fmt: skip
            return None
        return triton_kernels

    @cached_property
    def jpeg_decoder(self) -> Decoder | None:
        """The JPEG engine of the GPU; None if it has none, or nvJPEG is not found."""
        return open_decoder(self) if self.on_gpu else None

    @cached_property
    def fused(self) -> ModuleType | None:
        """The kernels that are made of expressions; None if Triton cannot run them."""
        if self.kernels is None:
            return None
        from headrace.device import fused_kernels  # Triton is an optional dependency

        return fused_kernels

    @contextlib.contextmanager
    def queue(self) -> Iterator[None]:
        """Queue the device's work on the side stream; say what to do if its memory is full."""
        torch = self.torch
        try:
            with torch.no_grad(), contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
                yield
        except torch.OutOfMemoryError as error:
            if self.on_gpu:
                torch.cuda.empty_cache()
            raise DeviceMemoryError(
                f"{self.device} has no memory left for the next batch ({str(error).partition('. ')[0]}): make batches "
                "smaller, prefetch fewer of them (to_torch(prefetch=1)), or lower hr.Options(device_memory=…). The "
                "position is kept: the next next() tries again"
            ) from None

    @contextlib.contextmanager
    def timed(self, usage: Usage) -> Iterator[None]:
        """Count the time of the work that is queued inside: by events on a GPU, else by the clock."""
        if self.stream is None:
            started = time.perf_counter()
            yield
            usage.add(seconds=time.perf_counter() - started, batches=1)
            return
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(self.stream)
        yield
        end.record(self.stream)
        usage.add_events(start, end)
        usage.add(batches=1)

    def put(self, array: Array) -> DeviceValue:
        """Return the array on the device; on the CPU in the same memory, which must then not be written to.

        A copy to a GPU goes through page-locked memory, which PyTorch keeps until the copy is done.
        """
        rows = np.asarray(array, order="C")
        tensor = self.torch.from_numpy(writable_view(rows))
        if self.stream is None:
            return tensor
        locked = self.torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        copy_with_help(rows, locked.numpy())  # by our threads: those of PyTorch spin when they are done
        return locked.to(self.device, non_blocking=True)

    def fetch(self, tensor: TorchTensor) -> Array:
        """Return a tensor as an array; on the CPU in the same memory."""
        if tensor.dtype == self.torch.bfloat16:
            tensor = tensor.to(self.torch.float32)
        with self.queue():
            made: Array = tensor.numpy() if self.stream is None else tensor.to("cpu").numpy()
        return made

    def take(self, tensor: TorchTensor, indices: Array) -> DeviceValue:
        """Return some of the rows."""
        return tensor[self.put(indices)]

    def join(self, tensors: list[TorchTensor]) -> DeviceValue:
        """Return rows of several columns in one."""
        return self.torch.cat(tensors)

    def copied(self, tensor: TorchTensor) -> DeviceValue:
        """Return rows that share no memory with these."""
        return tensor.clone()

    def ready(self) -> LibraryObject:
        """Return an event that is reached once all that is queued so far is done; None if it is done already."""
        if self.stream is None:
            return None
        event = self.torch.cuda.Event(blocking=True)  # a thread that waits for it does not spin
        event.record(self.stream)
        return event

    def hand_over(self, tensors: list[DeviceValue], ready: object) -> None:
        """Let the consumer's current stream wait for `ready`, and keep the tensors' memory until it is done."""
        if ready is None:
            return
        current = self.torch.cuda.current_stream(self.device)
        current.wait_event(ready)
        for tensor in tensors:
            tensor.record_stream(current)


def check_device(name: object) -> str:
    """Return the name of a device as a text. Raise ValueError if PyTorch has no such device here."""
    text = str(name)
    kind, _, index = text.partition(":")
    if text != "auto" and (kind not in ("cpu", "cuda") or (index and not index.isdigit()) or text.startswith("cpu:")):
        raise ValueError(f'device must be "cpu", "cuda", "cuda:1" or "auto", not {text!r}')
    if text == "auto":
        return text  # what follows tells whether PyTorch or JAX runs it
    torch = framework("torch", TORCH)
    if kind == "cuda" and not torch.cuda.is_available():
        built = torch.version.cuda is not None
        why = "it finds no GPU or no driver" if built else "it was built without CUDA"
        raise ValueError(
            f'map(device="{text}"): PyTorch {torch.__version__} has no CUDA here, because {why}: leave out device=, or '
            'write device="auto" and to_torch(device="cuda" if torch.cuda.is_available() else "cpu")'
        )
    return text


def writable_view(array: Array) -> Array:
    """Return an array over the same memory that claims to be writable, as PyTorch wants it; it is only read."""
    return array if array.flags.writeable or not array.size else np.asarray(_Claimed(array))


class _Claimed:
    def __init__(self, array: Array) -> None:
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


_machines: dict[tuple[int, str], Machine] = {}
_lock = threading.Lock()


def machine_of(name: str) -> Machine:
    """Return the device of this name in this process, made when it is first used."""
    key = os.getpid(), name
    found = _machines.get(key)
    if found is None:
        with _lock:
            found = _machines.get(key) or _machines.setdefault(key, Machine(name))
    return found


def after_fork() -> None:
    """Replace the lock in a forked child."""
    global _lock  # noqa: PLW0603 - a thread that held it does not exist in the child
    _lock = threading.Lock()


os.register_at_fork(after_in_child=after_fork)
