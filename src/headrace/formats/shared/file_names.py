"""Names of files as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headrace.columns import Column, Indices, take, text_column
from headrace.columns.block import Block
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import Stream
from headrace.formats.shared.files import FileList, common_folder
from headrace.indexed.numbered import Held, NumberedStream
from headrace.plan.marks import At
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

NAME = Spec(LEAF, (TensorSpec((), np.str_),))


@dataclass(frozen=True, eq=False)
class FileNames(Held):
    """Names that are known in advance. A state holds no path: files that were moved are the same.

    `listing` is a short digest of the names below their directory, if nothing else distinguishes them.
    """

    names: Sequence[str] = field(repr=False)
    listing: str = ""
    listed_by: str = field(default="file_names", repr=False)
    class_names: tuple[str, ...] = field(default=(), repr=False)
    """The names of the directories that the files were found in, if these are classes."""

    @property
    def operation(self) -> str:
        return self.listed_by

    @property
    def file_paths(self) -> Sequence[str]:
        """The names, if they are those of a folder; none if the user gave them."""
        return () if self.listed_by == "file_names" else self.names

    def files_held(self) -> str:
        return str(FileList(self.names))

    @cached_property
    def column(self) -> Column:
        """All of them."""
        return text_column(self.names)


@opens(FileNames)
def open_file_names(node: FileNames, ctx: Context, _at: At) -> Stream:
    """Return the names in turn."""

    def read(start: int, stop: int) -> Block:
        return Block(LEAF, [node.column[start:stop]], stop - start, None, ctx.ids_between(start, stop))

    return NumberedStream(node, read)


@fetches(FileNames)
def fetch_file_names(node: FileNames, ctx: Context, indices: Indices) -> Block:
    """Return names by number."""
    return Block(LEAF, [take(node.column, indices)], len(indices), None, ctx.ids(indices))


def listing(names: Sequence[str]) -> str:
    """Return a digest of these names that does not depend on the location of their directory."""
    folder = common_folder(names)
    shown = "\0".join(name.removeprefix(folder) for name in names)
    return hashlib.blake2b(shown.encode(errors="surrogateescape"), digest_size=6).hexdigest()
