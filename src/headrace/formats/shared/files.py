"""Files by path or URL: what they are, and their bytes."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.core.owned_file import Descriptor, DescriptorFile, OwnedFile
from headrace.core.paths import local_path as local_path  # noqa: PLC0414 - readers import it from here
from headrace.core.types import LibraryObject
from headrace.options import Options
from headrace.plan.display import VALUE_WIDTH, as_many_as_fit
from headrace.remote.identity import Identity, Signature, Token, local_identity, open_identity, signature
from headrace.remote.objects import Seekable, open_remote, remote_identities, remote_identity
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, StorageOptions, Transport
from headrace.storage.files import naming, whole_file

Bytes = NDArray[np.uint8]

MAX_REMOTE_CHECKS = 256
"""At most this many remote files are checked one by one before a state is taken or restored; of more, only
open ones.
"""
MISSING_FILE_ERRNOS = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}
"""Errors that mean that the file is missing or forbidden, as opposed to transient ones."""
CHECKS_IN_FLIGHT = 16
"""How many files are checked at a time."""


def as_path(value: object) -> str:
    """Return a path or URL as text."""
    if isinstance(value, bytes | os.PathLike | str):
        return os.fsdecode(value)
    raise TypeError(f"a file name is a string or a path, not {value!r}")


def remote(path: str, via: Transport = ALONE) -> tuple[Any, str]:
    """Return the file system of a URL, and the file's name there."""
    return via.system(path)


def file_identity(path: str, via: Transport = ALONE) -> Identity:
    """Return what the file is now. Raise OSError if there is none."""
    local = local_path(path)
    return remote_identity(path, via) if local is None else local_identity(local)


def head_of(path: str, count: int = 64) -> bytes:
    """Return the first bytes of a local file; none if it is not a regular file or cannot be read."""
    local = local_path(path)
    try:
        if local is None or not Path(local).is_file():
            return b""
        with OwnedFile(local) as file:
            return file.read(count)
    except OSError:
        return b""


def file_size(path: str, via: Transport = ALONE) -> int | None:
    """Return the size of the file in bytes, None if unknown. Raise OSError if there is no file."""
    local = local_path(path)
    return remote_identity(path, via).size if local is None else Path(local).stat().st_size


