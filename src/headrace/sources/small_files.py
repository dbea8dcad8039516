"""Small files of this machine, read many at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headrace.block import Block
from headrace.columns import Indices, box_text, kind_of
from headrace.execute.context import Context
from headrace.records.files import as_path, local_path
from headrace.records.format import Format
from headrace.sources.one_file import small_size


@dataclass(frozen=True)
class SmallFiles:
    """The records of whole files, as long as these are small and nothing is wrong with any of them."""

    format: Format

    rows = None
    """Each file may have another number of records."""
    most = 64
    """So many are read at a time: few enough to stay in cache."""

    def fill(self, ctx: Context, names: Block) -> Block | None:
        """The records of these files, one file after the other; None where they must be looked at one by one."""
        read = read_small(map(as_path, names.elements()))
        found = None if read is None else self.format.scan_files(*read)
        if found is None:
            return None
        columns = found.columns
        if ctx.objects:  # as those of larger files
            columns = [box_text(c) if kind_of(c).name == "text" else c for c in columns]
        return Block(self.format.structure, columns, found.rows)


def read_small(paths: Iterable[str]) -> tuple[bytes, Indices] | None:
    """The bytes of files end to end, and where each ends; None if one is not small, not here, or not to be read."""
    parts = []
    try:
        for path in map(local_path, paths):
            size = None if path is None else small_size(path)
            if path is None or size is None:
                return None
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                data = os.read(descriptor, size + 1)
            finally:
                os.close(descriptor)
            if len(data) != size:  # somebody is writing to it, or the system gave only a part
                return None
            parts.append(data)
    except OSError:  # it is met again, in the place of that file
        return None
    return b"".join(parts), np.cumsum([len(part) for part in parts])
