"""Files by path or URL: what they are, and their bytes."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.options import Options
from headrace.records.identity import Identity
from headrace.records.redact import shown
from headrace.records.remote import RemoteFile, Seekable, remote_identities, remote_identity
from headrace.records.transport import ALONE, StorageOptions, Transport
from headrace.storage.files import whole

Bytes = NDArray[np.uint8]

FEW = 256
"""Of so many remote files each is looked at before a state is taken or restored; of more, only those being read."""


def as_path(value: Any) -> str:
    """A path or URL as text."""
    if isinstance(value, bytes | os.PathLike | str):
        return os.fsdecode(value)
    raise TypeError(f"a file name is a string or a path, not {value!r}")


def local_path(path: str) -> str | None:
    """Where a file lies on this machine, None if it does not."""
    if "://" not in path:
        return path
    for scheme in ("file://", "local://"):
        if path.startswith(scheme):
            return path.removeprefix(scheme)
    return None


def remote(path: str, via: Transport = ALONE) -> tuple[Any, str]:
    """The file system of a URL, and the file's name there."""
    return via.system(path)


def identity(path: str, via: Transport = ALONE) -> Identity:
    """What the file is now; raises OSError where there is none."""
    local = local_path(path)
    if local is None:
        return remote_identity(path, via)
    found = Path(local).stat()
    return Identity(found.st_size, str(found.st_mtime_ns))


class File(Protocol):
    """The bytes of one open file; `size` is what it had when it was opened, None if that is not known."""

    identity: Identity
    size: int | None

    def read_into(self, out: Bytes, offset: int) -> int:
        """Fill `out` with the bytes from `offset` on; returns how many there were."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class LocalFile:
    """A file on this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        found = os.fstat(self._descriptor)
        self.identity = Identity(found.st_size, str(found.st_mtime_ns))
        self.size: int | None = found.st_size
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, out: Bytes, offset: int) -> int:
        done = 0
        while done < len(out):
            if self._descriptor is None:
                raise ValueError("the file is closed")
            got = os.preadv(self._descriptor, [out[done:].data], offset + done)
            if not got:
                break
            done += got
        return done

    def mapped(self) -> mmap.mmap:
        """The file as memory; raises where it cannot be mapped."""
        if self._descriptor is None:
            raise ValueError("the file is closed")
        return mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def opened(path: str, via: Transport = ALONE) -> File:
    """The file, open for reading."""
    local = local_path(path)
    return RemoteFile(path, via) if local is None else LocalFile(local)


def arrow_file(path: str, via: Transport = ALONE) -> Any:
    """The file as Arrow reads it."""
    import pyarrow as pa

    local = local_path(path)
    return pa.PythonFile(Seekable(RemoteFile(path, via)), mode="r") if local is None else pa.OSFile(local)


def read_all(path: str, size: int = -1, via: Transport = ALONE) -> bytes:
    """The first `size` bytes of a file, or all."""
    local = local_path(path)
    if local is not None:
        with Path(local).open("rb") as file:
            return file.read(size)
    far = RemoteFile(path, via)
    try:
        return far.read_first(size)
    finally:
        far.close()


def write_whole(path: str, parts: Iterable[bytes | memoryview], via: Transport = ALONE) -> None:
    """Write a file such that nobody ever sees half of it."""
    local = local_path(path)
    if local is None:
        system, name = remote(path, via)
        data = b"".join(parts)
        via.attempt(path, lambda: system.pipe_file(name, data))
        return
    with whole(Path(local)) as file:
        file.writelines(parts)


class FileList:
    """The names of files that are known in advance; shown with what they are, as far as that is quickly told.

    Remote files are reached under `options`, with those of a reader's `own`. What one was when a pass opened it is in
    `seen`; of the others it is asked once.
    """

    def __init__(self, names: Iterable[str], own: StorageOptions | None = None, options: Options | None = None) -> None:
        self.names: Final = tuple(names)
        self.seen: Final[dict[str, Identity]] = {}
        self._own = own
        self._options = options

    def for_pass(self, options: Options) -> FileList:
        """These files, of which nothing is known yet; themselves, where they are on this machine."""
        if all(local_path(name) is not None for name in self.names):
            return self
        return FileList(self.names, self._own, options)

    def __len__(self) -> int:
        return len(self.names)

    def brief(self) -> str:
        """The first name, for people; a look at the files is for states alone."""
        first = shown(self.names[0]).rpartition("/")[2] if self.names else ""
        return first if len(self.names) < 2 else f"{first} and {len(self.names) - 1} more"

    def __str__(self) -> str:
        digest = hashlib.blake2b(digest_size=6)
        far = [name for name in self.names if local_path(name) is None]
        known = self._known(far) if len(far) <= FEW else {}
        for name in self.names:
            digest.update(name.encode(errors="surrogateescape") + b"\0")
            if name in known or local_path(name) is not None:
                digest.update(_described(known[name] if name in known else _found(name)))
        return f"{len(self.names)} #{digest.hexdigest()}"

    def _known(self, names: list[str]) -> dict[str, Identity | None]:
        asked = [name for name in names if name not in self.seen]
        found = remote_identities(asked, Transport(self._options).using(self._own))
        self.seen.update({name: each for name, each in found.items() if each is not None})
        return {name: self.seen.get(name) for name in names}


def _found(name: str) -> Identity | None:
    try:
        return identity(name)
    except OSError:
        return None


def _described(found: Identity | None) -> bytes:
    return b"missing" if found is None else f"{found.size} {found.stamp}".encode()
