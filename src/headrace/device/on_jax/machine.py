"""The devices of JAX on which the rows of a feed are computed: transfers and columns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.core.frameworks import framework
from headrace.core.types import Array, Library
from headrace.device.machine import DeviceMemoryError, Usage
from headrace.device.on_jax.forms import JaxArray


@dataclass(frozen=True)
class Place:
    """Where rows are computed: a `jax.Device`, or a sharding of the first axis and one that every device shares."""

    rows: Any
    shared: Any

    def for_rows(self, count: int) -> Place:
        """Return this place if `count` rows can be divided among its devices; else one of them."""
        if not hasattr(self.rows, "shard_shape"):
            return self
        try:
            self.rows.shard_shape((count,))
        except ValueError:
            first = min(self.rows.addressable_devices, key=lambda device: int(device.id))
            return Place(first, first)
        return self


class JaxMachine:
    """A place as this process uses it. Work is queued by JAX itself; on its CPU device it is waited for."""

    def __init__(self, place: Place) -> None:
        self.jax: Library = framework("jax", "to_jax")
        self._place = place
        self.device: str = str(place.rows)
        devices = getattr(place.rows, "device_set", None) or {place.rows}
        self._on_cpu = all(device.platform == "cpu" for device in devices)

    @contextlib.contextmanager
    def queue(self) -> Iterator[None]:
        """Say what to do if the device's memory is full."""
        try:
            yield
        except RuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise DeviceMemoryError(
                f"{self.device} has no memory left for the next batch ({str(error).partition('. ')[0]}): make batches "
                "smaller, or prefetch fewer of them (to_jax(prefetch=1)). The position is kept: the next next() tries "
                "again"
            ) from None

    @contextlib.contextmanager
    def timed(self, usage: Usage) -> Iterator[None]:
        """Count the time that the calls took: on an accelerator, that of queueing."""
        started = time.perf_counter()
        yield
        usage.add(seconds=time.perf_counter() - started, batches=1)

    def put(self, array: Array) -> JaxArray:
        """Return an array that all rows share, on each device."""
        return self.jax.device_put(_own(array), self._place.shared)

    def put_rows(self, array: Array) -> JaxArray:
        """Return an array with the rows on its first axis, divided among the devices."""
        return self.jax.device_put(_own(array), self._place.rows)

    def padded(self, array: JaxArray, count: int) -> JaxArray:
        """Return rows of the device with the last one repeated, up to `count`."""
        missing = count - array.shape[0]
        if missing:
            array = self.jax.numpy.concatenate([array, self.jax.numpy.repeat(array[-1:], missing, 0)])
        return self.jax.device_put(array, self._place.rows)

    def done(self, made: JaxArray) -> JaxArray:
        """Wait for results on the CPU, which may read arrays of the pipeline in place."""
        return self.jax.block_until_ready(made) if self._on_cpu else made

    def fetch(self, tensor: JaxArray) -> Array:
        """Return a copy as an array of NumPy."""
        made = np.array(tensor)
        return made.astype(np.float32) if made.dtype.name == "bfloat16" else made

    def take(self, tensor: JaxArray, indices: Array) -> JaxArray:
        """Return some of the rows."""
        return tensor[np.asarray(indices)]

    def join(self, tensors: list[JaxArray]) -> JaxArray:
        """Return rows of several columns in one."""
        return self.jax.numpy.concatenate(tensors)

    def copied(self, tensor: JaxArray) -> JaxArray:
        """Return the same array: it cannot be written to."""
        return tensor


def _own(array: Array) -> Array:
    """Return the array, or a copy if its memory is shared: on the CPU, JAX keeps using what it gets."""
    return array if array.flags.writeable else array.copy()
