"""The records of one file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.columns.lazy_block import RecordBlock
from headrace.columns.refs import RecordRefs
from headrace.core.override import override
from headrace.errors import ElementError, is_unopenable, raise_if_passing
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.formats.shared.access import pick_records, read_records_at
from headrace.formats.shared.files import File, LocalFile, local_path
from headrace.formats.shared.format import Bad, Format, ScanHints, ScannedRows
from headrace.formats.shared.index import Index
from headrace.formats.shared.one_file import NO_FILE, FileStream, OneFile, error_reason, small_size
from headrace.formats.shared.reader import START, BadRecord, GoodRows, Habit, HeldPart, Reader, ReadItem, RecordAt
from headrace.formats.shared.scans_ahead import ScansAhead
from headrace.formats.shared.shared import Shared
from headrace.formats.shared.strand import Strand
from headrace.plan.marks import At, OwnMark
from headrace.plan.node import TUNING
from headrace.remote.identity import Token
from headrace.remote.redact import show_path

MIN_CPUS_FOR_SCAN_AHEAD = 4
"""Below this, materializing rows already saturates the CPUs."""


@dataclass(frozen=True, eq=False)
class Records(OneFile):
    """Rows of a file, in order. If it can be indexed, `index` has the offset of each."""

    format: Format
    index: Index | None = field(default=None, repr=False, metadata=TUNING)

    @property
    def brief(self) -> bool:
        return not self.format.compression and small_size(self.path) is not None

    @property
    def at_hand(self) -> bool:
        return not self.format.compression and local_path(self.path) is not None

    @property
    def comes_late(self) -> bool:
        return self.at_hand and self.format.pointed and self.on_error is None

    def bad(self, reason: str | OSError, at: RecordAt) -> ElementError:
        """Return the error for a bad record."""
        line = f", line {at.line + 1}" if self.format.counts_lines else ""
        return self.bad_row(reason, at.number, f"record {at.number}, byte {at.offset}{line}")

    @property
    def cuttable(self) -> bool:
        """Whether several readers may each read a part of the file."""
        return self.format.divisible

    @property
    def is_strand(self) -> bool:
        """Whether only one thread can read the file at a time, in order."""
        return not self.at_hand


class RecordPlace(NamedTuple):
    """A record of an open file, at which another reader begins."""

    at: RecordAt
    file: LocalFile


class Piece(NamedTuple):
    """Records of an open file from `at` to before byte `stop`, None: to its end. Their bytes may be `held`."""

    at: RecordAt
    stop: int | None
    file: Shared[LocalFile] | Shared[File]
    held: HeldPart | None = None


@fetches(Records)
def fetch_records(node: Records, ctx: Context, indices: Indices) -> Block:
    """Return rows by number, by way of the index."""
    assert node.index is not None
    ctx.note_origin(show_path(node.path))
    try:
        block = picked_block(node.format, [node.path], [node.index], np.zeros(len(indices), np.int64), indices, ctx)
        data = np.empty(0, np.uint8)
        if block is None:
            data = read_records_at(node.path, node.index, indices, ctx.run.shared, node.via(ctx))
    except OSError as error:
        raise_if_passing(error, show_path(node.path))
        raise _bad_at(node, error, node.index, indices) from error
    if block is None:
        parts = node.format.bare.scan(data, ScanHints()).parts
        found = parts[0] if parts else Bad("nothing there", 0, 0)
        if not isinstance(found, ScannedRows) or found.rows != len(indices):
            wrong = next(
                part for part in [*parts, Bad("not at the offset in its index", 0, 0)] if isinstance(part, Bad)
            )
            raise _bad_at(node, wrong.reason, node.index, indices)
        block = Block(node.format.structure, found.columns, found.rows)
    block.ids = ctx.ids(indices)
    return block


def picked_block(
    form: Format, paths: Sequence[str], indexes: Sequence[Index], which: Indices, rows: Indices, ctx: Context
) -> Block | None:
    """Return records of several local files at once; None if one of them is bad, or a file cannot be read this way."""
    made = pick_records(paths, indexes, which, rows, ctx.run.shared, form.pick)
    return None if made is None else Block(form.structure, made.columns, made.rows)


def _bad_at(node: Records, reason: str | OSError, index: Index, indices: Indices) -> ElementError:
    """Return the error of the first of these rows; a caller that needs to know which one fails fetches one by one."""
    return node.bad(reason, RecordAt(int(index.starts(indices[:1])[0]), int(indices[0]), 0))


@dataclass(slots=True)
class RecordMark(OwnMark):
    """The identity of the file, and the position of a record in it."""

    token: Token
    offset: int
    number: int
    line: int


@opens(Records, own=RecordMark)
class RecordsStream(FileStream):
    """One pass over the file."""

    def __init__(self, node: Records, ctx: Context, at: At) -> None:
        super().__init__()
        ctx.note_origin(show_path(node.path))
        self._node = node
        self._ctx = ctx
        self._reader: Reader | None = None
        self._failed = False
        self._token = NO_FILE
        self._at = START
        own: RecordMark | None = at.own
        if own is None and node.piece is not None:
            self._at = node.piece.at
        if own is not None:
            self._at = RecordAt(own.offset, own.number, own.line)
            if not self._resume(own.token):
                self.close()
                raise node.change_error(gone=self._token is NO_FILE)

    def _resume(self, token: Token) -> bool:
        """Open the file. Return whether it is the one in the state."""
        try:
            self._open()
        except OSError as error:
            raise_if_passing(error, show_path(self._node.path))
            self._token = NO_FILE
        try:
            return token.to_json() == self._token.to_json()
        except OSError as error:
            raise_if_passing(error, show_path(self._node.path))
            raise

    @property
    def ended_early(self) -> bool:
        """Whether a bad record or an error has ended the file before the end of the piece that is read."""
        return self._failed or (self._reader is not None and self._reader.ended_early)

    def voids(self) -> Hashable | None:
        return self._node.path if self.ended_early else None

    def halt(self) -> RecordPlace | Strand | None:
        if not self._node.cuttable or self._over or self._reader is None or self._reader.over:
            return None
        if self._node.is_strand:
            strand = Strand(*self._reader.hand_over())
            self._over = True
            self._reader = None
            return strand
        try:
            file = self._reader.file_again()
        except OSError:  # it has changed, which its reader reports
            return None
        if file is None:
            return None
        at = self._reader.at
        self._over = True
        self.close()
        return RecordPlace(at, file)

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        if self._over:
            return 0
        return self._leap(count) if self._node.index is not None else self._skim(count)

    def _leap(self, count: int) -> int:
        """Seek to the offset in the index."""
        index = self._node.index
        assert index is not None
        before = self._at.number
        number = min(index.count, before + count)
        self.close()
        self._at = RecordAt(int(index.starts(np.array([number]))[0]), number, 0)
        self._over = number == index.count
        return number - before

    def _skim(self, count: int) -> int:
        """Find record boundaries without making rows."""
        form = self._node.format
        if not form.skimmed or (self._node.on_error is not None and not form.sure):
            return 0
        try:
            reader = self._reader or self._open()
            passed = reader.pass_over(count)
        except OSError as error:
            raise_if_passing(error, show_path(self._node.path))
            self.close()  # and the file is re-read from the last position, where the error is raised in its place
            return 0
        self._at = reader.at
        if self._node.on_error is not None:
            self._node.on_error.fine(passed)
        return passed

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> Reader:
        node = self._node
        go_on = node.on_error is not None
        late = self._ctx.late and not go_on
        self._reader = Reader(
            node.path,
            node.format,
            self._at,
            go_on=go_on,
            chunk=node.buffer_size,
            via=node.via(self._ctx),
            habit=self._ctx.run.shared.setdefault((Habit, self._ctx.stage), Habit()),
            late=late,
            objects=self._ctx.objects,
            ahead=self._scans_ahead() if late and not self._ctx.objects else None,  # lanes scan their own
            stop=None if node.piece is None else node.piece.stop,
            file=None if node.piece is None else node.piece.file.value,
            held=None if node.piece is None else node.piece.held,
        )
        node.remember(self._reader.identity)
        self._token = self._reader.token
        return self._reader

    def _scans_ahead(self) -> ScansAhead | None:
        """Return the background scans of the next files, if there are enough CPUs."""
        files, run = self._node.files, self._ctx.run
        if files is None or len(files) < 2 or self._node.index is not None or run.tuner.cpus < MIN_CPUS_FOR_SCAN_AHEAD:
            return None
        ahead: ScansAhead = run.shared.setdefault((ScansAhead, id(files)), ScansAhead(files.names))
        return ahead

    def _read(self, want: int) -> list[Item]:
        try:
            found = (self._reader or self._open()).read(want)
        except OSError as error:
            raise_if_passing(error, show_path(self._node.path))
            self._over = self._failed = True
            return self._items(BadRecord(error_reason(error), self._at, []), error)
        self._over = not found
        return [item for part in found for item in self._items(part)]

    def _items(self, found: ReadItem, cause: OSError | None = None) -> list[Item]:
        node, at = self._node, found.at
        self._at = RecordAt(at.offset, at.number + found.rows, at.line)
        own = RecordMark(self._token, *at)
        if isinstance(found, GoodRows):
            if node.on_error is not None:
                node.on_error.fine(found.rows)
            ids = self._ctx.ids_between(at.number, at.number + found.rows)
            if isinstance(found.columns[0], RecordRefs):
                late = RecordBlock(found.columns[0], ids)
                late.own = own
                return [late]
            return [Block(node.format.structure, found.columns, found.rows, None, ids, own, found.nbytes)]
        if node.leaves_out(cause):
            return []
        if node.on_error is None or is_unopenable(cause):
            return [Failure(node.bad(cause or found.reason, at), None, own)]
        node.on_error.keep(show_path(node.path), at.offset, at.number, found.reason, found.pieces)
        return []
