"""Files that are written whole or not at all, pages of JSON that know their own checksum, and who may write.

Until a file is whole it is called `.NAME.RANDOM.hrtmp`, in the folder where it will lie, and locked: a lock that
nobody holds tells that its writer is gone, and the next writer of NAME removes what it left.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headrace.errors import NONSENSE, StorageError
from headrace.storage.locks import HeldLock, lock

TEMPORARY = ".hrtmp"
LOCK = "lock"
MANY_NAMES = 1_000
SECONDS_BETWEEN_LOOKS = 60.0
"""A folder of more than so many names is looked through for what killed writers left once in so many seconds."""
LONGEST_NAME = 200

HERE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""How every file of ours is opened, where the system knows it: through no link, and not for other programs."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | HERE
_OLD = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | HERE


class Unfinished:
    """A file that is being written; `publish` gives it its name, `discard` leaves nothing of it.

    Errors of the disk name `path`, or what `called` says, and not the name it has for now.
    """

    def __init__(self, path: Path, called: str | None = None) -> None:
        self.path = path
        self._called = called or str(path)
        clear_stale(path.parent, path.name)
        with naming(self._called):
            self.temporary, self._lock = exclusive(lambda: temporary_name(path), new_file)
        self.file: BinaryIO = named_file(self._lock.fileno(), self._called, closes=False)

    def publish(self) -> None:
        """Have all of it on the disk, under its own name."""
        self.file.flush()
        with naming(self._called):
            os.fsync(self.file.fileno())
        self.temporary.replace(self.path)
        self.file.close()
        self._lock.release()
        settle(self.path.parent)

    def discard(self) -> None:
        """Leave nothing behind."""
        self.temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # what could not be written is not wanted any more
            self.file.close()
        self._lock.release()


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name once it is complete and on the disk."""
    unfinished = Unfinished(path)
    try:
        yield unfinished.file
        unfinished.publish()
    except BaseException:
        unfinished.discard()
        raise


@contextlib.contextmanager
def naming(called: str | Path) -> Iterator[None]:
    """Have errors of the system say which file they are about: those of open descriptors do not by themselves."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(TEMPORARY):
            error.filename = str(called)
        raise


class _NamedFile(io.FileIO):
    """A file whose errors say which it is: those of writing do not by themselves."""

    def __init__(self, descriptor: int, called: str, *, closes: bool) -> None:
        super().__init__(descriptor, "wb", closefd=closes)
        self._called = called

    def write(self, data: Any, /) -> int:
        with naming(self._called):
            return super().write(data)


def named_file(descriptor: int, called: str, *, closes: bool = True) -> BinaryIO:
    """The file of a descriptor, which it `closes`, to be written to; its errors name what it is `called`."""
    return io.BufferedWriter(_NamedFile(descriptor, called, closes=closes))


def temporary_name(path: Path) -> Path:
    """A name for what will be `path`, which nobody can foresee."""
    return path.parent / f"{hidden_prefix(path.name)}.{secrets.token_hex(8)}{TEMPORARY}"


def hidden_prefix(name: str) -> str:
    """What names that hide from patterns begin with, for something that will be called `name`."""
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f".{name}"


def exclusive(name: Callable[[], Path], make: Callable[[Path], int]) -> tuple[Path, HeldLock]:
    """Something new under a name of its own; its name and its lock."""
    while True:
        path = name()
        try:
            held = HeldLock(make(path))
        except (FileExistsError, FileNotFoundError):
            if path.parent.is_dir():  # the name was taken, or what was made was cleared away before it was locked
                continue
            raise
        lock(held.fileno(), wait=True)
        if os.fstat(held.fileno()).st_nlink:
            return path, held
        held.close()


def new_file(path: Path) -> int:
    """The descriptor of a file that was not there, to be written to."""
    return os.open(path, _NEW, 0o666)


def new_folder(path: Path) -> int:
    """Make a folder; returns the descriptor of the file in it whose lock tells that its writer lives."""
    path.mkdir()
    return new_file(path / LOCK)


_looked: dict[Path, float] = {}


def clear_stale(folder: Path, name: str | None = None) -> None:
    """Remove what killed writers of `name`, or of any, left in a folder."""
    if time.monotonic() < _looked.get(folder, 0.0):
        return
    stem = "." if name is None else f"{hidden_prefix(name)}."
    count, found = 0, []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if entry.name.startswith(stem) and entry.name.endswith(TEMPORARY):
                    found.append(Path(entry.path))
    except OSError:
        return  # who writes there is told so, if that cannot be done either
    if count > MANY_NAMES:
        _looked[folder] = time.monotonic() + SECONDS_BETWEEN_LOOKS
    for path in found:
        remove_stale(path)


def remove_stale(path: Path) -> None:
    """Remove a file or folder under a temporary name, unless its writer is still there."""
    folder = path.is_dir() and not path.is_symlink()
    try:
        descriptor = os.open(path / LOCK if folder else path, _OLD)
    except FileNotFoundError:
        if folder:  # whoever made it was stopped before its lock was there, or will make another
            shutil.rmtree(path, ignore_errors=True)
        return
    except OSError:  # not ours to touch
        return
    try:
        if lock(descriptor):
            shutil.rmtree(path, ignore_errors=True) if folder else path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def settle(directory: Path) -> None:
    """Have the names in a directory outlive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with naming(directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_directory(directory: Path, *, parents: bool = True) -> HeldLock | None:
    """A lock that has this process alone write to a directory until it is released; None if another does.

    It is made, and without `parents` only where the folder that it is to lie in is there.
    """
    directory.mkdir(parents=parents, exist_ok=True)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | HERE, 0o666)
    held = HeldLock(descriptor)
    got = lock(descriptor)
    if not got:
        held.close()
    if got is None:
        raise OSError(errno.ENOLCK, "its file system has no locks, so that two processes could write at once")
    return held if got else None


def await_writer(directory: Path) -> None:
    """Return when nobody writes to a directory; raises FileNotFoundError where nobody ever has."""
    descriptor = os.open(directory / LOCK, os.O_RDONLY | HERE)
    try:
        lock(descriptor, wait=True, shared=True)
    finally:
        os.close(descriptor)


def write_page(path: Path, content: dict[str, Any]) -> None:
    """Write a page of JSON with its checksum."""
    with whole_file(path) as file:
        file.write(seal_page(json.dumps(content, separators=(",", ":")).encode()))


def seal_page(page: bytes) -> bytes:
    """A page with its checksum."""
    return b'{"crc":%d,"page":%s}\n' % (zlib.crc32(page), page)


def read_page(path: Path) -> dict[str, Any]:
    """Read a page back; a damaged one is refused."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    page = text.partition(b'"page":')[2][:-2]
    if text != seal_page(page):
        raise StorageError(f"{path} is damaged: its checksum does not match")
    try:
        content = json.loads(page.decode())
    except NONSENSE as error:
        raise StorageError(f"{path} is no page of headrace's: {error}") from None
    if not isinstance(content, dict):
        raise StorageError(f"{path} is no page of headrace's")
    return content
