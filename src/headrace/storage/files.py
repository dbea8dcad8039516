"""Files that are written atomically, JSON pages with a checksum, and write locks.

Until a file is complete it is called `.NAME.RANDOM.hrtmp`, in its final directory, and locked. If the lock is free, its
writer is gone, and the next writer of NAME removes the leftover.
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
from typing import BinaryIO

from headrace.core.owned_file import Descriptor, OwnedFile, read_bytes
from headrace.core.types import BytesLike, JsonObject
from headrace.errors import NONSENSE, StorageError
from headrace.storage.locks import HeldLock, lock

TEMPORARY = ".hrtmp"
LOCK = "lock"
MANY_NAMES = 1_000
CLEANUP_SECONDS = 60.0
"""How often a directory with more than MANY_NAMES names is searched for leftovers of killed writers."""
MAX_NAME_LENGTH = 200
MAX_TRIES = 100
"""How many names are tried for a new file."""

HERE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""The flags for opening our files, if the system supports them: no symbolic links, close on exec."""
_OLD = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | HERE


class Unfinished:
    """A file that is being written; `publish` gives it its final name, `discard` removes it.

    Errors of the disk name `path`, or what `called` says, and not the name it has for now.
    """

    def __init__(self, path: Path, called: str | None = None) -> None:
        self.temporary: Path
        self.path = path
        self._called = called or str(path)
        clear_stale(path.parent, path.name)
        with naming(self._called):
            self.temporary, self._lock = exclusive(lambda: temporary_name(path), new_file)
        self.file: BinaryIO = named_file(self._lock.fileno(), self._called)

    def publish(self) -> None:
        """Sync all of it to disk, under its final name."""
        self.file.flush()
        with naming(self._called):
            os.fsync(self.file.fileno())
        self.temporary.replace(self.path)
        self.file.close()
        self._lock.release()
        settle(self.path.parent)

    def discard(self) -> None:
        """Remove everything."""
        self.temporary.unlink(missing_ok=True)
        with contextlib.suppress(OSError, ValueError):  # what could not be written is not wanted any more
            self.file.close()
        self._lock.release()


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, which gets its name once it is complete and on the disk."""
    unfinished = Unfinished(path)
    try:
        yield unfinished.file
        unfinished.publish()
    except BaseException:
        unfinished.discard()
        raise


@contextlib.contextmanager
def naming(called: str | Path) -> Iterator[None]:
    """Name the file in errors of the system: those of open descriptors do not by themselves."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(TEMPORARY):
            error.filename = str(called)
        raise


class _NamedFile(OwnedFile):
    """A file whose errors name it: write errors do not by themselves."""

    called = ""

    def write(self, data: BytesLike, /) -> int:
        with naming(self.called):
            return super().write(data)


def named_file(file: Path | int, called: str) -> BinaryIO:
    """Return a file to write to, whose errors name what it is `called`.

    A path must not exist yet. A descriptor stays open when the file is closed.
    """
    raw = _NamedFile(file, "wb", closefd=False) if isinstance(file, int) else _NamedFile(file, "xb")
    raw.called = called
    return io.BufferedWriter(raw)


def temporary_name(path: Path) -> Path:
    """Return an unpredictable temporary name for `path`."""
    return path.parent / f"{hidden_prefix(path.name)}.{secrets.token_hex(8)}{TEMPORARY}"


def hidden_prefix(name: str) -> str:
    """Return what names that hide from patterns begin with, for something that will be called `name`."""
    if len(os.fsencode(name)) > MAX_NAME_LENGTH:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f".{name}"


def exclusive(name: Callable[[], Path], make: Callable[[Path], HeldLock]) -> tuple[Path, HeldLock]:
    """Create something new under an unused name. Return its name and its lock."""
    refused = 0
    while True:
        path = name()
        try:
            held = make(path)
        except (FileExistsError, FileNotFoundError):
            refused += 1
            if refused < MAX_TRIES and path.parent.is_dir():
                continue  # the name was taken, or what was made was cleared away before it was locked
            raise  # some directories, such as /proc, refuse all new files as if they did not exist
        lock(held.fileno(), wait=True)
        if os.fstat(held.fileno()).st_nlink:
            return path, held
        held.close()


def new_file(path: Path) -> HeldLock:
    """Create a file to be written to, which must not exist."""
    return HeldLock(path, "xb")


def new_folder(path: Path) -> HeldLock:
    """Make a directory. Return the file in it whose lock shows that its writer lives."""
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
        return  # if that fails too, the writer gets the error
    if count > MANY_NAMES:
        _looked[folder] = time.monotonic() + CLEANUP_SECONDS
    for path in found:
        remove_stale(path)


def remove_stale(path: Path) -> None:
    """Remove a file or folder under a temporary name, unless its writer is still there."""
    folder = path.is_dir() and not path.is_symlink()
    try:
        held = HeldLock.with_flags(path / LOCK if folder else path, _OLD, "rb+")
    except FileNotFoundError:
        if folder:  # its writer was stopped before the lock was there, or will make another
            _remove_without_lock(path)
        return
    except OSError:  # not ours to touch
        return
    with held:
        if lock(held.fileno()):
            shutil.rmtree(path, ignore_errors=True) if folder else path.unlink(missing_ok=True)


def _remove_without_lock(folder: Path) -> None:
    """Remove a folder that had no lock, unless its writer makes the lock at this moment.

    The lock is the first file in it. So an empty folder is removed in one step, which fails once the lock is there.
    """
    try:
        folder.rmdir()
    except OSError:
        if not (folder / LOCK).exists():  # what is left of one that was being removed
            shutil.rmtree(folder, ignore_errors=True)


def settle(directory: Path) -> None:
    """Sync the names in a directory to disk."""
    opened = Descriptor.of_path(directory, os.O_RDONLY)
    with naming(directory):
        os.fsync(opened.fileno())


def lock_directory(directory: Path, *, parents: bool = True) -> HeldLock | None:
    """Return a lock that lets only this process write to a directory until it is released; None if another has it.

    The directory is created; without `parents` only if its parent exists.
    """
    directory.mkdir(parents=parents, exist_ok=True)
    held = HeldLock.with_flags(directory / LOCK, os.O_RDWR | os.O_CREAT | HERE, "rb+")
    got = lock(held.fileno())
    if not got:
        held.close()
    if got is None:
        raise OSError(errno.ENOLCK, "its file system has no locks, so that two processes could write at once")
    return held if got else None


def await_writer(directory: Path) -> None:
    """Wait until no process writes to a directory. Raise FileNotFoundError if none ever has."""
    with HeldLock.with_flags(directory / LOCK, os.O_RDONLY | HERE) as held:
        lock(held.fileno(), wait=True, shared=True)


def write_page(path: Path, content: JsonObject) -> None:
    """Write a page of JSON with its checksum."""
    with whole_file(path) as file:
        file.write(seal_page(json.dumps(content, separators=(",", ":")).encode()))


def seal_page(page: bytes) -> bytes:
    """Return a page with its checksum."""
    return b'{"crc":%d,"page":%s}\n' % (zlib.crc32(page), page)


def read_page(path: Path) -> JsonObject:
    """Read a page back; a damaged one is refused."""
    try:
        text = read_bytes(path)
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
