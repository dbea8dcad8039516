"""Records fetched by number, by way of an index."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import _native
from headrace.errors import HeadraceError
from headrace.records.files import Bytes, LocalFile, local_path, shrunk
from headrace.records.format import Offsets
from headrace.records.identity import Identity
from headrace.records.index import Index
from headrace.records.redact import show_path
from headrace.records.remote import RemoteFile
from headrace.records.transport import Transport


def read_records_at(path: str, index: Index, numbers: Offsets, shared: dict[Any, Any], via: Transport) -> Bytes:
    """The bytes of these records, one behind the other; `shared` keeps files open from one call to the next.

    Raises OSError where the file cannot be read.
    """
    unique, order = np.unique(numbers, return_inverse=True)
    bounds = np.empty((len(unique), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = index.starts(unique), index.starts(unique + 1)
    local = local_path(path)
    unfinished = index.terminator if index.terminator and unique[-1] == index.count - 1 else b""
    if local is None:
        return _join_runs(_ranges(path, index, bounds, shared, via), order, unfinished)
    file, data = _map_file(path, local, index, shared)
    if unfinished:
        out = _join_runs([data[start:stop].tobytes() for start, stop in bounds.tolist()], order, unfinished)
    else:
        lengths = (bounds[:, 1] - bounds[:, 0])[order]
        out = np.empty(int(lengths.sum()), np.uint8)
        _native.ragged_take(data, bounds.ravel(), 2 * order.astype(np.int64), out[:, None])
    if not file.intact:
        raise shrunk()
    return out


def _join_runs(pieces: list[bytes], order: Offsets, end: bytes) -> Bytes:
    pieces[-1] += end
    return np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)


def _ranges(path: str, index: Index, bounds: Offsets, shared: dict[Any, Any], via: Transport) -> list[bytes]:
    file: RemoteFile | None = shared.get(path)
    if file is None:
        file = RemoteFile(path, via)
        _check(path, file.identity(), index)
        shared[path] = file
    return file.read_ranges([(start, stop) for start, stop in bounds.tolist()])


def _check(path: str, found: Identity, index: Index) -> None:
    if not index.belongs_to(found):
        raise HeadraceError(f"{show_path(path)} has changed since its index was made; make the dataset anew")


def _map_file(path: str, local: str, index: Index, shared: dict[Any, Any]) -> tuple[_native.MappedFile, Bytes]:
    """The file, mapped once a pass, and its bytes, one a row."""
    found: tuple[_native.MappedFile, Bytes] | None = shared.get(path)
    if found is None:
        file = LocalFile(local)
        try:
            _check(path, file.identity(), index)
            mapped = file.map_memory()
        finally:
            file.close()
        found = shared[path] = (mapped, mapped.data[:, None])
    return found
