"""Page-lock memory in place: a device reads it without an intermediate copy."""

from __future__ import annotations

import platform
import re
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from headrace import _native
from headrace.core.ragged import address_of
from headrace.core.types import Array, DeviceLike
from headrace.execute.budget import free_memory

MIN_LOCKED_BYTES = 16 << 20
"""Smaller arrays are not worth it."""
MEMORY_FRACTION = 4
"""At most this part of the free memory is locked: what is locked cannot give way to anything."""

LEAST_KERNEL = (5, 10)
"""Before, a process that forked wrote to copies of its locked pages, and the device read the old ones."""

LockMemory = Callable[[int, int], bool]
"""A function that page-locks bytes at an address; False if that is impossible."""
UnlockMemory = Callable[[int], None]


class Locked:
    """Which arrays behind batches a device may read directly; `pool` decides for batches in its memory.

    Locking memory costs as much as copying it about ten times, so an array is locked when all of it has been copied
    once and it is used again. That happens on a separate thread; meanwhile batches are copied as before. An array stays
    locked, and alive, as long as this object does.
    """

    def __init__(self, lock: LockMemory, unlock: UnlockMemory, pool: LockedPool) -> None:
        self.pool = pool
        self._calls = lock, unlock
        self._owners: dict[int, Owner] = {}
        self._reading: dict[Any, Any] = {}
        self._mutex = threading.Lock()
        weakref.finalize(self, _unlock_all, self._owners, self._reading).atexit = False

    def holds(self, array: Array) -> bool:
        """Return whether an array, all of which is about to be copied, is in locked memory."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if root.nbytes < MIN_LOCKED_BYTES or not root.flags.owndata or not array.flags.c_contiguous:
            return False
        with self._mutex:
            owner = self._owners.get(id(root)) or self._new(root)
            again, owner.copied = owner.copied >= root.nbytes, owner.copied + array.nbytes
            if again and not owner.tried:
                owner.tried = True
                if _is_room(self._owners, root.nbytes):
                    owner.start(address_of(root), root.nbytes, root)
        return owner.locked

    def _new(self, root: Array) -> Owner:
        key, owners = id(root), self._owners
        owner = owners[key] = Owner(*self._calls)
        owner.gone = weakref.ref(root, lambda _: owners.pop(key, None))
        return owner

    def read(self, device: DeviceLike, done: object) -> None:
        """Note that a device reads locked memory until the event `done`."""
        self._reading[device] = done


def _unlock_all(owners: dict[int, Owner], reading: dict[Any, Any]) -> None:
    for done in reading.values():
        done.synchronize()
    for owner in list(owners.values()):
        owner.drop()


class LockedPool:
    """Which mappings of the pool a device may read directly: batches reuse the same few mappings.

    One is locked when a batch is to be copied from it for the second time. It stays so while the pool uses it, and this
    object lives. A batch must stay alive until the device has read it: then its memory is reused.
    """

    def __init__(self, lock: LockMemory, unlock: UnlockMemory) -> None:
        self._calls = partial(_lock_mapping, lock), partial(_unlock_mapping, unlock)
        self._safe = _kernel() >= LEAST_KERNEL
        self._owners: dict[int, Owner] = {}
        self._mutex = threading.Lock()
        weakref.finalize(self, _unlock_all, self._owners, {}).atexit = False

    def holds(self, array: Array) -> bool:
        """Return whether an array, which is about to be copied, is in locked memory of the pool."""
        if not self._safe or not array.nbytes or not array.flags.c_contiguous:
            return False
        found = _native.pool_mapping(address_of(array))
        if found is None:
            return False
        start, nbytes = found
        with self._mutex:
            for unwanted in _native.pool_unwanted():
                if unwanted in self._owners:
                    self._owners.pop(unwanted).drop()
            owner = self._owners.setdefault(start, Owner(*self._calls))
            again, owner.copied = owner.copied > 0, nbytes
            if again and not owner.tried:
                owner.tried = True
                if _is_room(self._owners, nbytes) and _native.pool_pin(start):
                    owner.start(start, nbytes)
        return owner.locked


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


def _lock_mapping(lock: LockMemory, start: int, nbytes: int) -> bool:
    done = lock(start, nbytes)
    if not done:
        _native.pool_unpin(start)
    return done


def _unlock_mapping(unlock: UnlockMemory, start: int) -> None:
    unlock(start)
    _native.pool_unpin(start)


def _is_room(owners: dict[int, Owner], nbytes: int) -> bool:
    return sum(owner.nbytes for owner in list(owners.values())) + nbytes <= free_memory() // MEMORY_FRACTION


class Owner:
    """Memory of one array, or one mapping: how much of it has been copied, and whether it is locked."""

    def __init__(self, lock: LockMemory, unlock: UnlockMemory) -> None:
        self._lock = lock
        self._unlock = unlock
        self._mutex = threading.Lock()
        self._dropped = False
        self._address = 0
        self._kept: Array | None = None
        self.gone: Any = None
        self.copied = 0
        self.nbytes: int = 0
        """How much is locked, or about to be."""
        self.tried = False
        self.locked: bool = False

    def start(self, address: int, nbytes: int, kept: Array | None = None) -> None:
        """Lock memory, and keep what it belongs to alive from now on."""
        self._address, self.nbytes, self._kept = address, nbytes, kept
        # On a separate thread a failure leaves no CUDA error for other code.
        threading.Thread(target=self._run, name="headrace-page-lock", daemon=True).start()

    def _run(self) -> None:
        done = self._lock(self._address, self.nbytes)
        with self._mutex:
            self.locked = kept = done and not self._dropped
        if done and not kept:
            self._unlock(self._address)
        if not kept:
            self._let_go()

    def drop(self) -> None:
        """Unlock the memory, now or when the thread is done."""
        with self._mutex:
            self._dropped = True
            locked, self.locked = self.locked, False
        if locked:
            self._unlock(self._address)
            self._let_go()

    def _let_go(self) -> None:
        self._kept, self.nbytes = None, 0
