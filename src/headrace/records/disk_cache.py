"""Ranges of remote files kept on disk, up to so many bytes, for whichever process wants them next."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import _native
from headrace.errors import NONSENSE

log = logging.getLogger("headrace")

SUFFIX, TEMPORARY = ".range", ".hrtmp"
LIMIT = 10 << 30
"""So many bytes where nobody says."""
ROOM = 0.1
"""This part of the limit is made free at a time: to look at all files takes a while."""
MAGIC = "headrace range 1"
HEADER = 1 << 16
"""No header is longer."""


@dataclass(frozen=True)
class Kept:
    """A range on disk."""

    path: Path
    nbytes: int
    used: float


@dataclass(frozen=True)
class DiskCache:
    """A folder of ranges, each in a file of its own, named after the object and the bytes.

    What is read is checked against its checksum; what is damaged is a range that is not there. One lock is held by
    whoever adds something, and the kernel lets go of it when a process dies: `used` is raised before a file is written,
    so that a kill leaves it too high, never too low, and the next who needs room counts anew.
    """

    folder: str
    limit: int = LIMIT

    def has(self, path: str, stamp: str, start: int, stop: int) -> bool:
        """Whether a range seems to be kept."""
        return self._file(path, stamp, start, stop).exists()

    def get(self, path: str, stamp: str, start: int, stop: int) -> memoryview | None:
        """The bytes of a range, None where they are not kept."""
        file = self._file(path, stamp, start, stop)
        try:
            data = _checked(file.read_bytes(), stop - start)
            if data is not None:
                os.utime(file)
                return data
            log.warning("%s is damaged, and will be fetched again", file)
            file.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s cannot be read: %s", file, error)
        return None

    def put(self, path: str, stamp: str, start: int, stop: int, data: bytes) -> None:
        """Keep a range, if there is room for it; it costs nobody anything where there is none."""
        file = self._file(path, stamp, start, stop)
        from headrace.records.redact import show_path

        header = {"is": MAGIC, "of": show_path(path), "start": start, "stop": stop, "crc": _native.crc32c(data)}
        head = json.dumps(header).encode() + b"\n"
        size = len(head) + len(data)
        try:
            with self._locked() as used:
                if file.exists() or not self._make_room(used, size):
                    return
                temporary = file.with_name(f"{secrets.token_hex(8)}{TEMPORARY}")
                try:
                    with temporary.open("wb") as out:
                        out.write(head)
                        out.write(data)
                    temporary.rename(file)
                except BaseException:
                    temporary.unlink(missing_ok=True)
                    raise
        except OSError as error:
            log.warning("the cache in %s keeps nothing more: %s", self.folder, error)

    def _file(self, path: str, stamp: str, start: int, stop: int) -> Path:
        told = "\0".join([path, stamp, str(start), str(stop)])
        return Path(self.folder) / f"{hashlib.blake2b(told.encode(), digest_size=20).hexdigest()}{SUFFIX}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The descriptor of the file that says how many bytes are used, for as long as nobody else may change it."""
        import fcntl

        Path(self.folder).mkdir(parents=True, exist_ok=True)
        used = os.open(Path(self.folder) / "used", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(used, fcntl.LOCK_EX)
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
                        found.append(Kept(Path(entry.path), about.st_size, about.st_mtime))
        return found

    def prune(self, limit: int) -> int:
        """Remove what was not used for longest until there are no more bytes than these; how many there are."""
        with self._locked() as used:
            total = self._reduce(limit)
            os.pwrite(used, b"%-32d" % total, 0)
            return total


def header_of(data: bytes) -> dict[str, Any] | None:
    """What a file of the cache says of itself, None where that makes no sense."""
    end = data.find(b"\n", 0, HEADER)
    try:
        told = json.loads(data[:end]) if end > 0 else None
        whole = isinstance(told, dict) and told["is"] == MAGIC and told["stop"] - told["start"] == len(data) - end - 1
        return told if whole else None
    except NONSENSE:
        return None


def _checked(data: bytes, size: int) -> memoryview | None:
    """The bytes that a file of the cache holds, None where they are not what was written."""
    told = header_of(data)
    if told is None or len(data) < size:
        return None
    body = memoryview(data)[len(data) - size :]
    return body if told["stop"] - told["start"] == size and _native.crc32c(body) == told["crc"] else None


def is_whole(file: Path) -> bool:
    """Whether a file of the cache holds what was written to it."""
    data = file.read_bytes()
    told = header_of(data)
    return told is not None and _checked(data, told["stop"] - told["start"]) is not None
