"""Count the rows of files on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from headrace.formats.shared.files import MAX_REMOTE_CHECKS, local_path
from headrace.remote.identity import Identity

MAX_LOCAL_FOOTERS = 4096
"""The footers of at most this many local files are read without an explicit request."""
FOOTER_THREADS = 16
"""How many footers are fetched at a time: most of the time is waiting."""


@dataclass(frozen=True)
class Count:
    """The rows of each group of a file, and its identity; None if it could not be opened, which counts as one error."""

    identity: Identity | None
    groups: tuple[int, ...] = (1,)

    @property
    def count(self) -> int:
        """Those of all groups."""
        return sum(self.groups)


class Counts:
    """The row counts of several files, which are opened on request."""

    def __init__(self, files: Sequence[str], rows: Callable[[str], Count]) -> None:
        self._files = files
        self._rows = rows

    @staticmethod
    def few(files: Sequence[str]) -> bool:
        """Return whether these files are few enough to be inspected without an explicit request."""
        far = sum(local_path(name) is None for name in files)
        return far <= MAX_REMOTE_CHECKS and len(files) <= MAX_LOCAL_FOOTERS

    def of(self, files: Sequence[str]) -> Counts:
        """Return those of some of the files."""
        return Counts(files, self._rows)

    @cached_property
    def all(self) -> list[Count]:
        """One for each file."""
        if len(self._files) == 1:
            return [self._rows(self._files[0])]
        with ThreadPoolExecutor(min(FOOTER_THREADS, len(self._files)), "headrace-count") as threads:
            return list(threads.map(self._rows, self._files))
