"""The rows of one file of tables: in order, group by group, or by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Item
from headrace.errors import ElementError, HeadraceError, SpecError, TransportError, may_pass, raise_if_passing
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.formats.shared.counts import Count, Counts
from headrace.formats.shared.files import file_identity, local_path
from headrace.formats.shared.one_file import OneFile
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.group_cache import KeptGroups
from headrace.formats.tables.groups import Groups
from headrace.formats.tables.pieces import ColumnPiece, Lost, Piece, arrow_message, group_pieces
from headrace.formats.tables.stream import TableMark, TableStream
from headrace.formats.tables.tables import table_spec
from headrace.ops.shared.gather import gathered_items
from headrace.plan.once import cached_property
from headrace.plan.spec import Spec
from headrace.plan.structure import Structure
from headrace.remote.redact import show_path
from headrace.remote.transport import Transport


@dataclass(frozen=True)
class Tables:
    """How files of tables are read: which columns, as what, and which rows."""

    groups: type[Groups]
    spec: Spec
    choice: Choice
    kept: Any = None

    lasting_text = True

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        said = [str(self.spec), str(self.choice), "" if self.kept is None else f"filter={self.kept}"]
        return ", ".join(filter(None, said))

    def brief(self) -> str:
        """Return which rows are read: the columns show in the elements."""
        return "" if self.kept is None else f"filter={self.kept}"

    @property
    def structure(self) -> Structure:
        """How the components of a row are put together."""
        assert self.spec.structure is not None
        return self.spec.structure

    def open(self, path: str, via: Transport) -> Groups:
        """Return a file, once its rows are known to look like those of the first."""
        groups = self.groups(path, self.choice, self.kept, via)
        try:
            self.choice.check(groups.schema)
            found = table_spec(groups.schema, self.choice)
            if found != self.spec:
                raise SpecError(
                    f"its rows are {found}, those of the first file {self.spec}; cast= what may differ to one dtype"
                )
        except BaseException:
            groups.close()
            raise
        return groups

    def pieces(self, groups: Groups, group: int) -> Iterator[Piece]:
        """Return the rows of a group."""
        return group_pieces(groups, group, self.structure, self.choice, counted=self.kept is None)

    def rows(self, path: str, via: Transport) -> Count:
        """Count the rows of a file; a file that cannot be opened counts as one error."""
        try:
            before = file_identity(path, via)
            groups = self.open(path, via)
        except TransportError:
            raise
        except Exception as error:
            if may_pass(error):  # else the file would have one row for as long as the dataset is there
                raise OSError(f"the rows of {show_path(path)} cannot be counted just now: {error}") from error
            return Count(None)  # the reason is reported when the file is read
        try:
            return Count(before, tuple(groups.rows(group) for group in range(groups.count)))
        finally:
            groups.close()


def rows_in_files(reader: str, files: list[str], form: Tables, index: bool | str, via: Transport) -> Counts | None:
    """Return a lazy count of the rows of each file; None if it cannot be known."""
    if index not in (True, False, "auto"):
        raise ValueError(f'{reader}: index must be True, False or "auto", not {index!r}')
    if form.kept is not None:
        if index is True:
            raise ValueError(f"{reader}: the number of rows that pass a filter is unknown; leave out index=True")
        return None
    return Counts(files, partial(form.rows, via=via)) if index is True or (index and Counts.few(files)) else None


@dataclass(frozen=True, eq=False)
class TableRows(OneFile):
    """Rows of one file of tables."""

    format: Tables

    @property
    def cuttable(self) -> bool:
        """Whether several readers may each read some groups of the file: numbers of rows do not depend on a filter."""
        return local_path(self.path) is not None and self.format.kept is None

    def bad(self, lost: Lost, group: int, number: int) -> ElementError:
        """Return the error for a row that cannot be read."""
        return self.bad_row(lost.reason, number, f"row {number}, group {group}", lost.cause)


opens(TableRows, own=TableMark)(TableStream)


@fetches(TableRows, items=True)
def fetch_table_rows(node: TableRows, ctx: Context, indices: Indices) -> list[Item]:
    """Return rows by number, failures among them; only the groups that hold one of them are decoded, unless kept."""
    count = node.index
    assert isinstance(count, Count)
    ctx.note_origin(show_path(node.path))
    if count.identity is None:
        return [Failure(node.bad(_refusal(node, ctx), 0, 0)) for _ in indices]
    starts = np.cumsum([0, *count.groups])[:-1]
    opened: list[Groups] = []
    whole = partial(_pieces, node, ctx, opened, count)
    try:
        items = gathered_items(starts, indices, lambda g, rows: _take_rows(node, whole(g), g, int(starts[g]), rows))
    finally:
        for groups in opened:
            groups.close()
    done = 0
    for item in items:
        if isinstance(item, Block):
            item.ids = ctx.ids(indices[done : done + item.rows])
        done += item.rows
    return items


def _pieces(node: TableRows, ctx: Context, opened: list[Groups], count: Count, group: int) -> list[Piece]:
    """Return the rows of a group, from the cache or else from the file, which is `opened` for the first."""

    def read() -> list[Piece]:
        if not opened:
            via = node.via(ctx)
            if file_identity(node.path, via) != count.identity:
                raise HeadraceError(
                    f"{show_path(node.path)} has changed since its rows were counted; make the dataset anew"
                )
            opened.append(node.format.open(node.path, via))
        return list(node.format.pieces(opened[0], group))

    return KeptGroups.of(ctx.run).get((node.path, id(node.format), group), read)


def _refusal(node: TableRows, ctx: Context) -> Lost:
    """Return why a file could not be opened, in place of its rows."""
    try:
        node.format.open(node.path, node.via(ctx)).close()
    except Exception as error:  # Arrow raises what its file systems, codecs and types raise
        raise_if_passing(error, show_path(node.path))
        return Lost(arrow_message(error), 1, cause=error)
    return Lost("it could not be opened when its rows were counted", 1)


def _take_rows(node: TableRows, pieces: list[Piece], group: int, first: int, rows: Indices) -> list[Item]:
    """Return rows of a group by their numbers in it; `first` is that of the group in the file."""
    starts = np.cumsum([0, *(piece.rows for piece in pieces)])[:-1]

    def read(number: int, within: Indices) -> list[Item]:
        piece = pieces[number]
        if isinstance(piece, ColumnPiece):
            return [Block(node.format.structure, piece.columns, piece.rows).take(within)]
        places = (first + int(starts[number]) + within).tolist()
        return [Failure(node.bad(piece, group, place)) for place in places]

    return gathered_items(starts, rows, read)