class File(Protocol):
    """The bytes of one open file. `size` is its size when it was opened, `token` identifies it."""

    size: int | None

    @property
    def token(self) -> Token: ...

    def identity(self) -> Identity:
        """Return which file it is."""
        ...

    def read_into(self, out: Bytes, offset: int) -> int:
        """Fill `out` with the bytes from `offset` on. Return how many there were."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class LocalFile:
    """A file on this machine."""

    _file: OwnedFile | None = None
    _owns_memory = False
    shared_memory: _native.MappedFile | None = None
    """The file as memory, for all that read it `again`; its owner is the one that called `share_memory`."""

    def __init__(self, path: str, file: OwnedFile | None = None) -> None:
        self._file = OwnedFile(path) if file is None else file
        found = os.fstat(self._open())
        self.size: int | None = found.st_size
        self.path = path
        self.signature: Signature = signature(found)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._open(), 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, out: Bytes, offset: int) -> int:
        done = 0
        while done < len(out):
            with naming(self.path):
                got = os.preadv(self._open(), [out[done:].data], offset + done)
            if not got:
                break
            done += got
        return done

    def map_memory(self) -> _native.MappedFile:
        """Map the file into memory. Raise if it cannot be mapped."""
        mapped = _native.MappedFile(self._open(), self.size or 0)
        mapped.path = self.path
        return mapped

    def share_memory(self) -> None:
        """Map the file once for all that read it `again`, if it can be mapped."""
        try:
            self.shared_memory = self.map_memory()
        except (OSError, ValueError):  # an empty file, a file system that cannot map
            return
        self._owns_memory = True

    def broken(self) -> Exception:
        """Return the error for mapped memory that is no longer intact."""
        return broken(self.path, self.size or 0)

    @property
    def token(self) -> Token:
        """A lazily computed identity of the file."""
        return Token(self.path, seen=self.signature, file=self)

    def identity(self) -> Identity:
        """Return which file it is."""
        return open_identity(self._open(), self.path)

    def again(self) -> LocalFile:
        """Return the same open file for another reader, even if its name is gone; raises if it has been changed."""
        file = LocalFile(self.path, self.duplicate())
        file.shared_memory = self.shared_memory
        if file.signature != self.signature:
            file.close()
            wrong = broken(self.path, self.size or 0)
            raise wrong if wrong.errno != errno.EIO else OSError("the file was changed while it was being read")
        return file

    def duplicate(self) -> OwnedFile:
        """Open the file once more by its descriptor; raises ValueError if it is closed."""
        return DescriptorFile.over(Descriptor(os.dup, self._open()), self.path)

    def _open(self) -> int:
        if self._file is None:
            raise ValueError("the file is closed")
        return self._file.fileno()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._owns_memory and self.shared_memory is not None:
            self.shared_memory.close_file()  # rows that refer to it keep the memory, not the file

    def __del__(self) -> None:  # of a file that was handed over to a reader that never began
        self.close()


def broken(path: str, size: int) -> OSError:
    """Return what is wrong with a mapped file of `size` bytes that is not intact any more."""
    try:
        if Path(path).stat().st_size < size:
            return OSError("the file has shrunk while it was being read")
    except OSError as error:
        return error
    return OSError(errno.EIO, "a part of the file could not be read, or had shrunk away in between", path)


def open_path(path: str, via: Transport = ALONE, start: int = 0) -> File:
    """Return the file, open for reading in order from `start` on."""
    local = local_path(path)
    return open_remote(path, via, start=start) if local is None else LocalFile(local)


def arrow_file(path: str, via: Transport = ALONE) -> LibraryObject:
    """Return the file as Arrow reads it."""
    import pyarrow as pa

    local = local_path(path)
    return pa.PythonFile(Seekable(open_remote(path, via)), mode="r") if local is None else pa.OSFile(os.fsencode(local))


def read_all(path: str, via: Transport = ALONE) -> bytes:
    """Return all bytes of a file."""
    return read_range(path, 0, None, via)


def read_range(path: str, start: int, stop: int | None, via: Transport = ALONE) -> bytes:
    """Return the bytes of a file from one place to before another, or to its end."""
    local = local_path(path)
    if local is not None:
        with io.BufferedReader(OwnedFile(local)) as file:
            file.seek(start)
            return file.read(-1 if stop is None else stop - start)
    far = open_remote(path, via)
    try:
        return far.read_range(start, stop)
    finally:
        far.close()


def write_whole(path: str, parts: Iterable[bytes | memoryview], via: Transport = ALONE) -> None:
    """Write a file atomically."""
    local = local_path(path)
    if local is None:
        system, name = remote(path, via)
        data = b"".join(parts)
        via.attempt(path, lambda: system.pipe_file(name, data))
        return
    with whole_file(Path(local)) as file:
        file.writelines(parts)


class FileList:
    """The names of files that are known in advance.

    A state identifies them by content, in order: files that were moved or copied are the same. Remote files are reached
    under `options`, combined with a reader's `own`. `seen` holds the identity of each file that a pass opened; the
    others are looked up once. `in_turn` of them are interleaved.
    """

    def __init__(
        self,
        names: Iterable[str],
        own: StorageOptions | None = None,
        options: Options | None = None,
        in_turn: int = 1,
    ) -> None:
        self.names: Final = tuple(names)
        self.seen: Final[dict[str, Identity]] = {}
        self._own = own
        self._options = options
        self.in_turn: Final = in_turn

    def for_pass(self, options: Options, in_turn: int) -> FileList:
        """Return these files with no identities known yet; the same object if they are all local."""
        if all(local_path(name) is not None for name in self.names):
            return self
        return FileList(self.names, self._own, options, in_turn)

    def __len__(self) -> int:
        return len(self.names)

    def brief(self) -> str:
        """Return the first names and how many more there are, for messages."""
        return as_many_as_fit([show_path(name).rpartition("/")[2] for name in self.names], VALUE_WIDTH)

    def __str__(self) -> str:
        known = self._known()
        folder = common_folder(self.names)
        digest = hashlib.blake2b(digest_size=6)
        for name in self.names:
            found = known[name] if name in known else f"named {name.removeprefix(folder)}"
            digest.update(f"{found}\0".encode(errors="surrogateescape"))
        return f"{len(self.names)} #{digest.hexdigest()}"

    def _known(self) -> dict[str, Identity | None]:
        """Return the identities of the files, except those of remote files if there are many."""
        near = [name for name in self.names if local_path(name) is not None]
        far = [name for name in self.names if local_path(name) is None]
        known = dict(zip(near, local_identities(near), strict=True))
        if not far or len(far) > MAX_REMOTE_CHECKS:
            return known
        asked = [name for name in far if name not in self.seen]
        found = remote_identities(asked, Transport(self._options).using(self._own))
        self.seen.update({name: each for name, each in found.items() if each is not None})
        return known | {name: self.seen.get(name) for name in far}


def local_identities(paths: Sequence[str]) -> list[Identity | None]:
    """Return what each of these files is now, None for a missing one."""
    if len(paths) <= CHECKS_IN_FLIGHT:
        return [_identity(path) for path in paths]
    with ThreadPoolExecutor(CHECKS_IN_FLIGHT, "headrace-identities") as pool:
        return list(pool.map(_identity, paths))


def _identity(path: str) -> Identity | None:
    try:
        return file_identity(path)
    except OSError as error:
        if error.errno not in MISSING_FILE_ERRNOS:  # otherwise a state would hold an identity that is wrong
            raise
        return None


def common_folder(names: Sequence[str]) -> str:
    """Return the common prefix of the names of files in or below one folder."""
    first, last = (min(names), max(names)) if names else ("", "")
    alike = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, alike) + 1]
