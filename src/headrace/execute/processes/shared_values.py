"""Pass values to another process: arrays through shared memory, everything else pickled."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import cache, lru_cache
from hashlib import blake2b
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import DTypeLike

from headrace.columns.block import Block
from headrace.columns.dense import copy_with_help, room_for
from headrace.columns.kind import Column
from headrace.core.extended import is_extended
from headrace.core.types import Array, Component, JsonValue
from headrace.errors import WorkerError
from headrace.plan.bound import Portable, original_of
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    pass

_ALIGNMENT = 64
_GROWTH_BYTES = 1 << 20
MAX_INLINE_BYTES = 1 << 12
"""Bytes up to this size go with the message itself. More would fill up the connection."""


class Shared:
    """Anonymous memory, freed with the last process that holds it. The writer makes it large enough."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> Shared:
        """Create empty memory."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("headrace", os.MFD_CLOEXEC))
        with tempfile.TemporaryFile() as file:  # has no name either
            return cls(os.dup(file.fileno()))

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            there = os.fstat(self.fd).st_size
            if there < size:
                step = min(_GROWTH_BYTES, 1 << (size - 1).bit_length())
                _allocate(self.fd, there, -(-size // step) * step)
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        return self._map

    def write(self, arrays: list[Array]) -> list[int]:
        """Write arrays and return the offset of each."""
        placed, end = [], 0
        for array in arrays:
            placed.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        if end:
            memory = self._mapped(end)
            for array, start in zip(arrays, placed, strict=True):
                if array.nbytes:
                    copy_with_help(array, np.ndarray(array.shape, array.dtype, memory, start))
        return placed

    def read(self, start: int, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
        """Return a private copy of an array."""
        out = room_for(shape, dtype)
        if out.nbytes:
            copy_with_help(self.lend(start, out.dtype, shape), out)
        return out

    def lend(self, start: int, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
        """Return an array in place, without a copy."""
        kind = np.dtype(dtype)
        size = kind.itemsize * prod(shape)
        return np.ndarray(shape, kind, self._mapped(start + size), start) if size else np.empty(shape, kind)

    def close(self) -> None:
        """Close it."""
        self._map = None
        os.close(self.fd)


def _allocate(fd: int, start: int, stop: int) -> None:
    """Extend a file by bytes that exist: a write to a hole of a mapped file ends the process if there is no space."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, start, stop - start)
            return
        while start < stop:
            start += os.pwrite(fd, bytes(min(_GROWTH_BYTES, stop - start)), start)
    except OSError as error:
        raise WorkerError(
            f"no shared memory for the {stop} bytes of a message between processes: {error.strerror}. Use smaller "
            "batches, fewer processes, or a machine or container with more memory"
        ) from error


class PackedValues(NamedTuple):
    """Values split into arrays and bytes, ready to be written to any memory, once for several processes."""

    plan: list[Component]
    others: int
    data: bytes
    arrays: list[Array]
    sizes: list[int]

    def write(self, memory: Shared) -> bytes:
        """Return a message that `from_message` turns into the values again, in a process with the same memory."""
        data, arrays, sizes = self.data, self.arrays, self.sizes
        if len(data) > MAX_INLINE_BYTES:
            arrays, sizes = [*arrays, np.frombuffer(data, np.uint8)], [*sizes, len(data)]
        return pickle.dumps(
            (self.plan, self.others, None if len(data) > MAX_INLINE_BYTES else data, memory.write(arrays), sizes)
        )

    def digest(self) -> bytes:
        """Return a digest of these values."""
        found = blake2b(pickle.dumps((self.plan, self.data, self.sizes)), digest_size=16)
        for array in self.arrays:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return found.digest()


def to_message(parts: list[Component], memory: Shared) -> bytes:
    """Return a message that `from_message` turns into the parts again, in a process with the same memory."""
    return take_apart(parts).write(memory)


