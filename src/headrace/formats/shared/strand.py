"""Strands: files that only one thread can read at a time, divided into pieces that several threads parse.

A compressed file is decompressed serially, a file in a store arrives in order. The format finds record boundaries in
the bytes, as for other files. Each piece holds its bytes in memory: its reader needs neither the file nor the bytes of
other pieces, and returns the items that a reader of the whole file returns there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from headrace.errors import TransportError
from headrace.formats.shared.files import Bytes, File
from headrace.formats.shared.format import Format
from headrace.formats.shared.reader import RecordAt
from headrace.formats.shared.window import Failed, FileWindow, Held


class Strand(NamedTuple):
    """An open file that was read up to some record, and the window that continues from there."""

    at: RecordAt
    file: File
    view: FileWindow

    def close(self) -> None:
        """Close the file."""
        self.view.close()
        self.file.close()


class HeldBytes:
    """The bytes of a piece, from `offset` of the decompressed file on.

    With `cut` the file continues after them. Otherwise they are its last ones, and `damage` says why there are no more.
    """

    def __init__(self, data: Bytes, offset: int, *, cut: bool, damage: str | None = None) -> None:
        self._data: Bytes | None = data
        self.nbytes: int = len(data)
        self._offset = offset
        self._cut = cut
        self._damage = damage

    def window(self, offset: int) -> FileWindow | None:
        """Return a window on the bytes from `offset` on. None if they are not held any more."""
        if self._data is None:
            return None
        return Held(self._data[offset - self._offset :], offset, cut=self._cut, damage=self._damage)

    def release(self) -> None:
        """Free the bytes."""
        self._data = None


class RestOfStrand:
    """The rest of a strand in which no more cuts are found: the first reader continues with its window."""

    nbytes = 0

    def __init__(self, view: FileWindow) -> None:
        self._view: FileWindow | None = view

    def window(self, offset: int) -> FileWindow | None:
        """Return the window, if it begins at `offset` and no reader had it. None if the file must be read again."""
        view, self._view = self._view, None
        if view is None or view.offset == offset:
            return view
        view.close()
        return None

    def release(self) -> None:
        """Close the window if no reader has taken it."""
        view, self._view = self._view, None
        if view is not None:
            view.close()


class StrandPiece(NamedTuple):
    """The records from `at` to before byte `stop`, None: to the end of the file."""

    at: RecordAt
    stop: int | None
    held: HeldBytes | RestOfStrand


def strand_pieces(
    strand: Strand, form: Format, target: Callable[[], int], max_bytes_without_cut: int
) -> Generator[StrandPiece, None, None]:
    """Divide the rest of a strand.

    Reads no more than it must for the next piece. An error of reading is left to the reader of the last piece, which
    meets it in its place.

    Args:
        strand: The open file.
        form: The format of its records.
        target: Called for the least number of bytes of the next pieces.
        max_bytes_without_cut: If no cut is found in this many bytes, the rest of the file is one piece.
    """
    at, view = strand.at, strand.view
    handed_over = False
    enough = target()
    try:
        while True:
            try:
                while len(view.data) <= enough and not view.final and not view.full:
                    view.more()
            except (OSError, TransportError) as error:
                yield _failed(at, view.data.copy(), error)
                return
            whole = view.final and view.damage is None
            points = form.cut(view.data, target(), first=at.offset == 0, final=whole)
            data = view.data if view.lasting else view.data.copy()
            used = int(points.offsets[-1]) if len(points.offsets) else 0
            try:
                view.use(used)
            except (OSError, TransportError) as error:  # these were not the bytes of the file
                yield _failed(at, data[:0], error)
                return
            first = at
            for offset, rows, lines in zip(*(each.tolist() for each in points), strict=True):
                stop = RecordAt(first.offset + offset, first.number + rows, first.line + lines)
                part = data[at.offset - first.offset : offset]
                yield StrandPiece(at, stop.offset, HeldBytes(part, at.offset, cut=True))
                at = stop
            if view.final:
                yield StrandPiece(at, None, HeldBytes(data[used:], at.offset, cut=False, damage=view.damage))
                return
            if not used and (len(data) > max_bytes_without_cut or view.full):
                handed_over = True
                yield StrandPiece(at, None, RestOfStrand(view))
                return
            enough = target() if used else 2 * len(data)
            del data
    finally:
        if not handed_over:
            view.close()


def _failed(at: RecordAt, data: Bytes, error: Exception) -> StrandPiece:
    return StrandPiece(at, None, RestOfStrand(Failed(data, at.offset, error)))
