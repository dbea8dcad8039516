"""Records fetched by number, by way of an index."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _native
from headrace.errors import HeadraceError
from headrace.records.files import Bytes, identity, local_path
from headrace.records.format import Offsets
from headrace.records.identity import Identity
from headrace.records.index import Index
from headrace.records.redact import shown
from headrace.records.remote import RemoteFile
from headrace.records.transport import Transport


def gathered(path: str, index: Index, numbers: Offsets, shared: dict[Any, Any], via: Transport) -> Bytes:
    """The bytes of these records, one behind the other; `shared` keeps files open from one call to the next."""
    unique, order = np.unique(numbers, return_inverse=True)
    bounds = np.empty((len(unique), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = index.starts(unique), index.starts(unique + 1)
    local = local_path(path)
    unfinished = index.terminator if index.terminator and unique[-1] == index.count - 1 else b""
    if local is None or unfinished:
        pieces = (
            _ranges(path, index, bounds, shared, via)
            if local is None
            else _sliced(_mapped(path, local, index, shared), bounds)
        )
        pieces[-1] += unfinished
        return np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)
    lengths = (bounds[:, 1] - bounds[:, 0])[order]
    out = np.empty(int(lengths.sum()), np.uint8)
    data = _mapped(path, local, index, shared)
    _native.ragged_take(data[:, None], bounds.ravel(), 2 * order.astype(np.int64), out[:, None])
    return out


def _sliced(data: Bytes, bounds: Offsets) -> list[bytes]:
    return [data[start:stop].tobytes() for start, stop in bounds.tolist()]


def _ranges(path: str, index: Index, bounds: Offsets, shared: dict[Any, Any], via: Transport) -> list[bytes]:
    file: RemoteFile | None = shared.get(path)
    if file is None:
        file = RemoteFile(path, via)
        _unchanged(path, file.identity, index)
        shared[path] = file
    return file.read_ranges([(start, stop) for start, stop in bounds.tolist()])


def _unchanged(path: str, found: Identity, index: Index) -> None:
    if found != index.identity:
        raise HeadraceError(f"{shown(path)} has changed since its index was made; make the dataset anew")


def _mapped(path: str, local: str, index: Index, shared: dict[Any, Any]) -> Bytes:
    """The file as memory, mapped once a pass."""
    found: Bytes | None = shared.get(path)
    if found is None:
        _unchanged(path, identity(path), index)
        with Path(local).open("rb") as file:
            found = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        shared[path] = found
    return found
