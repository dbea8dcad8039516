"""Records of files on this machine by where they lie: a column that is copied out of them where it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.arrow_text import binary

if TYPE_CHECKING:
    import pyarrow as pa

Places = NDArray[np.int64]
"""Of each record the number of its file, the bytes where it begins and ends, and a number that goes with it."""
Bounds = NDArray[np.int64]
"""Where records of one file begin that lie one after another, and where the last one ends."""


class UnsoundError(BaseException):
    """Rows that were handed out unseen are not what they should be: they must be read again, and looked at at once.

    It knows which file those are in that are `among` some.
    """

    def __init__(self, among: PointedText | None = None) -> None:
        super().__init__()
        self._bad = [] if among is None else [file.path for file in among.bad_files()]

    def where(self) -> str:
        """In which file they are, if that is known."""
        return f" ({self._bad[0]})" if self._bad else ""


class PointedText:
    """Where records lie, in which files: as `Places`, or as the bounds of those that follow one another in one file.

    It is `sound` once somebody has seen that they are what they were.
    """

    __slots__ = ("files", "sound", "where")

    def __init__(self, files: list[_native.MappedFile], where: Places | Bounds) -> None:
        self.files = files
        self.where = where
        self.sound = False

    def __len__(self) -> int:
        return len(self.where) - (self.where.ndim == 1)

    @property
    def places(self) -> Places:
        """The numbers of files, and two bounds for each record."""
        where = self.where
        if where.ndim == 2:
            return where
        places = np.zeros((len(self), 4), np.int64)
        places[:, 1], places[:, 2] = where[:-1], where[1:]
        return places

    def copy(self) -> pa.LargeBinaryArray:
        """The records themselves; raises UnsoundError where one is not what it was."""
        found = _native.unframe_places(self.files, self.where)
        if found is None:
            raise UnsoundError(self)
        self.sound = True
        return binary(*found)

    def take(self, order: NDArray[np.int64]) -> PointedText:
        """These rows."""
        return PointedText(self.files, self.places.take(order, axis=0))

    def bad_files(self) -> list[_native.MappedFile]:
        """The files that hold records which are not what they should be."""
        places = self.places
        some = [places[places[:, 0] == number] for number in range(len(self.files))]
        looks = [_native.Verification(self.files, each) for each in some]
        return [file for file, look in zip(self.files, looks, strict=True) if not look.good()]


def join_pointed(parts: Sequence[PointedText]) -> PointedText:
    """These one after another."""
    files: list[_native.MappedFile] = []
    places = []
    for part in parts:
        places.append(part.places + np.array([len(files), 0, 0, 0]))
        files += part.files
    return PointedText(files, np.concatenate(places))