def take_apart(parts: list[Component]) -> PackedValues:
    """Split the parts into arrays and a few bytes.

    Blocks are split first: pickling them whole takes many times as long as copying a small one.
    """
    arrays: list[Array] = []
    rest: list[Component] = []
    plan: list[Component] = []

    def noted(column: object) -> JsonValue:
        if type(column) is np.ndarray and column.dtype.kind in "biufcmM" and not is_extended(column.dtype):
            arrays.append(column)
            return len(arrays) - 1, column.dtype.str, column.shape
        rest.append(_compact(column) if hasattr(column, "buffers") else column)
        return len(rest) - 1

    for part in parts:
        if isinstance(part, Block):
            columns = [noted(c) for c in (*part.columns, part.ids)]
            plan.append((_pickle_structure(part.structure, _orders(part.structure)), part.rows, columns))
        else:
            plan.append(len(rest))
            rest.append(part)
    data, buffers = _pickle_apart(rest, arrays) if any(r is not None for r in rest) else (b"", [])
    return PackedValues(plan, len(rest), data, arrays + buffers, [buffer.nbytes for buffer in buffers])


def _compact(column: object) -> Column:
    """Return an Arrow array without the rows around it, which would be pickled with it."""
    import pyarrow as pa

    return pa.concat_arrays([column])


def from_message(message: bytes, memory: Shared, *, lent: bool = False) -> list[Component]:
    """Return the parts. They share nothing with the memory unless columns are `lent`."""
    plan, count, data, places, sizes = pickle.loads(message)
    rest: list[Component] = [None] * count
    if data != b"":
        starts = places[len(places) - len(sizes) :]
        buffers = [memory.read(start, "u1", (size,)) for start, size in zip(starts, sizes, strict=True)]
        data = buffers.pop().tobytes() if data is None else data
        unpacker = _Unpacker(io.BytesIO(data), buffers=buffers)
        unpacker.array = lambda number, dtype, shape: memory.read(places[number], dtype, shape)
        rest = unpacker.load()

    array = memory.lend if lent else memory.read

    def found(place: JsonValue) -> Column:
        return rest[place] if isinstance(place, int) else array(places[place[0]], place[1], place[2])

    parts: list[Component] = []
    for part in plan:
        if isinstance(part, int):
            parts.append(rest[part])
            continue
        structure, rows, columns = part
        *made, ids = map(found, columns)
        parts.append(Block(_read(structure), made, rows, None, ids))
    return parts


def _orders(structure: Structure) -> JsonValue:
    """Return the key order of dicts, which is no part of a structure's identity."""
    return structure.written, *map(_orders, structure.children)


@lru_cache(256)
def _pickle_structure(structure: Structure, _orders: object) -> bytes:
    return _pickle_apart(structure, [])[0]


@lru_cache(256)
def _read(structure: bytes) -> Structure:
    made: Structure = pickle.loads(structure)
    return made


def _pickle_apart(value: object, arrays: list[Array]) -> tuple[bytes, list[Array]]:
    """Return the pickled value without its arrays, which are appended to `arrays`, and its out-of-band buffers."""
    file = io.BytesIO()
    buffers: list[Array] = []
    packer = _Packer(file, protocol=5, buffer_callback=lambda b: buffers.append(np.frombuffer(b.raw(), np.uint8)))
    packer.arrays = arrays
    packer.dump(value)
    return file.getvalue(), buffers


class Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle for another process: objects that it could not import go by value."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, FunctionType | type):
            _prepare(obj.__module__)
        if type(obj) is FunctionType and (original := original_of(obj)) is not None:
            return Portable(obj, original).__reduce__()
        return super().reducer_override(obj)


class _Packer(Packer):
    """Leave arrays out, at any depth."""

    arrays: list[Array]

    def persistent_id(self, obj: object) -> JsonValue:
        if type(obj) is not np.ndarray or obj.dtype.hasobject:
            return None
        self.arrays.append(obj)
        return len(self.arrays) - 1, obj.dtype, obj.shape


class _Unpacker(pickle.Unpickler):
    array: Callable[..., Array]

    def persistent_load(self, pid: JsonValue) -> JsonValue:
        return self.array(*pid)


@cache
def _prepare(name: str | None) -> None:
    """Register a module for pickling by value if another process cannot import it, for example a test file."""
    module = sys.modules.get(name or "")
    if (
        module is not None
        and name != "__main__"
        and not _importable(module.__name__, getattr(module, "__file__", None))
    ):
        cloudpickle.register_pickle_by_value(module)


def _importable(name: str, file: str | None) -> bool:
    """Return whether an import would find this file; `find_spec` only reports what was imported here."""
    path: str | None = None
    spec: Any = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        finders = [finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec")]
        specs = (find(".".join(parts[:end]), path) for find in finders)
        spec = next((s for s in specs if s is not None), None)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return file is None or spec.origin in (file, "frozen")  # in the interpreter, like abc and os
