"""Records fetched by number, by way of an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace import _native
from headrace.errors import HeadraceError
from headrace.records.files import Bytes, LocalFile, broken, local_path
from headrace.records.format import Offsets
from headrace.records.identity import Identity
from headrace.records.index import Index
from headrace.records.redact import shown
from headrace.records.remote import RemoteFile
from headrace.records.transport import Transport


def gathered(path: str, index: Index, numbers: Offsets, shared: dict[Any, Any], via: Transport) -> Bytes:
    """The bytes of these records, one behind the other; `shared` keeps files open from one call to the next.

    Raises OSError where the file cannot be read.
    """
    joined = picked([path], [index], np.zeros(len(numbers), np.int64), numbers, shared)
    if joined is not None:
        return joined
    unique, order = np.unique(numbers, return_inverse=True)
    pieces = _pieces(path, index, _bounds(index, unique), shared, via)
    if index.terminator and unique[-1] == index.count - 1:
        pieces[-1] += index.terminator
    return np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)


def picked(
    paths: Sequence[str], indexes: Sequence[Index], which: Offsets, numbers: Offsets, shared: dict[Any, Any]
) -> Bytes | None:
    """The bytes of records of several local files, `which` says of which, in the order asked for; each copied once.

    None where a file is not local, or its last record lacks what ends the others.
    """
    bounds = np.empty((len(numbers), 2), np.int64)
    used = np.flatnonzero(np.bincount(which, minlength=len(paths))).tolist()
    files, data = [], [np.empty(0, np.uint8)] * len(paths)
    for part in used:
        index, local = indexes[part], local_path(paths[part])
        rows: Any = slice(None) if len(used) == 1 else which == part
        if local is None or (index.terminator and (numbers[rows] == index.count - 1).any()):
            return None
        bounds[rows] = _bounds(index, numbers[rows])
        file, data[part] = _mapped(paths[part], local, index, shared)
        files.append(file)
    out = _native.bytes_pick(data, which, bounds.ravel())
    for number, file in zip(used, files, strict=True):
        if not file.intact:
            raise broken(local_path(paths[number]) or "", len(data[number]))
    return out


def _bounds(index: Index, numbers: Offsets) -> Offsets:
    """Where each of these records begins and ends."""
    bounds = np.empty((len(numbers), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = index.starts(numbers), index.starts(numbers + 1)
    return bounds


def _pieces(path: str, index: Index, bounds: Offsets, shared: dict[Any, Any], via: Transport) -> list[bytes]:
    local = local_path(path)
    if local is None:
        return _ranges(path, index, bounds, shared, via)
    file, data = _mapped(path, local, index, shared)
    pieces = [data[start:stop].tobytes() for start, stop in bounds.tolist()]
    if not file.intact:
        raise broken(local, len(data))
    return pieces


def _ranges(path: str, index: Index, bounds: Offsets, shared: dict[Any, Any], via: Transport) -> list[bytes]:
    file: RemoteFile | None = shared.get(path)
    if file is None:
        file = RemoteFile(path, via)
        _check(path, file.identity(), index)
        shared[path] = file
    return file.read_ranges([(start, stop) for start, stop in bounds.tolist()])


def _check(path: str, found: Identity, index: Index) -> None:
    if not index.belongs_to(found):
        raise HeadraceError(f"{shown(path)} has changed since its index was made; make the dataset anew")


def _mapped(path: str, local: str, index: Index, shared: dict[Any, Any]) -> tuple[_native.MappedFile, Bytes]:
    """The file, mapped once a pass, and its bytes."""
    found: tuple[_native.MappedFile, Bytes] | None = shared.get(path)
    if found is None:
        file = LocalFile(local)
        try:
            _check(path, file.identity(), index)
            mapped = file.mapped()
        finally:
            file.close()
        found = shared[path] = (mapped, mapped.data)
    return found
