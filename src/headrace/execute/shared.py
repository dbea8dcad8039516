"""Values for another process: arrays through memory that both see, all else pickled."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from types import FunctionType
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64
_GRAIN = 1 << 20


class Shared:
    """Memory without a name, which goes with the last process that holds it. Whoever writes makes it large enough."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> Shared:
        """New memory, of no size yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("headrace", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile() as file:  # has no name either
            return cls(os.dup(file.fileno()))

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            if os.fstat(self.fd).st_size < size:
                os.ftruncate(self.fd, -(-size // _GRAIN) * _GRAIN)
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        return self._map

    def write(self, arrays: Iterable[NDArray[Any]]) -> list[int]:
        """Put arrays there; returns where each begins."""
        placed, end = [], 0
        arrays = list(arrays)
        for array in arrays:
            placed.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        if end:
            memory = self._mapped(end)
            for array, start in zip(arrays, placed, strict=True):
                if array.nbytes:
                    np.copyto(np.ndarray(array.shape, array.dtype, memory, start), array)
        return placed

    def read(self, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """An array's copy, which nobody else sees."""
        out = np.empty(shape, dtype)
        if out.nbytes:
            np.copyto(out, np.ndarray(shape, dtype, self._mapped(start + out.nbytes), start))
        return out

    def close(self) -> None:
        """Let go of it."""
        self._map = None
        os.close(self.fd)


def pack(value: Any, memory: Shared) -> bytes:
    """A message that `unpack` turns into the value again, in a process that has the same memory."""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    places = memory.write(packer.arrays + packer.buffers)
    sizes = [(start, buffer.nbytes) for start, buffer in zip(places[len(packer.arrays) :], packer.buffers, strict=True)]
    return pickle.dumps((file.getvalue(), places[: len(packer.arrays)], sizes))


def unpack(message: bytes, memory: Shared) -> Any:
    """The value, sharing nothing with the memory."""
    data, places, sizes = pickle.loads(message)
    buffers = [memory.read(start, np.dtype(np.uint8), (size,)) for start, size in sizes]
    unpacker = _Unpacker(io.BytesIO(data), buffers=buffers)
    unpacker.places, unpacker.memory = places, memory
    return unpacker.load()


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves out arrays, wherever they stand, and notes them; what another process could not import goes by value."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._note)
        self.arrays: list[NDArray[Any]] = []
        self.buffers: list[NDArray[Any]] = []

    def _note(self, buffer: pickle.PickleBuffer) -> None:
        self.buffers.append(np.frombuffer(buffer.raw(), np.uint8))

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not np.ndarray or obj.dtype.hasobject:
            return None
        self.arrays.append(obj)
        return len(self.arrays) - 1, obj.dtype, obj.shape

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            _prepare(obj.__module__)
        return super().reducer_override(obj)


class _Unpacker(pickle.Unpickler):
    places: list[int]
    memory: Shared

    def persistent_load(self, pid: tuple[int, np.dtype[Any], tuple[int, ...]]) -> Any:
        number, dtype, shape = pid
        return self.memory.read(self.places[number], dtype, shape)


@cache
def _prepare(name: str | None) -> None:
    """Have what a module defines sent by value, if another process cannot import it: that of a test file, for one."""
    module = sys.modules.get(name or "")
    if (
        module is not None
        and name != "__main__"
        and not _importable(module.__name__, getattr(module, "__file__", None))
    ):
        cloudpickle.register_pickle_by_value(module)


def _importable(name: str, file: str | None) -> bool:
    """Whether an import would find this file; `find_spec` would only tell what has been imported here."""
    path: Any = None
    spec: Any = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        finders = [finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec")]
        specs = (find(".".join(parts[:end]), path) for find in finders)
        spec = next((s for s in specs if s is not None), None)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return file is None or spec.origin == file
