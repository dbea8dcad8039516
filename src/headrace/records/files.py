"""Files by path or URL: what they are, and their bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.storage.files import whole

Bytes = NDArray[np.uint8]

REMOTE_BLOCK = 4 << 20
"""A remote file is fetched in ranges of this size, the next one in the background."""
REMOTE_BLOCKS = 4
"""So many of them are kept."""
FEW = 256
"""Of so many remote files each is looked at before a state is taken or restored; of more, only those being read."""


class Identity(NamedTuple):
    """What tells whether a file is still the one it was."""

    size: int | None
    stamp: str

    @property
    def token(self) -> int:
        """All of it in one number."""
        digest = hashlib.blake2b(f"{self.size} {self.stamp}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "little")


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


def remote(path: str) -> tuple[Any, str]:
    """The file system of a URL, and the file's name there."""
    import fsspec

    try:
        return fsspec.core.url_to_fs(path)  # type: ignore[no-any-return]
    except ImportError as error:
        raise ImportError(f"{path}: {error}") from None


def identity(path: str) -> Identity:
    """What the file is now; raises OSError where there is none."""
    local = local_path(path)
    if local is not None:
        found = Path(local).stat()
        return Identity(found.st_size, str(found.st_mtime_ns))
    system, name = remote(path)
    info = system.info(name)
    return Identity(info.get("size"), str(system.ukey(name)))


class File(Protocol):
    """The bytes of one open file."""

    identity: Identity

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

    def mapped(self) -> _native.MappedFile:
        """The file as memory; raises where it cannot be mapped."""
        if self._descriptor is None:
            raise ValueError("the file is closed")
        return _native.MappedFile(self._descriptor, self.identity.size or 0)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def shrunk() -> OSError:
    """What is wrong with a mapped file that is not intact any more."""
    return OSError("the file has shrunk, or could not be read, while it was being read")


class RemoteFile:
    """A file in whatever place fsspec knows, fetched by ranges, ahead of need where it is read in order."""

    def __init__(self, path: str) -> None:
        system, name = remote(path)
        info = system.info(name)
        self.identity = Identity(info.get("size"), str(system.ukey(name)))
        self._file = system.open(
            name,
            "rb",
            block_size=REMOTE_BLOCK,
            cache_type="background",
            cache_options={"maxblocks": REMOTE_BLOCKS},
        )
        self._at = 0

    def read_into(self, out: Bytes, offset: int) -> int:
        if offset != self._at:
            self._file.seek(offset)
        done = 0
        while done < len(out):
            got = self._file.read(len(out) - done)
            if not got:
                break
            out[done : done + len(got)] = np.frombuffer(got, np.uint8)
            done += len(got)
        self._at = offset + done
        return done

    def close(self) -> None:
        self._file.close()
        ahead = getattr(getattr(self._file, "cache", None), "_thread_executor", None)
        if ahead is not None:  # else its thread would stay until the collector comes by
            ahead.shutdown(wait=False, cancel_futures=True)


def opened(path: str) -> File:
    """The file, open for reading."""
    local = local_path(path)
    return RemoteFile(path) if local is None else LocalFile(local)


def read_all(path: str, size: int = -1) -> bytes:
    """The first `size` bytes of a file, or all."""
    local = local_path(path)
    if local is not None:
        with Path(local).open("rb") as file:
            return file.read(size)
    system, name = remote(path)
    return bytes(system.cat_file(name, 0, None if size < 0 else size))


def write_whole(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file such that nobody ever sees half of it."""
    local = local_path(path)
    if local is None:
        system, name = remote(path)
        system.pipe_file(name, b"".join(parts))
        return
    with whole(Path(local)) as file:
        file.writelines(parts)


class FileList:
    """The names of files that are known in advance; shown with what they are now, as far as that is quickly told."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: Final = tuple(names)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        digest = hashlib.blake2b(digest_size=6)
        far = sum(local_path(name) is None for name in self.names)
        for name in self.names:
            digest.update(name.encode(errors="surrogateescape") + b"\0")
            if local_path(name) is not None or far <= FEW:
                digest.update(_described(name))
        return f"{len(self.names)} #{digest.hexdigest()}"


def _described(name: str) -> bytes:
    try:
        found = identity(name)
    except OSError:
        return b"missing"
    return f"{found.size} {found.stamp}".encode()
