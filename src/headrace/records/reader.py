"""Reading one file from a place on: rows and bad records, each with where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from headrace.columns import Column
from headrace.errors import StateError
from headrace.records.files import File, LocalFile, open_path
from headrace.records.format import ALL, Bad, Format, ScanHints, ScanResult
from headrace.records.packed import LEAST, PROBED, packing, remedy
from headrace.records.redact import show_path
from headrace.records.scans_ahead import ScansAhead
from headrace.records.transport import ALONE, Transport
from headrace.records.window import CHUNK, FileWindow, open_window

OVERLAP = 16
"""So many bytes are looked at again when a search for the next record goes on with more of them."""
SKIMMED = 4 << 20
"""So many bytes are looked at in one go where nothing is made of them, if they need not be copied for it."""
POINTED = 64 << 20
"""The same where it is only said where rows lie."""
KEPT = 16 << 20
"""Of a bad record no more bytes than these are kept."""


class RecordAt(NamedTuple):
    """Where a record lies: the byte, its number, and its line, all from 0; the byte counts in the unpacked file."""

    offset: int
    number: int
    line: int


class GoodRows(NamedTuple):
    """Rows, the first of which lies at `at`."""

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
    """What files that are read alike have shown: how many rows are usually wanted at a time, and how large they are."""

    wanted: int = 0
    row_bytes: int = 0


class HeldPart(Protocol):
    """Bytes of a file that need not be read from it any more."""

    def window(self, offset: int) -> FileWindow | None:
        """A window that begins there. None if the file must be read again."""
        ...


class Reader:
    """Reads on by chunks. With `go_on` it looks for the next record behind a bad one; else a file may end there.

    After an OSError it is of no use any more: what was unpacked may be lost. Readers of files that are alike share a
    `habit`: the first rows of the next file are then read as many at a time as those of the last. Who takes rows `late`
    may get `RecordRefs`, of files that are `ahead` sooner. With `objects` texts are wanted as these, where the format
    can make them at once.

    With `stop`, the offset at which a later record begins (see `Format.cut`), reading ends there and no byte beyond it
    is looked at: the items are those that a reader of the whole file has between `at` and `stop`. With `held`
    these bytes are in memory, and `file`, which is open, only says which file it is.
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
        self._format = form
        self._objects = objects
        self._go_on = go_on
        self._room, self._most_room = chunk or CHUNK, chunk or (POINTED if late else SKIMMED)
        self._habit = habit or Habit()
        self._row_bytes = self._habit.row_bytes
        self._more = False
        self._number, self._line = at.number, at.line
        window = None if held is None else held.window(at.offset)
        self._borrows = window is not None and file is not None
        self._file = file if window is not None and file is not None else _opened(path, via, at.offset, file)
        scanned = ahead.take(path, self._file) if ahead is not None and isinstance(self._file, LocalFile) else None
        self._scan = None if scanned is None else scanned.scan
        self.token = self._file.token
        self.identity = self._file.identity
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
            self._window = open_window(self._file, form.compression, at.offset, chunk, memory, stop)
        except BaseException:
            self._file.close()
            raise

    def read(self, want: int = 1) -> list[ReadItem]:
        """The next rows and bad records, if possible some times `want` of them; none only at the end."""
        self._habit.wanted = max(self._habit.wanted, want)
        found = self._refused() if self._fresh else []
        self._fresh = False
        while not found and not self._over:
            found = self._some(want)
        if self._over:
            self.close()
        return found

    def pass_over(self, count: int) -> int:
        """Pass over up to `count` records without making anything of them; `read` meets the bad ones, and the end."""
        passed, window = 0, self._window
        if self._fresh and self.refusal() is not None:
            return 0
        while passed < count and not self._over and not self._stopped:
            if not window.final:
                window.more(SKIMMED)
            if window.offset == 0:
                window.use(self._format.lead(window.data))
            starts, used, wrong = self._format.starts(window.data, final=window.final and window.damage is None)
            rows = min(len(starts), count - passed)
            window.use(int(starts[rows]) if rows < len(starts) else used)
            self._number += rows
            passed += rows
            self._stopped = rows < len(starts) or wrong is not None or window.final
        self._fresh = self._more = False
        return passed

    @property
    def at(self) -> RecordAt:
        """Where the next record begins, as far as that is known."""
        return self._at(0, 0)

    def file_again(self) -> LocalFile | None:
        """The open file for another reader, if it is on this machine."""
        return self._file.again() if isinstance(self._file, LocalFile) else None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to read."""
        return self._over

    @property
    def ended_early(self) -> bool:
        """Whether a bad record ended the file before `stop`: what lies beyond `stop` is not part of the dataset."""
        return self._ended_early

    def close(self) -> None:
        """Let go of the file."""
        self._over = True
        self._window.close()
        if not self._borrows:
            self._file.close()

    def hand_over(self) -> tuple[RecordAt, File, FileWindow]:
        """Where the next record begins, the open file and its window, which are the caller's from now on."""
        assert not self._over and not self._borrows
        self._over = self._borrows = True
        return self.at, self._file, self._window

    def _at(self, offset: int, line: int) -> RecordAt:
        return RecordAt(self._window.offset + offset, self._number, self._line + line)

    def _refused(self) -> list[ReadItem]:
        """What is wrong with the file as a whole."""
        reason = self.refusal()
        if reason is None:
            return []
        self._over = self._ended_early = True
        return [BadRecord(reason, self._at(0, 0), [])]

    def refusal(self) -> str | None:
        """Why the file cannot be one of the format, as far as its size and its first bytes tell."""
        form, size = self._format, self._file.size
        if form.compression:
            return None
        reason = None if size is None else form.refusal(size)
        if reason is None and not form.is_text:
            return None
        head = np.empty(LEAST, np.uint8)
        packed = packing(head[: self._file.read_into(head, 0)].tobytes())
        if not packed:
            return reason
        return f"{reason}; {remedy(packed)}" if reason else remedy(packed)

    def _left(self) -> int | None:
        """How many bytes there are from the window's first on, where that is known."""
        size, window = self._file.size, self._window
        if window.final and not window.cut:
            return len(window.data)
        return None if size is None or self._format.compression else max(len(window.data), size - window.offset)

    def _most(self, want: int) -> int:
        """How many rows to hints for: those wanted, and as many again, as usual, as a chunk has room for."""
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
        return scan

    def _missing(self, want: int) -> int:
        """How many more bytes there should be in the window, as far as that is known."""
        return min(self._most(want) * self._row_bytes, self._most_room) - len(self._window.data)

    def _some(self, want: int) -> list[ReadItem]:
        window, unmeasured = self._window, not self._row_bytes
        missing = self._missing(want)
        if not self._stopped and not window.final and (missing > 0 or not self._more):
            window.more(missing)
        scan = self._look(want)
        if unmeasured and 0 < scan.rows < want and not window.final and (missing := self._missing(want)) > 0:
            window.more(missing)  # now that it is known how large rows are
            scan = self._look(want)
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
        """What to add to the error of a file in which not even the first record is found."""
        window = self._window
        if at.offset or not bad.lost:
            return ""
        while len(window.data) < PROBED and not window.final:
            window.more()
        return self._format.doubt(window.data[:PROBED].tobytes())

    def _search(self, wrong: ReadItem) -> None:
        """Pass over bytes until a record is found, or the file ends."""
        assert isinstance(wrong, BadRecord)
        window, start = self._window, 1
        while True:
            found = self._format.find_record(window.data, min(start, len(window.data)), self._left())
            unseen = len(window.data) if window.final else max(0, len(window.data) - OVERLAP)
            passed, needed = found or (unseen, 0)
            if sum(map(len, wrong.pieces)) < KEPT:
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


def _opened(path: str, via: Transport, offset: int, file: File | None) -> File:
    """The file, open for another reader; raises StateError if it is not the `file` that was read so far."""
    if isinstance(file, LocalFile):
        return file.again()
    opened = open_path(path, via, offset)
    if file is not None and opened.identity() != file.identity():
        opened.close()
        raise StateError(f"{show_path(path)} was changed while it was being read")
    return opened


def first_bytes(path: str, compression: str, size: int, via: Transport = ALONE, *, packed: bool = False) -> bytes:
    """The first `size` bytes of a file, unpacked; fewer if it has no more. Raises OSError, also for damaged data.

    Raises ValueError for packed ones that nobody said are packed, unless they may be.
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
