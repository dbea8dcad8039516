"""Cut files: large ones into pieces, small ones into packs."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from headrace.columns import text_column
from headrace.columns.block import Block
from headrace.errors import ElementError, TransportError
from headrace.execute.context import Context
from headrace.execute.inputs import Input
from headrace.execute.registry import opens
from headrace.execute.stream import END, Made, Stream
from headrace.formats.shared.files import File, LocalFile, file_identity, local_path
from headrace.formats.shared.format import Format
from headrace.formats.shared.many_files import Files, small_files
from headrace.formats.shared.one_file import OneFile
from headrace.formats.shared.quarantine import PolicyEvents
from headrace.formats.shared.reader import START, Reader, RecordAt
from headrace.formats.shared.records import Piece, RecordPlace, Records, RecordsStream
from headrace.formats.shared.shared import Shared
from headrace.formats.shared.strand import HeldBytes, RestOfStrand, Strand, strand_pieces
from headrace.formats.shared.window import open_window
from headrace.formats.tables.rows import TableRows
from headrace.formats.tables.stream import GroupPlace, GroupRange
from headrace.ops.flat_map import Child, ParentPlace
from headrace.physical.cuts import Cut, CutAim, cuts
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import At, Mark, Marks
from headrace.plan.node import AnyNode, Node, Written
from headrace.plan.prepared import Prepared
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.remote.objects import RemoteFile

MAX_FILES_PER_CUT = 64
COMPRESSED_WORK_FACTOR = 4
"""A compressed file counts as this many times its size, because inflating and parsing is more work than reading."""
CUTS_AT_ONCE = 4
"""About this many cuts are found in the bytes of one window: the rest of each is looked at twice."""
MAX_BYTES_WITHOUT_CUT = 64 << 20
"""A file in which no cut is found for this many bytes is read to its end as one piece."""


@dataclass(frozen=True, eq=False)
class FilesCut(Node):
    """The rows of the files from `first` to before `stop`; of a single one, only a `piece`."""

    files: Written
    first: int
    stop: int
    piece: Any = None
    on_error: PolicyEvents | None = None

    @property
    def operation(self) -> str:
        return self.files.operation

    @property
    def spec(self) -> Spec:
        return self.files.spec

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    def label(self, *, for_state: bool = False) -> str:
        return self.files.label(for_state=for_state)

    def changed_midway(self, place: Marks, prepared: Prepared) -> tuple[ElementError, Node | None]:
        """Return the error for the rest of a file that was changed while it was being read, and the next files."""
        assert isinstance(self.files, Files) and self.files.files is not None
        here = place[prepared.number(self.files)]
        inside: Any = here.own  # a Child, unless small files came in one block
        if self.files.positional:
            # Rows that are counted only now may be others than those of the file that was read.
            found = int(np.searchsorted(self.files.first_rows, here.ordinal, "right")) - 1
            file = min(max(found, self.first), self.stop - 1)
            number = max(0, here.ordinal - int(self.files.first_rows[file]))
        else:
            file = place[prepared.number(self.files.input)].ordinal
            number = here.offset + (0 if inside is None else inside.mark.ordinal)
        child: AnyNode = self.files.fn(self.files.files.names[file])
        rest = replace(self, first=file + 1) if file + 1 < self.stop else None
        return child.changed_error(number), rest


@opens(FilesCut, own=Child)
class FilesCutStream(Stream):
    """One file after another. Marks and ids are those of a FlatMapStream over all files."""

    def __init__(self, node: FilesCut, ctx: Context, at: At) -> None:
        assert isinstance(node.files, Files) and node.files.files is not None
        self._node, self._files, self._names = node, node.files, node.files.files.names
        self._ctx = ctx
        self._names_number = ctx.prepared.number(node.files.input)
        self._file = node.first
        self._first_row = 0
        self._child: Input | None = None
        self._ended_early = False
        self._many = None if ctx.with_ids else small_files(self._files, ctx)
        if at.own is not None:
            self._file = at.inputs[self._names_number].ordinal
            self._open(at.own)

    def _open(self, own: Child | None = None) -> Input:
        """Open the next file, from a place in it if one is given."""
        number = self._file
        self._file += 1
        name, piece = self._names[number], self._node.piece
        child: AnyNode = self._files.fn(name)
        if isinstance(child, OneFile):
            near = local_path(name) is not None
            child = replace(child, piece=piece, files=None if near else child.files, on_error=self._node.on_error)
        self._first_row = 0 if own is not None or piece is None else _first_row(piece)
        where = self._ctx.branch(self._ctx.path, number)
        self._child = where.open_plan(child, None if own is None else own.mark, slot=1, objects=True)
        return self._child

    def pull(self, want: int) -> Made:
        while True:
            if self._child is None:
                if self._file == self._node.stop:
                    return END
                if (many := self._small_files()) is not None:
                    if many.rows:
                        return many
                    continue
                self._open()
            assert self._child is not None
            item = self._child.pull(want, uncut=True)
            if item is not END:
                mark = item.mark
                if self._first_row:
                    mark = Mark(mark.number, mark.ordinal + self._first_row, mark.offset, mark.own, mark.inputs)
                here = self._file - 1
                item.own, item.mark = Child(mark), Mark(self._names_number, here, here)
                return item
            stream = self._child.stream
            self._ended_early = isinstance(stream, RecordsStream) and stream.ended_early
            self._child.close()
            self._child = None

    def _small_files(self) -> Block | None:
        """Return the rows of all files that are left, at once. None if they must be read one by one."""
        if self._many is None or self._node.stop - self._file < 2:
            return None
        column = text_column(self._names[self._file : self._node.stop])
        names = Block(LEAF, [column], self._node.stop - self._file)
        made = self._many.fill(self._ctx, names)
        if made is None:
            self._many = None
            return None
        made.mark = Mark(self._names_number, self._file, self._file)
        self._file = self._node.stop
        return made

    def voids(self) -> Hashable | None:
        return self._file - 1 if self._ended_early else None


def _first_row(piece: Piece | GroupRange) -> int:
    return piece.at.number if isinstance(piece, Piece) else piece.number


@cuts(Files)
def cut_files(node: Files, ctx: Context, place: ParentPlace, size: CutAim) -> Iterator[Cut]:
    """Yield large files in pieces, small ones in packs, and files that cannot be cut whole."""
    assert node.files is not None, "files are known by name"
    names = node.files.names
    compressed = isinstance(node.format, Format) and bool(node.format.compression)

    def file_bytes(name: str) -> int | None:
        if node.child is Records and local_path(name) is None:
            return sys.maxsize
        found = _local_size(name)
        return found * COMPRESSED_WORK_FACTOR if found is not None and compressed else found

    if place.inside is not None:
        number, inside = place.inside
        yield from _pieces(node, ctx, number, inside, size)
    first = place.following
    while first < len(names):
        largest = size.max_file_bytes if compressed else size.nbytes
        nbytes = file_bytes(names[first])
        if nbytes is None:  # e.g. a pipe
            yield Cut(_cut(node, first, first + 1), in_order=True)
            first += 1
            continue
        if nbytes > largest:
            yield from _pieces(node, ctx, first, None, size)
            first += 1
            continue
        stop = first + 1
        while stop < len(names) and stop - first < MAX_FILES_PER_CUT and nbytes < size.nbytes:
            more = file_bytes(names[stop])
            if more is None or more > largest:
                break
            nbytes += more
            stop += 1
        yield Cut(_cut(node, first, stop), nbytes)
        first = stop


def _local_size(name: str) -> int | None:
    """Return the size of a file on this machine, 0 if it is unknown. None for what is no regular file."""
    path = local_path(name)
    try:
        found = None if path is None else os.stat(path)  # noqa: PTH116 - many files are asked
    except OSError:  # reported when it is read
        return 0
    if found is None:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _cut(node: Files, first: int, stop: int, piece: object = None) -> FilesCut:
    return FilesCut(node, first, stop, piece, _events(node), site=node.site, name=node.name, stands_for=node)


def _events(node: Files | OneFile) -> PolicyEvents | None:
    """Return a recorder for the node's error policy, until it is known which records come before."""
    return None if node.on_error is None else PolicyEvents(node.on_error)


