"""Read one file from an offset on: rows and bad records, each with its offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from headrace import _native
from headrace.columns import Column
from headrace.errors import StateError, warn_once
from headrace.formats.shared.files import File, LocalFile, open_path
from headrace.formats.shared.format import ALL, Bad, Format, ScanHints, ScanResult
from headrace.formats.shared.packed import MAGIC_BYTES, PROBE_BYTES, packing, remedy
from headrace.formats.shared.scans_ahead import ScansAhead
from headrace.formats.shared.window import FIRST_CHUNK_BYTES, MAX_CHUNK_BYTES, FileWindow, open_window
from headrace.remote.identity import Identity, Token
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

SEARCH_OVERLAP_BYTES = 16
"""How many bytes are searched again when the search for the next record continues with more bytes."""
SKIP_CHUNK_BYTES = 4 << 20
"""How many bytes are scanned at a time if no rows are made and nothing is copied."""
REFERENCE_CHUNK_BYTES = 64 << 20
"""How many bytes are scanned at a time if only references are made."""
SPARE_SHARE = 8
"""A window asks for this part more bytes than the wanted rows have on average."""
MAX_KEPT_BYTES = 16 << 20
"""How many bytes of a bad record are kept at most."""


class RecordAt(NamedTuple):
    """The position of a record: its byte offset, number and line, all from 0; the offset is in the
    decompressed file.
    """

    offset: int
    number: int
    line: int


class GoodRows(NamedTuple):
    """Rows, the first of which is at `at`."""

    columns: list[Column]
    rows: int
    at: RecordAt
    nbytes: int = -1


class BadRecord(NamedTuple):
    """A record that could not be read, and its bytes."""

    reason: str
    at: RecordAt
    pieces: list[bytes]
    rows: int = 1


ReadItem: TypeAlias = GoodRows | BadRecord

START = RecordAt(0, 0, 0)


@dataclass(slots=True)
class Habit:
    """Measurements shared by similar files: how many rows are usually requested at a time, and how large they are."""

    wanted: int = 0
    row_bytes: int = 0


class HeldPart(Protocol):
    """Bytes of a file that were read already."""

    def window(self, offset: int) -> FileWindow | None:
        """Return a window that begins there. None if the file must be read again."""
        ...


class Reader:
    """Read a file in chunks. With `go_on` it searches for the next record after a bad one; else a file may end there.

    It is unusable after an OSError: decompressed bytes may be lost. Readers of similar files share a `habit`: the first
    rows of the next file are then read in the sizes of the last. With `late` the reader may return `RecordRefs`, sooner
    for files that are read `ahead`. With `objects` texts are returned as Python objects, if the format can make them
    directly.

    With `stop`, the offset at which a later record begins (see `Format.cut`), reading ends there and no byte beyond it
    is read: the items are those that a reader of the whole file has between `at` and `stop`. With `held` these bytes
    are in memory, and `file`, which is open, only identifies the file.
    """

    def __init__(
        self,
        path: str,
        form: Format,
        at: RecordAt = START,
        *,
        go_on: bool = False,
        chunk: int | None = None,
        via: Transport = ALONE,
        habit: Habit | None = None,
        late: bool = False,
        objects: bool = False,
        ahead: ScansAhead | None = None,
        stop: int | None = None,
        file: File | None = None,
        held: HeldPart | None = None,
    ) -> None:
        self._path = path
        self._format = form
        self._objects = objects
        self._go_on = go_on
        self._room = chunk or MAX_CHUNK_BYTES
        self._most_room = chunk or (REFERENCE_CHUNK_BYTES if late and not objects else SKIP_CHUNK_BYTES)
        self._habit = habit or Habit()
        self._row_bytes = self._habit.row_bytes
        self._more = False
        self._number, self._line = at.number, at.line
        window = None if held is None else held.window(at.offset)
        self._borrows = window is not None and file is not None
        self._file = file if window is not None and file is not None else _opened(path, via, at.offset, file)
        scanned = ahead.take(path, self._file) if ahead is not None and isinstance(self._file, LocalFile) else None
        self._scan = None if scanned is None else scanned.scan
        self._first, self._scanned = at.offset, 0
        self.token: Token = self._file.token
        self.identity: Callable[[], Identity] = self._file.identity
        self._over = False
        self._stopped = False
        self._ended_early = False
        self._fresh = at.offset == 0 and window is None
        self._late = late
        if window is not None:
            self._window = window
            return
        try:
            memory = None if scanned is None else scanned.memory
            self._window = open_window(
                self._file, form.compression, at.offset, chunk, memory, stop, via.max_record_bytes
            )
        except BaseException:
            self._file.close()
            raise

    def read(self, want: int = 1) -> list[ReadItem]:
        """Return the next rows and bad records, if possible a multiple of `want`; none only at the end."""
        self._habit.wanted = max(self._habit.wanted, want)
        found = self._refused() if self._fresh else []
        self._fresh = False
        while not found and not self._over:
            found = self._some(want)
        if self._over:
            self.close()
        return found

    def pass_over(self, count: int) -> int:
        """Skip up to `count` records without making rows; bad records and the end are left to `read`."""
        passed, window = 0, self._window
        if self._fresh and self.refusal() is not None:
            return 0
        while passed < count and not self._over and not self._stopped:
            if not window.final:
                window.more(SKIP_CHUNK_BYTES)
            if window.offset == 0:
                window.use(self._format.lead(window.data))
            starts, used, wrong = self._format.starts(window.data, final=window.final and window.damage is None)
            rows = min(len(starts), count - passed)
            if self._format.has_end and wrong is None and self._is_whole and rows == len(starts):
                warn_of_end(self._path, self._format.missing_end(window.data[int(starts[-1]) if rows else 0 :]))
            window.use(int(starts[rows]) if rows < len(starts) else used)
            self._number += rows
            passed += rows
            self._stopped = rows < len(starts) or wrong is not None or window.final
        self._fresh = self._more = False
        return passed

    @property
    def at(self) -> RecordAt:
        """Return where the next record begins, as far as that is known."""
        return self._at(0, 0)

    def file_again(self) -> LocalFile | None:
        """Return the open file for another reader, if it is on this machine."""
        return self._file.again() if isinstance(self._file, LocalFile) else None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to read."""
        return self._over

    @property
    def ended_early(self) -> bool:
        """Return whether a bad record ended the file before `stop`: bytes after `stop` are then not part of the
        dataset.
        """
        return self._ended_early

    def close(self) -> None:
        """Close the file."""
        self._over = True
        self._window.close()
        if not self._borrows:
            self._file.close()

    def hand_over(self) -> tuple[RecordAt, File, FileWindow]:
        """Return where the next record begins, the open file and its window. The caller owns them from now on."""
        assert not self._over and not self._borrows
        self._over = self._borrows = True
        return self.at, self._file, self._window

    @property
    def _is_whole(self) -> bool:
        """Whether the window ends where the file does."""
        return self._window.final and not self._window.cut and self._window.damage is None

    def _at(self, offset: int, line: int) -> RecordAt:
        return RecordAt(self._window.offset + offset, self._number, self._line + line)

    def _refused(self) -> list[ReadItem]:
        """Return what is wrong with the file as a whole."""
        reason = self.refusal()
        if reason is None:
            return []
        self._over = self._ended_early = True
        return [BadRecord(reason, self._at(0, 0), [])]

    def refusal(self) -> str | None:
        """Say why the file cannot have this format, judging by its size and its first bytes."""
        form, size = self._format, self._file.size
        if form.compression:
            return None
        reason = None if size is None else form.refusal(size)
        if reason is None and not form.is_text:
            return None
        head = np.empty(MAGIC_BYTES, np.uint8)
        packed = packing(head[: self._file.read_into(head, 0)].tobytes())
        if not packed:
            return reason
        return f"{reason}; {remedy(packed)}" if reason else remedy(packed)

    def _left(self) -> int | None:
        """Return how many bytes there are from the window's first on, if known."""
        size, window = self._file.size, self._window
        if window.final and not window.cut:
            return len(window.data)
        return None if size is None or self._format.compression else max(len(window.data), size - window.offset)

    def _most(self, want: int) -> int:
        """Return how many rows to ask for: those wanted, and usually as many as fit into a chunk."""
        if not self._row_bytes:
            return ALL
        usual = self._habit.wanted
        return want + max(0, self._room // self._row_bytes - want) // usual * usual

    def _look(self, want: int) -> ScanResult:
        window = self._window
        whole = window.final and window.damage is None
        form = self._format
        stays = window.stays if self._late and form.pointed else None
        boxes = self._objects and form.boxes
        hints = ScanHints(
            window.offset == 0,
            whole,
            self._left(),
            self._most(want),
            stays,
            boxes,
            window.offset,
            self._scan,
            whole and window.cut,
        )
        scan = self._format.scan(window.data, hints)
        self._row_bytes = -(-scan.used // scan.rows) if scan.rows else 0
        self._habit.row_bytes = self._row_bytes or self._habit.row_bytes
        if stays is not None and self._objects:
            self._scan_ahead(stays, window.offset + scan.used, scan.used)
        return scan

    def _scan_ahead(self, memory: _native.MappedFile, start: int, nbytes: int) -> None:
        """Find the next records in the background, after a read of `nbytes`: objects will be made of them soon.

        At most as many bytes are scanned as were read before.
        """
        size = len(memory.data)
        if self._scanned - start > nbytes // 2 or max(start, self._scanned) >= size:
            return
        most = max(FIRST_CHUNK_BYTES, start - self._first)
        self._scanned = min(size, start + min(most, SKIP_CHUNK_BYTES))
        self._scan = _native.RecordScan(memory, start, self._scanned, load=True)

    def _missing(self, want: int) -> int:
        """Return how many more bytes the window needs, as far as that is known.

        Rows differ in length: with some bytes to spare, few are left over for a scan of their own.
        """
        wanted = self._most(want) * self._row_bytes
        return min(wanted + wanted // SPARE_SHARE, self._most_room) - len(self._window.data)

    def _some(self, want: int) -> list[ReadItem]:
        window, unmeasured = self._window, not self._row_bytes
        missing = self._missing(want)
        if not self._stopped and not window.final and (missing > 0 or not self._more):
            window.more(missing)
        scan = self._look(want)
        if unmeasured and 0 < scan.rows < want and not window.final and (missing := self._missing(want)) > 0:
            window.more(missing)  # now that the size of rows is known
            scan = self._look(want)
        if scan.lacks and self._is_whole:
            warn_of_end(self._path, scan.lacks)
        found = self._placed(scan)
        self._more = scan.more
        last = scan.parts[-1] if scan.parts else None
        window.use(scan.used)
        self._line += scan.lines
        self._stopped = isinstance(last, Bad) and len(window.data) > 0
        if isinstance(last, Bad) and not self._go_on and (last.lost or last.ends):
            self._over = self._ended_early = True
        elif isinstance(last, Bad) and last.lost:
            self._search(found[-1])
        elif window.final and not self._stopped and not scan.more:
            self._over = True
            if window.damage is not None:
                found.append(BadRecord(window.damage, self._at(0, 0), []))
        return found

    def _placed(self, scan: ScanResult) -> list[ReadItem]:
        found: list[ReadItem] = []
        for part in scan.parts:
            at = self._at(part.start, part.line)
            if isinstance(part, Bad):
                bytes_ = [] if part.lost else [self._window.data[part.start : part.stop].tobytes()]
                found.append(BadRecord(part.reason + self._doubt(part, at), at, bytes_))
                self._number += 1
            else:
                found.append(GoodRows(part.columns, part.rows, at, part.nbytes))
                self._number += part.rows
        return found

    def _doubt(self, bad: Bad, at: RecordAt) -> str:
        """Return what to add to the error of a file in which not even the first record is found."""
        window = self._window
        if at.offset or not bad.lost:
            return ""
        while len(window.data) < PROBE_BYTES and not window.final:
            window.more()
        return self._format.doubt(window.data[:PROBE_BYTES].tobytes())

    def _search(self, wrong: ReadItem) -> None:
        """Skip bytes until a record is found, or the file ends."""
        assert isinstance(wrong, BadRecord)
        window, start = self._window, 1
        while True:
            found = self._format.find_record(window.data, min(start, len(window.data)), self._left())
            unseen = len(window.data) if window.final else max(0, len(window.data) - SEARCH_OVERLAP_BYTES)
            passed, needed = found or (unseen, 0)
            if sum(map(len, wrong.pieces)) < MAX_KEPT_BYTES:
                wrong.pieces.append(window.data[:passed].tobytes())
            window.use(passed)
            if found and not needed:
                self._stopped = True
                return
            if window.final:
                self._over = self._ended_early = True
                return
            start = 0
            window.more(needed)


def warn_of_end(path: str, lacks: str) -> None:
    """Warn, once for each file, that a file lacks its end, if it does."""
    if lacks:
        warn_once(
            ("end of file", path),
            f"{show_path(path)} ends without {lacks}: it may have been cut short between two records, and rows may be "
            "missing. Compare it with its original and copy it again; if it is complete, write it again with a tool "
            "that ends its files",
        )


def _opened(path: str, via: Transport, offset: int, file: File | None) -> File:
    """Return the file, open for another reader; raises StateError if it is not the `file` that was read so far."""
    if isinstance(file, LocalFile):
        return file.again()
    opened = open_path(path, via, offset)
    if file is not None and opened.identity() != file.identity():
        opened.close()
        raise StateError(f"{show_path(path)} was changed while it was being read")
    return opened


def first_bytes(path: str, compression: str, size: int, via: Transport = ALONE, *, packed: bool = False) -> bytes:
    """Return the first `size` bytes of a file, decompressed; fewer if it has no more.

    Raises OSError, also for damaged data. Raises ValueError for compressed data that was not declared as such, unless
    it is allowed.
    """
    file = open_path(path, via)
    view = open_window(file, compression, 0, size)
    try:
        while len(view.data) < size and not view.final:
            view.more(size)
        if view.damage is not None and not len(view.data):
            raise OSError(f"{show_path(path)}: {view.damage}")
        head = view.data[:size].tobytes()
        view.use(0)
        if not compression and not packed and packing(head):
            raise ValueError(f"{show_path(path)}: {remedy(packing(head))}")
        return head
    finally:
        view.close()
        file.close()
