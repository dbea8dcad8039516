"""A shelf: a directory of parts that together are the rows of one plan, from the first on.

    headrace.json       its origin: the plan, the seeds it drew
    000000000000.arrow  a part, named after its first row
    000000000000.json   what is in it, and where the plan continues after it
    complete.json       there are no more rows than these

Every file appears complete or not at all, so a kill leaves fewer parts, never half of one. The writer holds a lock of
the operating system, which is released when its process dies.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from headrace.columns.block import Item
from headrace.core.types import JsonObject, JsonValue
from headrace.errors import NONSENSE, StorageError
from headrace.storage.files import TEMPORARY, lock_directory, read_page, write_page
from headrace.storage.locks import HeldLock
from headrace.storage.parts import DATA, PAGE, StoredPart
from headrace.storage.plans import Maker
from headrace.storage.runs import write_parts
from headrace.storage.structures import Types

VERSION = 3
HEADER, COMPLETE = "headrace.json", "complete.json"

log: logging.Logger = logging.getLogger("headrace.storage")


def plan_folder(folder: Path, maker: Maker) -> Path:
    """Return the directory of this plan's rows; if its input files are gone, that of the rows made from them."""
    own = folder / maker.digest
    if own.exists() or not folder.is_dir() or not maker.sources_gone:
        return own
    for other in sorted(folder.iterdir()):
        if (other / COMPLETE).exists():
            try:
                if maker.differs(read_page(other / HEADER)["maker"]) is None:
                    return other
            except (StorageError, *NONSENSE):
                continue  # it belongs to another plan, or to none
    return own


class Shelf:
    """The contents of one directory, read at construction and by `refresh`."""

    def __init__(self, path: Path, types: Types, maker: Maker | None = None) -> None:
        self.path = path
        self.types = types
        self.maker = maker
        self.header: JsonObject | None = None
        self.parts: list[StoredPart] = []
        self.complete: bool = False
        self._lock: HeldLock | None = None
        self.refresh()

    @property
    def rows(self) -> int:
        """Return how many rows are there."""
        return self.parts[-1].start + self.parts[-1].rows if self.parts else 0

    @property
    def notes(self) -> JsonValue:
        """What was noted with the last part."""
        return self.parts[-1].notes if self.parts else None

    def refresh(self) -> None:
        """Look again: another process may have written."""
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"{self.path} is a file; rows are stored in a directory of their own")
        complete = self.path / COMPLETE
        try:
            self.header = self._header()
            if self.header is None:
                self.parts, self.complete = [], False
            elif complete.exists():
                self.parts, self.complete = self._whole(read_page(complete)), True
            else:
                self.parts, self.complete = self._chain(), False
        except NONSENSE as error:
            raise StorageError(
                f"{self.path} holds pages that say nothing sensible ({error!r}). Delete it to have it made again"
            ) from error

    def _header(self) -> JsonObject | None:
        path = self.path / HEADER
        if not path.exists():
            return None
        header = read_page(path)
        if header.get("version") != VERSION:
            raise StorageError(
                f"{path} has format version {header.get('version')!r}, this headrace reads {VERSION}. "
                f"Delete {self.path} to have it made again"
            )
        if self.maker is not None and (why := self.maker.differs(header["maker"])) is not None:
            raise StorageError(
                f"{self.path} was made by another pipeline: {why}. Delete the directory to have it made again, "
                "or give another name"
            )
        return header

    def _whole(self, page: JsonObject) -> list[StoredPart]:
        starts = [*page["parts"], page["rows"]]
        if any(type(start) is not int or not 0 <= start < 10**12 for start in starts):
            raise ValueError(f"parts {str(starts)[:80]}")
        parts = [self._part(start) for start in starts[:-1]]
        if [0, *(p.start + p.rows for p in parts)] != starts:
            raise StorageError(f"{self.path} is damaged: its parts do not follow one another")
        return parts

    def _part(self, start: int) -> StoredPart:
        path = self.path / f"{start:012}{DATA}"
        kept = next((p for p in self.parts if p.start == start), None)  # do not read what is known
        try:
            return kept or StoredPart(path, self.types)
        except StorageError as error:
            raise StorageError(f"{error}. Delete {self.path} to have it made again") from error

    def _chain(self) -> list[StoredPart]:
        """Return the parts of an unfinished shelf, as far as they are whole and follow one another."""
        chain: list[StoredPart] = []
        start = 0
        while (self.path / f"{start:012}{PAGE}").exists():
            try:
                chain.append(self._part(start))
            except StorageError as error:
                log.warning("%s: it and what comes after it is made again", error)
                break
            start += chain[-1].rows
        return chain

    def acquire(self, *, parents: bool = True) -> bool:
        """Become the writer. Return False if another process is. Without `parents` only its own directory
        is created.
        """
        self._lock = self._lock or lock_directory(self.path, parents=parents)
        if self._lock is None:
            return False
        try:
            self.refresh()
            if not self.complete:
                self._tidy()
                if self.header is None:
                    header = {"version": VERSION, "maker": None if self.maker is None else self.maker.page}
                    write_page(self.path / HEADER, header)
                    self.header = header
        except BaseException:
            self.release()
            raise
        return True

    def _tidy(self) -> None:
        """Remove leftovers of a killed writer: temporary files, data without a page, broken chains."""
        known = {p.path.stem for p in self.parts}
        for path in self.path.iterdir():
            orphan = path.suffix in (DATA, PAGE) and path.stem.isdigit() and path.stem not in known
            if orphan or path.suffix == TEMPORARY:
                path.unlink(missing_ok=True)

    def add(self, items: Iterable[Item], compression: str | None, notes: object) -> None:
        """Append rows."""
        made = write_parts(self.path, self.rows, items, self.types, compression=compression, notes=notes)
        self.parts = [*self.parts, *made]

    def finish(self) -> None:
        """There are no more rows."""
        write_page(self.path / COMPLETE, {"rows": self.rows, "parts": [p.start for p in self.parts]})
        self.complete = True

    def release(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def after_fork(self) -> None:
        """Stop writing in a forked child: the parent writes, and holds the lock of the file open in both."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