def _pieces(node: Files, ctx: Context, number: int, inside: Any, size: CutAim) -> Iterator[Cut]:
    """Yield the rest of one of several files."""
    assert node.files is not None
    child: AnyNode = node.fn(node.files.names[number])

    def bounded(piece: object = None) -> Node:
        return _cut(node, number, number + 1, piece)

    if not isinstance(child, Records | TableRows) or not child.cuttable:
        yield Cut(bounded(), _local_size(node.files.names[number]) or 0)
    elif isinstance(child, TableRows):
        yield from _groups(child, ctx, bounded, inside, size)
    else:
        for cut in _records(child, ctx, bounded, inside, size):
            yield cut._replace(unit=number)


@cuts(Records)
def cut_records(node: Records, ctx: Context, place: RecordPlace | Strand, size: CutAim) -> Iterator[Cut]:
    """Pieces of a file that is a dataset by itself, such as a child of an interleave."""
    return _records(node, ctx, partial(_bounded, node), place, size)


@cuts(TableRows)
def cut_table(node: TableRows, ctx: Context, place: GroupPlace, size: CutAim) -> Iterator[Cut]:
    """Groups of a file that is a dataset by itself."""
    return _groups(node, ctx, partial(_bounded, node), place, size)


def _bounded(node: Records | TableRows, piece: object = None) -> Node:
    return replace(node, piece=piece, files=None, on_error=_events(node), stands_for=node)


