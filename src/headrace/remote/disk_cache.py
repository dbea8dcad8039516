"""A bounded cache on disk for ranges of remote files, shared by all processes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.owned_file import DescriptorFile

SUFFIX, TEMPORARY = ".range", ".hrtmp"
DEFAULT_LIMIT_BYTES = 10 << 30
"""The default limit in bytes."""
FREED_SHARE = 0.1
"""This share of the limit is freed at a time, because checking all files takes a while."""


@dataclass(frozen=True)
class Kept:
    """A range on disk."""

    path: Path
    nbytes: int
    used: float


@dataclass(frozen=True)
class DiskCache:
    """A directory of ranges, each in its own file, named after the object and the bytes.

    Adding a range holds one lock, which the kernel releases when a process dies. `used` is raised before a file is
    written: a kill leaves it too high, never too low, and the next process that needs room recounts. A file that has
    its final name is never written to: the access time says when it was last used, and a process that has mapped it
    keeps it.
    """

    folder: str
    limit: int = DEFAULT_LIMIT_BYTES
    suffix: str = SUFFIX

    def add(self, file: Path, *parts: bytes) -> None:
        """Write a file of these parts, if there is room for it, and it is not there yet."""
        with self._locked() as used:
            if file.exists() or not self._make_room(used, sum(map(len, parts))):
                return
            temporary = file.with_name(f"{secrets.token_hex(8)}{TEMPORARY}")
            try:
                with temporary.open("wb") as out:
                    out.writelines(parts)
                temporary.rename(file)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the descriptor of the file that holds the number of bytes used, while holding the lock."""
        import fcntl

        name, is_held = Path(self.folder) / "used", False
        while not is_held:
            name.parent.mkdir(parents=True, exist_ok=True)
            with DescriptorFile.with_flags(name, os.O_RDWR | os.O_CREAT, "rb+") as used:
                fcntl.flock(used, fcntl.LOCK_EX)
                is_held = _is_file(name, used.fileno())  # else it was removed meanwhile, and others lock another one
                if is_held:
                    yield used.fileno()

    def _make_room(self, used: int, size: int) -> bool:
        """Reserve `size` more bytes, after making room for them. Return False if there is never enough room."""
        if size > self.limit:
            return False
        told = os.pread(used, 32, 0).strip()
        total = int(told) if told.isdigit() else None
        if total is None or total + size > self.limit:
            total = self._reduce(min(self.limit - size, int(self.limit * (1 - FREED_SHARE))))
        os.pwrite(used, b"%-32d" % (total + size), 0)
        return True

    def _reduce(self, limit: int) -> int:
        """Remove ranges until at most `limit` bytes are left. Return how many are left. The caller holds the lock."""
        for left in Path(self.folder).glob(f"*{TEMPORARY}"):  # of a process that was killed: writers hold the lock
            left.unlink(missing_ok=True)
        kept = sorted(self.kept(), key=lambda each: each.used)
        total = sum(each.nbytes for each in kept)
        for each in kept:
            if total <= limit:
                break
            each.path.unlink(missing_ok=True)
            total -= each.nbytes
        return total

    def is_there(self) -> bool:
        """Return whether anything was ever kept in this folder."""
        return (Path(self.folder) / "used").is_file()

    def kept(self) -> list[Kept]:
        """Return all ranges."""
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(self.suffix):
                    with contextlib.suppress(FileNotFoundError):
                        about = entry.stat()
                        found.append(Kept(Path(entry.path), about.st_size, about.st_atime))
        return found

    def prune(self, limit: int) -> int:
        """Remove the least recently used ranges until at most `limit` bytes are left. Return how many are left."""
        with self._locked() as used:
            total = self._reduce(limit)
            os.pwrite(used, b"%-32d" % total, 0)
            return total


def _is_file(path: Path, descriptor: int) -> bool:
    """Return whether this file has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
