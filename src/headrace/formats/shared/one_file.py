"""The base of nodes that read one file."""

from __future__ import annotations

import glob
import logging
import os
import stat
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.columns.block import Item
from headrace.core.paths import completed_url
from headrace.core.types import JsonObject
from headrace.errors import ElementError, FileError, StateError, is_unopenable
from headrace.execute.context import Context
from headrace.execute.stream import END, Made, Stream
from headrace.formats.shared.files import FileList, local_path
from headrace.formats.shared.quarantine import PolicyEvents, Quarantine, SkipPolicy
from headrace.plan.cardinality import UNKNOWN, Cardinality
from headrace.plan.marks import Marks
from headrace.plan.node import TUNING, Node
from headrace.plan.prepared import Prepared
from headrace.plan.spec import Spec
from headrace.remote.identity import Identity, Token
from headrace.remote.redact import show_path
from headrace.remote.transport import StorageOptions, Transport

log: logging.Logger = logging.getLogger("headrace")

Missing = Literal["raise", "skip"]
"""What a reader does with a file that cannot be opened: return an error in its place, or leave it out and log it."""

NO_FILE = Token("", 0)
"""In a mark, in place of the identity of a file that could not be opened."""


@dataclass(frozen=True, eq=False)
class OneFile(Node):
    """The rows of one file, in order: a subclass says how its format is read."""

    path: str
    format: Any
    reader: str = field(repr=False)
    on_error: Quarantine | SkipPolicy | PolicyEvents | None = None
    index: Any = field(default=None, repr=False, metadata=TUNING)
    buffer_size: int | None = field(default=None, repr=False, metadata=TUNING)
    storage_options: StorageOptions | None = field(default=None, repr=False, metadata=TUNING)
    files: FileList | None = field(default=None, repr=False, metadata=TUNING)
    missing: Missing = "raise"
    in_turn: bool = field(default=False, repr=False, metadata=TUNING)
    """Whether it is one of several files that are interleaved, each with its own scan."""
    piece: Any = field(default=None, repr=False, metadata=TUNING)
    """Which part of the file is read; all of it if None. What it is depends on the format."""

    @property
    def operation(self) -> str:
        return self.reader

    @property
    def spec(self) -> Spec:
        known: Spec = self.format.spec
        return known

    @property
    def cardinality(self) -> Cardinality:
        return UNKNOWN

    @property
    def in_store(self) -> bool:
        """Whether the file is not on this machine."""
        return local_path(self.path) is None

    def via(self, ctx: Context) -> Transport:
        """Return how the file is reached."""
        remote = self.in_store
        via = Transport.of(ctx.run, self.storage_options, remote=remote)
        if self.files is not None and remote:
            via.coming.expect(self.files.names, via, self.files.in_turn)
        return via

    def remember(self, found: Callable[[], Identity]) -> None:
        """Remember the identity of a remote file when a pass opens it, for its states."""
        if self.files is not None and local_path(self.path) is None:
            self.files.seen[self.path] = found()

    def bad_row(
        self, reason: str | Exception, number: int, where: str, cause: BaseException | None = None
    ) -> ElementError:
        """Return the error for a row that cannot be read; an exception is its cause, unless one is given."""
        cause = reason if isinstance(reason, Exception) else cause
        about: JsonObject = {
            "operation": self.reader, "ordinal": number, "site": self.site,
            "provenance": f"{show_path(self.path)}, {where}",
        }  # fmt: skip
        if isinstance(cause, OSError) and is_unopenable(cause):
            return FileError.of(cause, show_path(self.path), hint=self._file_remedy(cause), **about)
        error = ElementError(error_reason(reason), **about)
        error.__cause__ = cause
        return error

    def _file_remedy(self, cause: OSError) -> str | None:
        """Return what to do about a file that cannot be opened."""
        if isinstance(cause, FileNotFoundError) and looks_like_pattern(self.path):
            return by_pattern(show_path(self.path))
        if isinstance(cause, FileNotFoundError) and (url := completed_url(self.path)):
            return f"a URL has two slashes: {show_path(url)}"
        if isinstance(cause, IsADirectoryError) and not self.in_store:
            return f"hr.Dataset.list_files({show_path(self.path.rstrip('/') + '/*')!r}) finds the files in it"
        return None if self.on_error is None else 'on_error is for bad records; missing="skip" leaves out such files'

    def leaves_out(self, error: BaseException | None) -> bool:
        """Return whether this file is to be left out because of that error; if so, log it."""
        if self.missing != "skip" or not is_unopenable(error):
            return False
        assert isinstance(error, OSError)
        log.warning("left out %s, which cannot be opened: %s", show_path(self.path), error_reason(error))
        return True

    def changed_error(self, number: int) -> ElementError:
        """Return the error for the rows from `number` on if the file was changed while it was being read."""
        return self.bad_row("the file was changed while it was being read", number, f"record {number}")

    def changed_midway(self, place: Marks, prepared: Prepared) -> tuple[ElementError, Node | None]:
        """Return the error for the rest of a file that was changed while it was being read; nothing follows."""
        return self.changed_error(place[prepared.number(self)].ordinal), None

    def change_error(self, *, gone: bool) -> StateError:
        """Return why a state of another file than the one there is now is refused."""
        what = "cannot be opened any more" if gone else "has changed"
        return StateError(f"{show_path(self.path)} {what} since the state was taken")


MAX_SMALL_FILE_BYTES = 256 << 10
"""Reading a file of at most this size takes less time than starting a thread."""


def small_size(name: str) -> int | None:
    """Return the size of a small local file; None for any other."""
    found = small_stat(name)
    return None if found is None else found.st_size


def small_stat(name: str) -> os.stat_result | None:
    """Return the stat result of a small local file; None for any other file."""
    path = local_path(name)
    try:
        found = None if path is None else os.stat(path)  # noqa: PTH116 - a Path takes as long again
    except OSError:
        return None
    if found is None or not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SMALL_FILE_BYTES:
        return None
    return found


class FileStream(Stream):
    """One pass over a file, read some items at a time until it is `_over`."""

    def __init__(self) -> None:
        self._over = False

    def pull(self, want: int) -> Made:
        return END if self._over else self._read(want)

    @abstractmethod
    def _read(self, want: int) -> list[Item]:
        """Return the next items, if possible a multiple of `want` rows; an empty list may mean skipped bad rows, or the
        end.
        """


def error_reason(reason: str | Exception) -> str:
    """Return what is wrong, as an error says it."""
    if isinstance(reason, OSError):
        return reason.strerror or str(reason) or type(reason).__name__
    return reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"


def looks_like_pattern(name: str) -> bool:
    """Return whether a name has characters that mean something in patterns."""
    return glob.has_magic(name)


def by_pattern(name: str) -> str:
    """Suggest what to do if a name turns out to be a pattern."""
    return (
        f"if that is a pattern, hr.Dataset.list_files({show_path(name)!r}) gives the names of the files that match it"
    )
