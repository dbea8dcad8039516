"""References to records in mapped files: a column that is copied from the files only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import binary

if TYPE_CHECKING:
    import pyarrow as pa

RefTable = NDArray[np.int64]
"""A row for each record: the number of its file, its begin and end offsets, and its ordinal in a stream."""
Bounds = NDArray[np.int64]
"""The offsets at which consecutive records of one file begin, and the one at which the last ends."""


class CorruptRecordsError(BaseException):
    """A lazily read record failed its checksum: the rows must be read again, eagerly, from the last mark.

    It knows the files of the bad ones `among` some records.
    """

    def __init__(self, among: RecordRefs | None = None) -> None:
        super().__init__()
        self._bad = [] if among is None else [file.path for file in among.bad_files()]

    def where(self) -> str:
        """Return the file they are in, if it is known."""
        return f" ({self._bad[0]})" if self._bad else ""


class RecordRefs:
    """References to records: a `RefTable` into several files, or the `Bounds` of consecutive records of one file.

    It is `sound` once the records have passed their checksums.
    """

    __slots__ = ("files", "sound", "where")

    def __init__(self, files: list[_native.MappedFile], where: RefTable | Bounds) -> None:
        self.files: list[_native.MappedFile] = files
        self.where: RefTable = where
        self.sound: bool = False

    def __len__(self) -> int:
        return len(self.where) - self.consecutive

    @property
    def consecutive(self) -> bool:
        """Whether these are the bounds of consecutive records of one file."""
        return self.where.ndim == 1

    @property
    def table(self) -> RefTable:
        """A row for each record."""
        where = self.where
        if not self.consecutive:
            return where
        table = np.zeros((len(self), 4), np.int64)
        table[:, 1], table[:, 2] = where[:-1], where[1:]
        return table

    @property
    def nbytes(self) -> int:
        """The size of the records."""
        return int(self.where[-1] - self.where[0]) if self.consecutive else _native.pointed_bytes(self.where)

    def copy(self) -> pa.LargeBinaryArray:
        """Return the records themselves; raises CorruptRecordsError if one of them fails its checksum."""
        found = _native.unframe_places(self.files, self.where)
        if found is None:
            raise CorruptRecordsError(self)
        self.sound = True
        return binary(*found)

    def cut(self, start: int, stop: int) -> RecordRefs:
        """Return the rows from `start` to before `stop`."""
        return RecordRefs(self.files, self.where[start : stop + self.consecutive])

    def take(self, order: NDArray[np.int64]) -> RecordRefs:
        """Return the rows with these numbers."""
        return RecordRefs(self.files, self.table.take(order, axis=0))

    def bad_files(self) -> list[_native.MappedFile]:
        """Return the files with records that fail their checksums."""
        table = self.table
        some = [table[table[:, 0] == number] for number in range(len(self.files))]
        checks = [_native.Verification(self.files, each) for each in some]
        return [file for file, check in zip(self.files, checks, strict=True) if not check.good()]


class BackgroundCheck:
    """Checksums of some records, which other threads compute meanwhile."""

    __slots__ = ("_refs", "_verification")

    def __init__(self, refs: RecordRefs) -> None:
        self._refs = refs
        self._verification = _native.Verification(refs.files, refs.where)

    def wait(self) -> None:
        """Wait until the checksums are known; raises CorruptRecordsError if one is wrong."""
        if not self._verification.good():
            raise CorruptRecordsError(self._refs)


def box_records(parts: Sequence[RecordRefs], order: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return consecutive records of several files in another order, as bytes objects, copied once.

    Raises CorruptRecordsError if one of them fails its checksum.
    """
    made = _native.box_records([part.files[0] for part in parts], [part.where for part in parts], order)
    if made is None:
        raise CorruptRecordsError(join_refs(parts))
    return made


def join_refs(parts: Sequence[RecordRefs]) -> RecordRefs:
    """Return the records of one after those of another."""
    files: list[_native.MappedFile] = []
    tables = []
    for part in parts:
        tables.append(part.table + np.array([len(files), 0, 0, 0]))
        files += part.files
    return RecordRefs(files, np.concatenate(tables))
