"""One pass over a file of tables, group after group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.columns.block import Block, Failure, Item
from headrace.core.override import override
from headrace.errors import is_unopenable, raise_if_passing
from headrace.execute.context import Context
from headrace.formats.shared.files import file_identity
from headrace.formats.shared.one_file import NO_FILE, FileStream
from headrace.formats.shared.shared import Shared
from headrace.formats.tables.groups import Groups
from headrace.formats.tables.pieces import ColumnPiece, Lost, Piece, arrow_message
from headrace.plan.marks import At, OwnMark
from headrace.remote.redact import show_path

if TYPE_CHECKING:
    from headrace.formats.tables.rows import TableRows

FAILURES_PER_PULL = 256
"""How many failures are made at a time for a group that has more."""


NO_TOKEN = NO_FILE.to_json()


@dataclass(slots=True)
class TableMark(OwnMark):
    """Which file it is, the group, rows passed in it, and rows passed in the file.

    These are the file's rows, bad ones included, whether they become elements or not.
    """

    token: int
    group: int
    row: int
    number: int


class GroupPlace(NamedTuple):
    """A group of an open file, at which another reader begins, and how many rows of the file come before it."""

    group: int
    number: int
    groups: Shared[Groups]
    token: int


class GroupRange(NamedTuple):
    """The groups of a file from `group` to before `stop`; `number` rows of the file come before them."""

    group: int
    number: int
    stop: int
    groups: Shared[Groups]
    token: int


class TableStream(FileStream):
    """Groups in turn."""

    def __init__(self, node: TableRows, ctx: Context, at: At) -> None:
        super().__init__()
        ctx.note_origin(show_path(node.path))
        self._node = node
        self._ctx = ctx
        self._groups: Groups | None = None
        self._shared: Shared[Groups] | None = None
        self._pieces: Iterator[Piece] | None = None
        self._lost: Lost | None = None
        own: TableMark = at.own or TableMark(NO_TOKEN, 0, 0, 0)
        self._group, self._row, self._number = own.group, own.row, own.number
        self._token = NO_TOKEN
        self._stop: int | None = None
        self._passing = 0
        if node.piece is not None:
            self._stop = node.piece.stop
            if at.own is None:
                self._group, self._number = node.piece.group, node.piece.number
        if at.own is not None:
            self._resume(own.token)

    def _resume(self, token: int) -> None:
        if self._node.piece is not None:
            self._passing, self._number, self._row = self._row, self._number - self._row, 0
            return
        try:
            self._token = file_identity(self._node.path, self._node.via(self._ctx)).token
        except OSError as error:
            raise_if_passing(error, show_path(self._node.path))
            self._token = NO_TOKEN
        if token != self._token:
            raise self._node.change_error(gone=self._token == NO_TOKEN)
        self._passing, self._number, self._row = self._row, self._number - self._row, 0

    def close(self) -> None:
        self._pieces = None
        if self._shared is not None:
            shared, self._shared, self._groups = self._shared, None, None
            shared.release()
        if self._groups is not None:
            self._groups.close()
            self._groups = None

    def _open(self) -> Groups:
        node, via = self._node, self._node.via(self._ctx)
        if node.piece is not None:
            self._token = node.piece.token
            self._groups = node.piece.groups.value.again()
            return self._groups
        known = file_identity(node.path, via)
        node.remember(lambda: known)
        self._token = known.token
        self._groups = groups = node.format.open(node.path, via)
        return groups

    def halt(self) -> GroupPlace | None:
        groups, whole = self._groups, self._node.cuttable and self._lost is None and not self._passing
        if groups is None or self._over or not whole:
            return None
        if self._pieces is None and not self._row:
            self._stop, number = self._group, self._number
        else:
            self._stop, number = self._group + 1, self._number - self._row + groups.rows(self._group)
        self._shared = Shared(groups, groups.close)
        return GroupPlace(self._stop, number, self._shared.retain(), self._token)

    @override
    def skip(self, count: int, *, replay: bool = False) -> int:
        done = 0
        while done < count and not self._over and (leapt := self._leap(count - done)):
            done += leapt
        return done

    def _leap(self, count: int) -> int:
        """Pass over what is left of a group, if it is no more than this."""
        node = self._node
        if self._lost is not None:
            leapt = min(count, self._lost.rows)
            self._passed(leapt)
            left = self._lost.rows - leapt
            self._lost = self._lost._replace(rows=left) if left else None
            return leapt
        if node.on_error is not None or node.format.kept is not None or self._passing:
            return 0
        try:
            groups = self._groups or self._open()
        except Exception as error:  # reported when the next row is read
            raise_if_passing(error, show_path(node.path))
            return 0
        if self._group == self._last(groups):
            return 0
        left = groups.rows(self._group) - self._row
        if left > count:
            return 0
        self._passed(left)
        self._next_group()
        return left

    def _last(self, groups: Groups) -> int:
        """Return the group before which this pass ends."""
        return groups.count if self._stop is None else min(self._stop, groups.count)

    def _next_group(self) -> None:
        self._pieces, self._group, self._row = None, self._group + 1, 0

    @override
    def _read(self, want: int) -> list[Item]:  # groups come as stored in the file
        if self._lost is not None:
            return self._failures(self._lost)
        try:
            groups = self._groups or self._open()
        except Exception as error:  # Arrow raises what its file systems, codecs and types raise
            raise_if_passing(error, show_path(self._node.path))
            self._over = True
            return self._bad(Lost(arrow_message(error), 1, cause=error), opening=True)
        if self._group == self._last(groups):
            self._over = True
            self.close()
            return []
        self._pieces = self._pieces or self._node.format.pieces(groups, self._group)
        piece = next(self._pieces, None)
        if piece is None:
            self._next_group()
            return []
        piece = self._after(piece)
        return [] if piece is None else self._made(piece) if isinstance(piece, ColumnPiece) else self._bad(piece)

    def _after(self, piece: Piece) -> Piece | None:
        """Return what is left of a piece after the rows that a state has passed."""
        passed = min(self._passing, piece.rows)
        self._passing -= passed
        self._passed(passed)
        if passed == piece.rows:
            return None
        if isinstance(piece, Lost):
            return piece._replace(rows=piece.rows - passed)
        return ColumnPiece([column[passed:] for column in piece.columns], piece.rows - passed) if passed else piece

    def _made(self, piece: ColumnPiece) -> list[Item]:
        node, start = self._node, self._number
        own = self._passed(piece.rows)
        if node.on_error is not None:
            node.on_error.fine(piece.rows)
        ids = self._ctx.ids_between(start, self._number)
        return [Block(node.format.structure, piece.columns, piece.rows, None, ids, own)]

    def _passed(self, rows: int) -> TableMark:
        own = TableMark(self._token, self._group, self._row, self._number)
        self._row += rows
        self._number += rows
        return own

    def _bad(self, lost: Lost, *, opening: bool = False) -> list[Item]:
        node = self._node
        if node.leaves_out(lost.cause):
            return []
        if node.on_error is None or (lost.fault and not opening) or is_unopenable(lost.cause):
            return self._failures(lost)
        number = self._number
        self._passed(lost.rows)
        node.on_error.keep(show_path(node.path), number, number, lost.reason, [lost.shown], rows=lost.rows)
        return []

    def _failures(self, lost: Lost) -> list[Item]:
        """Return a failure for each row, some at a time."""
        made: list[Item] = []
        for _ in range(min(FAILURES_PER_PULL, lost.rows)):
            error = self._node.bad(lost, self._group, self._number)
            made.append(Failure(error, None, self._passed(1)))
        left = lost.rows - len(made)
        self._lost = lost._replace(rows=left) if left else None
        return made
