"""Names of files as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.block import Block, Column, Indices, take, text
from headrace.execute.context import Context
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF
from headrace.records.files import FileList, common_folder
from headrace.sources.numbered import Held

NAME = Spec(LEAF, (TensorSpec((), np.str_),))


@dataclass(frozen=True, eq=False)
class FileNames(Held):
    """Names that are known in advance. A state holds no path: files that were moved are the same.

    `listing` says in few bytes which names they are below their folder, where nothing else tells them apart.
    """

    names: Sequence[str] = field(repr=False)
    listing: str = ""
    listed_by: str = field(default="file_names", repr=False)

    @property
    def operation(self) -> str:
        return self.listed_by

    def files_held(self) -> str:
        return str(FileList(self.names))

    @cached_property
    def _column(self) -> Column:
        return text(self.names)

    def between(self, ctx: Context, start: int, stop: int) -> Block:
        """Rows `start` to `stop`."""
        return Block(LEAF, [self._column[start:stop]], stop - start, None, ctx.ids_between(start, stop))

    def at(self, ctx: Context, indices: Indices) -> Block:
        return Block(LEAF, [take(self._column, indices)], len(indices), None, ctx.ids(indices))


def listing(names: Sequence[str]) -> str:
    """What tells these names from others, wherever their folder lies."""
    folder = common_folder(names)
    shown = "\0".join(name.removeprefix(folder) for name in names)
    return hashlib.blake2b(shown.encode(errors="surrogateescape"), digest_size=6).hexdigest()
