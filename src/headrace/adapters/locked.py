"""Arrays that batches are views of, page-locked where they lie: a device reads them without a copy in between."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.execute.budget import free_memory

LEAST_BYTES = 16 << 20
"""Smaller arrays are not worth it."""
SHARE = 4
"""At most this part of the free memory is locked: what is locked cannot give way to anything."""

Array = NDArray[Any]
LockMemory = Callable[[int, int], bool]
"""Page-locks so many bytes at an address; False if that cannot be."""
UnlockMemory = Callable[[int], None]


class Locked:
    """Which arrays a device may read directly.

    To lock memory costs as much as copying it about ten times, so an array is locked when all of it has been copied
    once and it is wanted again. That happens on a thread of its own; meanwhile batches are copied as before. An array
    stays locked, and alive, as long as this object does.
    """

    def __init__(self, lock: LockMemory, unlock: UnlockMemory) -> None:
        self._calls = lock, unlock
        self._owners: dict[int, Owner] = {}
        self._reading: dict[Any, Any] = {}
        self._mutex = threading.Lock()
        weakref.finalize(self, _unlock_all, self._owners, self._reading).atexit = False

    def holds(self, array: Array) -> bool:
        """Whether an array, all of which is about to be copied, lies in locked memory."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if root.nbytes < LEAST_BYTES or not root.flags.owndata or not array.flags.c_contiguous:
            return False
        with self._mutex:
            owner = self._owners.get(id(root)) or self._new(root)
            again, owner.copied = owner.copied >= root.nbytes, owner.copied + array.nbytes
            if again and not owner.tried:
                owner.tried = True
                if self._locked_bytes() + root.nbytes <= free_memory() // SHARE:
                    owner.start(root)
        return owner.locked

    def _new(self, root: Array) -> Owner:
        key, owners = id(root), self._owners
        owner = owners[key] = Owner(*self._calls)
        owner.gone = weakref.ref(root, lambda _: owners.pop(key, None))
        return owner

    def _locked_bytes(self) -> int:
        return sum(owner.array.nbytes for owner in list(self._owners.values()) if owner.array is not None)

    def read(self, device: Any, done: Any) -> None:
        """A device reads locked memory until the event `done`."""
        self._reading[device] = done


def _unlock_all(owners: dict[int, Owner], reading: dict[Any, Any]) -> None:
    for done in reading.values():
        done.synchronize()
    for owner in list(owners.values()):
        owner.drop()


class Owner:
    """An array that has memory of its own: how much of it has been copied, and whether it is locked."""

    def __init__(self, lock: LockMemory, unlock: UnlockMemory) -> None:
        self._lock = lock
        self._unlock = unlock
        self._mutex = threading.Lock()
        self._dropped = False
        self.gone: Any = None
        self.copied = 0
        self.tried = False
        self.locked = False
        self.array: Array | None = None

    def start(self, array: Array) -> None:
        """Lock the array, which stays alive from now on."""
        self.array = array
        # On a thread of its own a failure leaves no error behind that CUDA would tell somebody else of.
        threading.Thread(target=self._run, args=(array,), name="headrace-page-lock", daemon=True).start()

    def _run(self, array: Array) -> None:
        done = self._lock(_address(array), array.nbytes)
        with self._mutex:
            self.locked = kept = done and not self._dropped
        if done and not kept:
            self._unlock(_address(array))
        if not kept:
            self.array = None

    def drop(self) -> None:
        """Unlock the array, now or when the thread is done."""
        with self._mutex:
            self._dropped = True
            locked, self.locked = self.locked, False
        if locked and self.array is not None:
            self._unlock(_address(self.array))
            self.array = None


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
