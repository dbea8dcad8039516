"""Read many small local files at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.columns import Indices, box_text, kind_of
from headrace.columns.block import Block, Ids, source_ids
from headrace.core.owned_file import OwnedFile
from headrace.execute.context import Context
from headrace.formats.shared.files import as_path, local_path
from headrace.formats.shared.format import Format
from headrace.formats.shared.one_file import small_stat
from headrace.formats.shared.reader import START
from headrace.formats.shared.records import RecordMark
from headrace.plan.marks import Mark
from headrace.remote.identity import Signature, Token, signature


@dataclass(frozen=True)
class SmallFiles:
    """The records of whole files, as long as these are small and nothing is wrong with any of them."""

    format: Format

    rows = None
    """Each file may have another number of records."""
    most = 64
    """How many are read at a time: few enough to stay in cache."""

    def fill(self, ctx: Context, names: Block) -> Block | None:
        """Return the records of these files in order; None if they must be read one by one."""
        read = self._read(ctx, map(as_path, names.elements()))
        return None if read is None else read[0]

    def fill_each(self, ctx: Context, names: Block) -> list[Block] | None:
        """Return the records of each of these files, marked as those of a file that is read by itself; None
        as above.
        """
        paths = list(map(as_path, names.elements()))
        read = self._read(ctx, paths)
        if read is None:
            return None
        rows, stops, signatures = read
        if ctx.with_ids:
            assert names.ids is not None, "parents are read with ids"
            rows.ids = _ids(ctx, names.ids.tolist(), stops)
        _ = rows.nbytes  # counted once: each part has its share
        parts, start = [], 0
        for path, stop, seen in zip(paths, stops.tolist(), signatures, strict=True):
            part = rows.cut(start, stop)
            part.offset = 0
            part.mark = Mark(0, 0, 0, RecordMark(Token(path, seen=seen), *START))
            parts.append(part)
            start = stop
        return parts

    def _read(self, ctx: Context, paths: Iterable[str]) -> tuple[Block, Indices, list[Signature]] | None:
        """Return the records of these files, the cumulative counts, and the files' identities."""
        read = read_small(paths)
        found = None if read is None else self.format.scan_files(read.data, read.ends)
        if read is None or found is None:
            return None
        rows, stops = found
        columns = rows.columns
        if ctx.objects:  # as large files are read
            columns = [box_text(c) if kind_of(c).name == "text" else c for c in columns]
        return Block(self.format.structure, columns, rows.rows), stops, read.signatures


def _ids(ctx: Context, parents: Sequence[Sequence[int]], stops: Indices) -> Ids:
    """Return the ids of the rows of children that end at these rows, each on the path of its parent."""
    counts = np.diff(stops, prepend=0)
    paths = np.array([ctx.branch(*parent).path for parent in parents], np.uint64)
    ids = source_ids(0, np.arange(len(counts) and int(stops[-1])) - np.repeat(stops - counts, counts))
    ids[:, 0] = np.repeat(paths, counts)
    return ids


class SmallContents(NamedTuple):
    """The concatenated bytes of files, where each ends, and their identities."""

    data: bytes
    ends: Indices
    signatures: list[Signature]


def read_small(paths: Iterable[str]) -> SmallContents | None:
    """Return the contents of small files; None if one is not small, not here, or not to be read."""
    parts, signatures = [], []
    try:
        for path in map(local_path, paths):
            found = None if path is None else small_stat(path)
            if path is None or found is None:
                return None
            with OwnedFile(path) as file:
                data = file.read(found.st_size + 1)
            if len(data) != found.st_size:  # the file is being written, or the read was short
                return None
            parts.append(data)
            signatures.append(signature(found))
    except OSError:  # the error is raised again when that file is read
        return None
    return SmallContents(b"".join(parts), np.cumsum([len(part) for part in parts]), signatures)