def _groups(
    child: TableRows, ctx: Context, bounded: Callable[..., Node], place: GroupPlace | None, size: CutAim
) -> Iterator[Cut]:
    """Groups of a file of tables, some at a time, from a place on."""
    if place is None:
        via = child.via(ctx)
        try:
            token = file_identity(child.path, via).token
            opened = child.format.open(child.path, via)
        except Exception:  # reported by the reader of the file
            yield Cut(bounded(), in_order=True)
            return
        place = GroupPlace(0, 0, Shared(opened, opened.close), token)
    group, row, shared, token = place
    groups = shared.value
    try:
        while group < groups.count:
            stop, rows, nbytes = group, 0, 0
            while stop < groups.count and (stop == group or nbytes < size.nbytes):
                rows += groups.rows(stop)
                nbytes += groups.count_group(stop)[1]
                stop += 1
            piece = GroupRange(group, row, stop, shared.retain(), token)
            yield Cut(bounded(piece), nbytes, release=shared.release, known_rows=rows)
            group, row = stop, row + rows
    finally:
        shared.release()


def _records(
    child: Records, ctx: Context, bounded: Callable[..., Node], place: RecordPlace | Strand | None, size: CutAim
) -> Iterator[Cut]:
    """Pieces of a file of records, as its format cuts them, from a place on; the last one to the end of the file."""
    if child.is_strand:
        assert not isinstance(place, RecordPlace)
        yield from _strand(child, ctx, bounded, place, size)
        return
    assert not isinstance(place, Strand)
    if place is None:
        path = local_path(child.path)
        assert path is not None
        try:
            place = RecordPlace(START, LocalFile(path))
        except OSError:  # reported by the reader of the file
            yield Cut(bounded(), in_order=True)
            return
    at, file = place
    file.share_memory()  # the pages that are looked at here are read by a worker a moment later
    shared = Shared(file, file.close)

    def cut(following: RecordAt | None, rows: int | None) -> Cut:
        piece = Piece(at, None if following is None else following.offset, shared.retain())
        nbytes = (file.size or 0 if following is None else following.offset) - at.offset
        return Cut(bounded(piece), nbytes, child.path, release=shared.release, known_rows=rows)

    try:
        for following, rows in _places(file, child.format, at, size):
            yield cut(following, rows)
            at = following or at
    finally:
        shared.release()


def _strand(
    child: Records, ctx: Context, bounded: Callable[..., Node], strand: Strand | None, size: CutAim
) -> Iterator[Cut]:
    """Pieces of a file that one thread reads in order: each holds its bytes."""
    if strand is None:
        strand = _opened_strand(child, ctx)
        if strand is None:  # reported by the reader of the file
            yield Cut(bounded(), in_order=True)
            return
    file = strand.file
    shared: Shared[File] = Shared(file, file.close)
    pieces = strand_pieces(strand, child.format, lambda: size.nbytes, size.max_bytes_without_cut)
    unread = False
    try:
        for at, stop, held in pieces:
            node, nbytes = bounded(Piece(at, stop, shared.retain(), held)), held.nbytes
            unread = isinstance(held, RestOfStrand)
            release = partial(_release, held, shared)
            yield Cut(node, nbytes, unit=child.path, in_order=unread, release=release, held_bytes=nbytes)
        if isinstance(file, RemoteFile) and not unread:
            file.close()  # all of it is read: the work in progress belongs to the next one
    finally:
        pieces.close()
        shared.release()


def _release(held: HeldBytes | RestOfStrand, file: Shared[File]) -> None:
    held.release()
    file.release()


def _opened_strand(child: Records, ctx: Context) -> Strand | None:
    """Return the file, open at its beginning; None if it cannot be opened, or is not of its format."""
    try:
        reader = Reader(child.path, child.format, chunk=child.buffer_size, via=child.via(ctx))
    except (OSError, TransportError):
        return None
    try:
        refused = reader.refusal() is not None
    except (OSError, TransportError):
        refused = True
    strand = Strand(*reader.hand_over())
    if refused:
        strand.close()
        return None
    return strand


def _places(file: LocalFile, form: Format, at: RecordAt, size: CutAim) -> Iterator[tuple[RecordAt | None, int | None]]:
    """Yield where each piece of a file ends, None for the end of the file, and how many rows it has, if known.

    The first piece begins at `at`.
    """
    rows: int | None = None
    with closing(open_window(file, "", at.offset, None)) as view, suppress(OSError):  # met by the reader of the rest
        while not view.final:
            view.more((CUTS_AT_ONCE + 1) * size.nbytes)
            prefers: Any = {"prefer": size.prefer} if form.prefers_rows else {}
            found = form.cut(view.data, size.nbytes, first=view.offset == 0, final=view.final, **prefers)
            if not len(found.offsets):
                if len(view.data) > MAX_BYTES_WITHOUT_CUT:
                    break
                continue
            before, begun = 0, at
            for offset, number, lines in zip(*(each.tolist() for each in found), strict=True):
                at = RecordAt(view.offset + offset, begun.number + number, begun.line + lines)
                yield at, number - before
                before = number
            view.use(int(found.offsets[-1]))
        if view.final and size.counts_rows:
            each = form.cut(view.data, 1, first=view.offset == 0, final=True).rows
            rows = int(each[-1]) + 1 if len(each) else None
    yield None, rows
