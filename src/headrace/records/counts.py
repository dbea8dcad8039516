"""How many rows files have, looked up when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from headrace.records.files import FEW, local_path
from headrace.records.identity import Identity

MANY = 4096
"""Of so many local files the footers are read without being told to."""
THREADS = 16
"""So many footers are fetched at a time: most of that is waiting."""


@dataclass(frozen=True)
class Count:
    """The rows of each group of a file as it was; no identity where it could not be opened, which is one error."""

    identity: Identity | None
    groups: tuple[int, ...] = (1,)

    @property
    def count(self) -> int:
        """Those of all groups."""
        return sum(self.groups)


class Counts:
    """The numbers of rows of several files, which are opened once that is asked for."""

    def __init__(self, files: Sequence[str], rows: Callable[[str], Count]) -> None:
        self._files = files
        self._rows = rows

    @staticmethod
    def few(files: Sequence[str]) -> bool:
        """Whether so many files can be looked at in passing."""
        far = sum(local_path(name) is None for name in files)
        return far <= FEW and len(files) <= MANY

    def of(self, files: Sequence[str]) -> Counts:
        """Those of some of the files."""
        return Counts(files, self._rows)

    @cached_property
    def all(self) -> list[Count]:
        """One for each file."""
        if len(self._files) == 1:
            return [self._rows(self._files[0])]
        with ThreadPoolExecutor(min(THREADS, len(self._files)), "headrace-count") as threads:
            return list(threads.map(self._rows, self._files))
