"""Ranges of remote files kept on disk, up to so many bytes, for whichever process wants them next."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX, TEMPORARY = ".range", ".hrtmp"
LIMIT = 10 << 30
"""So many bytes where nobody says."""
ROOM = 0.1
"""This part of the limit is made free at a time: to look at all files takes a while."""


@dataclass(frozen=True)
class Kept:
    """A range on disk."""

    path: Path
    nbytes: int
    used: float


@dataclass(frozen=True)
class DiskCache:
    """A folder of ranges, each in a file of its own, named after the object and the bytes.

    One lock is held by whoever adds something, and the kernel lets go of it when a process dies: `used` is raised
    before a file is written, so that a kill leaves it too high, never too low, and the next who needs room counts anew.
    Nothing is written to a file that has its name: when it was last used is the time of the last access, and who has it
    mapped keeps it.
    """

    folder: str
    limit: int = LIMIT

    def add(self, file: Path, *parts: bytes) -> None:
        """Have a file of these parts in the folder, if there is room for it, and it is not there yet."""
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
        """The descriptor of the file that says how many bytes are used, for as long as nobody else may change it."""
        import fcntl

        name, is_held = Path(self.folder) / "used", False
        while not is_held:
            name.parent.mkdir(parents=True, exist_ok=True)
            used = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(used, fcntl.LOCK_EX)
                is_held = _is_file(name, used)  # else it was removed meanwhile, and others lock another one
                if is_held:
                    yield used
            finally:
                os.close(used)

    def _make_room(self, used: int, size: int) -> bool:
        """Have so many bytes more counted as used, once there is room for them; False where there never is."""
        if size > self.limit:
            return False
        told = os.pread(used, 32, 0).strip()
        total = int(told) if told.isdigit() else None
        if total is None or total + size > self.limit:
            total = self._reduce(min(self.limit - size, int(self.limit * (1 - ROOM))))
        os.pwrite(used, b"%-32d" % (total + size), 0)
        return True

    def _reduce(self, limit: int) -> int:
        """Remove ranges until there are no more bytes than these; how many there are. The lock is held."""
        for left in Path(self.folder).glob(f"*{TEMPORARY}"):  # of somebody who was killed: who writes holds the lock
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
        """Whether anything was ever kept in this folder."""
        return (Path(self.folder) / "used").is_file()

    def kept(self) -> list[Kept]:
        """All ranges."""
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        about = entry.stat()
                        found.append(Kept(Path(entry.path), about.st_size, about.st_atime))
        return found

    def prune(self, limit: int) -> int:
        """Remove what was not used for longest until there are no more bytes than these; how many there are."""
        with self._locked() as used:
            total = self._reduce(limit)
            os.pwrite(used, b"%-32d" % total, 0)
            return total


def _is_file(path: Path, descriptor: int) -> bool:
    """Whether this file has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
