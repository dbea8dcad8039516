"""Records fetched by number, by way of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from headrace import _native
from headrace.core.types import SharedValues
from headrace.errors import HeadraceError
from headrace.formats.shared.files import Bytes, LocalFile, broken, local_path
from headrace.formats.shared.format import Offsets
from headrace.formats.shared.index import Index
from headrace.remote.identity import Identity
from headrace.remote.objects import RemoteFile
from headrace.remote.redact import show_path
from headrace.remote.transport import Transport

T = TypeVar("T")
NO_BYTES = np.empty(0, np.uint8)


def read_records_at(path: str, index: Index, numbers: Offsets, shared: SharedValues, via: Transport) -> Bytes:
    """Return the bytes of these records, concatenated. `shared` keeps files open from one call to the next.

    Raises OSError if the file cannot be read.
    """
    unique, order = np.unique(numbers, return_inverse=True)
    pieces = _pieces(path, index, _bounds(index, unique), shared, via)
    if index.terminator and unique[-1] == index.count - 1:
        pieces[-1] += index.terminator
    return np.frombuffer(b"".join([pieces[i] for i in order]), np.uint8)


class Located(NamedTuple):
    """References to records of several local files: the files, their mappings, and the offsets."""

    files: list[_native.MappedFile | None]
    bounds: Offsets

    @property
    def data(self) -> list[Bytes]:
        """The bytes of each file."""
        return [NO_BYTES if file is None else file.data for file in self.files]

    def check(self) -> None:
        """Raise OSError if the bytes that were read are not those of the file."""
        for file in self.files:
            if file is not None and not file.intact:
                raise broken(file.path, len(file.data))


def locate_records(
    paths: Sequence[str], indexes: Sequence[Index], which: Offsets, numbers: Offsets, shared: SharedValues
) -> Located | None:
    """Return the offsets of records in the order requested; `which` is the file number of each.

    Return None if a file is not local, or its last record lacks a terminator. Raises OSError if a file cannot be read.
    """
    counts = np.bincount(which, minlength=len(paths))
    several = np.count_nonzero(counts) > 1
    by_file = np.argsort(which.astype(np.uint32), kind="stable") if several else slice(None)
    within, bounds = numbers[by_file], np.empty((len(numbers), 2), np.int64)
    files: list[_native.MappedFile | None] = [None] * len(paths)
    stop = 0
    for part in np.flatnonzero(counts).tolist():
        index, local = indexes[part], local_path(paths[part])
        first, stop = stop, stop + int(counts[part])
        rows = within[first:stop]
        if local is None or (index.terminator and (rows == index.count - 1).any()):
            return None
        bounds[first:stop] = _bounds(index, rows)
        files[part] = _map_file(paths[part], local, index, shared)
    if several:
        back = np.empty_like(bounds)
        back[by_file] = bounds
        bounds = back
    return Located(files, bounds)


def pick_records(
    paths: Sequence[str],
    indexes: Sequence[Index],
    which: Offsets,
    numbers: Offsets,
    shared: SharedValues,
    pick: Callable[[list[Bytes], Offsets, Offsets], T | None],
) -> T | None:
    """Return what `pick` makes of records of several local files, in the order requested; see `locate_records`.

    It receives the bytes of the files and the offsets of the records.
    """
    found = locate_records(paths, indexes, which, numbers, shared)
    if found is None:
        return None
    made = pick(found.data, which, found.bounds.ravel())
    found.check()
    return made


def _bounds(index: Index, numbers: Offsets) -> Offsets:
    """Return where each of these records begins and ends."""
    bounds = np.empty((len(numbers), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = index.starts(numbers), index.starts(numbers + 1)
    return bounds


def _pieces(path: str, index: Index, bounds: Offsets, shared: SharedValues, via: Transport) -> list[bytes]:
    local = local_path(path)
    if local is None:
        return _ranges(path, index, bounds, shared, via)
    file = _map_file(path, local, index, shared)
    data = file.data
    pieces = [data[start:stop].tobytes() for start, stop in bounds.tolist()]
    if not file.intact:
        raise broken(local, len(data))
    return pieces


def _ranges(path: str, index: Index, bounds: Offsets, shared: SharedValues, via: Transport) -> list[bytes]:
    file: RemoteFile | None = shared.get(path)
    if file is None:
        file = RemoteFile(path, via)
        _check(path, file.identity(), index)
        shared[path] = file
    return [bytes(each) for each in file.read_ranges([(start, stop) for start, stop in bounds.tolist()])]


def _check(path: str, found: Identity, index: Index) -> None:
    if not index.belongs_to(found):
        raise HeadraceError(f"{show_path(path)} has changed since its index was made; make the dataset anew")


def _map_file(path: str, local: str, index: Index, shared: SharedValues) -> _native.MappedFile:
    """Return the file, mapped once a pass."""
    found: _native.MappedFile | None = shared.get(path)
    if found is None:
        file = LocalFile(local)
        try:
            _check(path, file.identity(), index)
            found = shared[path] = file.map_memory()
        finally:
            file.close()
    return found
