"""The rows of one file of tables: in order, group by group, or by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.block import Block, Failure, Indices, Item, Mark
from headrace.errors import ElementError, HeadraceError, SpecError
from headrace.execute.context import Context
from headrace.execute.stream import Stream
from headrace.ops.gather import gathered_items
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.records.choice import Choice
from headrace.records.counts import Count, Counts
from headrace.records.files import identity
from headrace.records.groups import Groups
from headrace.records.pieces import Good, Lost, Piece, described, group_pieces
from headrace.records.tables import spec_of
from headrace.sources.kept_groups import KeptGroups
from headrace.sources.one_file import NO_FILE, FileStream, OneFile

FAILURES = 256
"""So many failures are made at a time, of a group that has more."""


@dataclass(frozen=True)
class Tables:
    """How files of tables are read: which columns, as what, and which rows."""

    groups: type[Groups]
    spec: Spec
    choice: Choice
    kept: Any = None

    def __str__(self) -> str:
        said = [str(self.spec), str(self.choice), "" if self.kept is None else f"filter={self.kept}"]
        return ", ".join(filter(None, said))

    @property
    def structure(self) -> Structure:
        """How the components of a row are put together."""
        assert self.spec.structure is not None
        return self.spec.structure

    def open(self, path: str) -> Groups:
        """A file, once its rows are known to look like those of the first."""
        groups = self.groups(path, self.choice, self.kept)
        try:
            self.choice.check(groups.schema)
            found = spec_of(groups.schema, self.choice)
            if found != self.spec:
                raise SpecError(
                    f"its rows are {found}, those of the first file {self.spec}; cast= what may differ to one dtype"
                )
        except BaseException:
            groups.close()
            raise
        return groups

    def pieces(self, groups: Groups, group: int) -> Iterator[Piece]:
        """The rows of a group."""
        return group_pieces(groups, group, self.structure, self.choice, counted=self.kept is None)

    def rows(self, path: str) -> Count:
        """How many rows a file gives; a file that cannot be opened gives an error."""
        try:
            before = identity(path)
            groups = self.open(path)
        except Exception:  # which is told when it is read
            return Count(None, 1)
        try:
            return Count(before, sum(groups.rows(group) for group in range(groups.count)))
        finally:
            groups.close()


def row_counts(reader: str, files: list[str], form: Tables, index: bool | str) -> Counts | None:
    """How many rows each file has, once somebody asks; None where that is not to be known."""
    if index not in (True, False, "auto"):
        raise ValueError(f'{reader}: index must be True, False or "auto", not {index!r}')
    if form.kept is not None:
        if index is True:
            raise ValueError(f"{reader}: of rows that pass a filter nobody knows the number; leave out index=True")
        return None
    return Counts(files, form.rows) if index is True or (index and Counts.few(files)) else None


@dataclass(frozen=True, eq=False)
class TableRows(OneFile):
    """Rows of one file of tables."""

    format: Tables

    def open(self, ctx: Context, mark: Mark) -> Stream:
        return TableStream(self, ctx, mark)

    def bad(self, lost: Lost, group: int, number: int) -> ElementError:
        """What stands in the place of a row that cannot be read."""
        error = self.bad_row(lost.reason, number, f"row {number}, group {group}")
        error.__cause__ = lost.cause
        return error

    def fetch(self, ctx: Context, numbers: Indices, count: Count) -> list[Item]:
        """Rows by number, failures among them; only the groups that hold one of them are decoded, unless kept."""
        if count.identity is None:
            return [Failure(self.bad(self._refused(), 0, 0)) for _ in numbers]
        if identity(self.path) != count.identity:
            raise HeadraceError(f"{self.path} has changed since its rows were counted; make the dataset anew")
        groups = self.format.open(self.path)
        try:
            sizes = [groups.rows(group) for group in range(groups.count)]
            starts = np.cumsum([0, *sizes])[:-1]
            items = gathered_items(starts, numbers, lambda g, rows: self._group(ctx, groups, g, int(starts[g]), rows))
        finally:
            groups.close()
        done = 0
        for item in items:
            if isinstance(item, Block):
                item.ids = ctx.ids(numbers[done : done + item.rows])
            done += item.rows
        return items

    def _refused(self) -> Lost:
        """Why a file could not be opened, which stands for its rows."""
        try:
            self.format.open(self.path).close()
        except Exception as error:  # Arrow raises what its file systems, codecs and types raise
            return Lost(described(error), 1, cause=error)
        return Lost("it could not be opened when its rows were counted", 1)

    def _group(self, ctx: Context, groups: Groups, group: int, first: int, rows: Indices) -> list[Item]:
        key = (self.path, id(self.format), group)
        pieces = KeptGroups.of(ctx.run).get(key, lambda: list(self.format.pieces(groups, group)))
        starts = np.cumsum([0, *(piece.rows for piece in pieces)])[:-1]

        def read(number: int, within: Indices) -> list[Item]:
            piece = pieces[number]
            if isinstance(piece, Good):
                return [Block(self.format.structure, piece.columns, piece.rows).take(within)]
            places = (first + int(starts[number]) + within).tolist()
            return [Failure(self.bad(piece, group, place)) for place in places]

        return gathered_items(starts, rows, read)


class TableStream(FileStream):
    """Groups in turn. The mark: which file it is, the group, rows passed in it, and rows passed in the file.

    These are the file's rows, bad ones included, whether they become elements or not.
    """

    def __init__(self, node: TableRows, ctx: Context, mark: Mark) -> None:
        super().__init__()
        self._node = node
        self._ctx = ctx
        self._groups: Groups | None = None
        self._pieces: Iterator[Piece] | None = None
        self._lost: Lost | None = None
        place: tuple[int, int, int, int] = mark or (NO_FILE, 0, 0, 0)
        token, self._group, self._row, self._number = place
        self._token = NO_FILE
        self._passing = 0
        if mark is not None:
            self._resume(token)

    def _resume(self, token: int) -> None:
        try:
            self._token = identity(self._node.path).token
        except OSError:
            self._token = NO_FILE
        if token != self._token:
            raise self._node.changed(self._token)
        self._passing, self._number, self._row = self._row, self._number - self._row, 0

    def close(self) -> None:
        groups, self._groups, self._pieces = self._groups, None, None
        if groups is not None:
            groups.close()

    def _open(self) -> Groups:
        self._token = identity(self._node.path).token
        self._groups = groups = self._node.format.open(self._node.path)
        return groups

    def skip(self, count: int, *, replay: bool = False) -> int:  # noqa: ARG002
        done = self._pending.drop(count)
        while done < count and not self._over:
            leapt = self._leap(count - done)
            if leapt:
                done += leapt
            else:
                self._pending.add(self._read(count - done))
                done += self._pending.drop(count - done)
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
        except Exception:  # which is told when the next row is read
            return 0
        if self._group == groups.count:
            return 0
        left = groups.rows(self._group) - self._row
        if left > count:
            return 0
        self._passed(left)
        self._next_group()
        return left

    def _next_group(self) -> None:
        self._pieces, self._group, self._row = None, self._group + 1, 0

    def _read(self, want: int) -> list[Item]:  # noqa: ARG002 - groups come as they lie in the file
        if self._lost is not None:
            return self._failures(self._lost)
        try:
            groups = self._groups or self._open()
        except Exception as error:  # Arrow raises what its file systems, codecs and types raise
            self._over = True
            return self._bad(Lost(described(error), 1, cause=error), opening=True)
        if self._group == groups.count:
            self._over = True
            self.close()
            return []
        self._pieces = self._pieces or self._node.format.pieces(groups, self._group)
        piece = next(self._pieces, None)
        if piece is None:
            self._next_group()
            return []
        piece = self._after(piece)
        return [] if piece is None else self._made(piece) if isinstance(piece, Good) else self._bad(piece)

    def _after(self, piece: Piece) -> Piece | None:
        """What is left of a piece behind the rows that a state has passed."""
        passed = min(self._passing, piece.rows)
        self._passing -= passed
        self._passed(passed)
        if passed == piece.rows:
            return None
        if isinstance(piece, Lost):
            return piece._replace(rows=piece.rows - passed)
        return Good([column[passed:] for column in piece.columns], piece.rows - passed) if passed else piece

    def _made(self, piece: Good) -> list[Item]:
        node, start = self._node, self._number
        mark = self._passed(piece.rows)
        if node.on_error is not None:
            node.on_error.fine(piece.rows)
        ids = self._ctx.ids_between(start, self._number)
        return [Block(node.format.structure, piece.columns, piece.rows, mark, ids)]

    def _passed(self, rows: int) -> Mark:
        mark = (self._token, self._group, self._row, self._number)
        self._row += rows
        self._number += rows
        return mark

    def _bad(self, lost: Lost, *, opening: bool = False) -> list[Item]:
        node = self._node
        if node.on_error is None or (lost.fault and not opening):
            return self._failures(lost)
        number = self._number
        self._passed(lost.rows)
        node.on_error.keep(node.path, number, number, lost.reason, [lost.shown], rows=lost.rows)
        return []

    def _failures(self, lost: Lost) -> list[Item]:
        """A failure for each row, some at a time."""
        made: list[Item] = []
        for _ in range(min(FAILURES, lost.rows)):
            error = self._node.bad(lost, self._group, self._number)
            made.append(Failure(error, self._passed(1)))
        left = lost.rows - len(made)
        self._lost = lost._replace(rows=left) if left else None
        return made
