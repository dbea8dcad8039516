"""Files by path or URL: what they are, and their bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.records.identity import (
    Identity,
    Token,
    local_identity,
    open_identity,
    remote_identity,
    signature,
)
from headrace.storage.files import whole

Bytes = NDArray[np.uint8]

REMOTE_BLOCK = 4 << 20
"""A remote file is fetched in ranges of this size, the next one in the background."""
REMOTE_BLOCKS = 4
"""So many of them are kept."""
FEW = 256
"""Of so many remote files each is looked at before a state is taken or restored; of more, only those being read."""
AT_ONCE = 16
"""So many files are looked at at a time, where there are more."""


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
        return local_identity(local)
    system, name = remote(path)
    return remote_identity(system, name, system.info(name))


def file_size(path: str) -> int | None:
    """How many bytes the file has, None where that is not known; raises OSError where there is none."""
    local = local_path(path)
    if local is not None:
        return Path(local).stat().st_size
    system, name = remote(path)
    size: int | None = system.info(name).get("size")
    return size


class File(Protocol):
    """The bytes of one open file; `size` is what it had when it was opened, `token` tells which file it is."""

    size: int | None

    @property
    def token(self) -> Token: ...

    def identity(self) -> Identity:
        """Which file it is."""
        ...

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
        self.size: int | None = found.st_size
        self._path = path
        self._seen = signature(found)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, out: Bytes, offset: int) -> int:
        done = 0
        while done < len(out):
            got = os.preadv(self._open(), [out[done:].data], offset + done)
            if not got:
                break
            done += got
        return done

    def mapped(self) -> _native.MappedFile:
        """The file as memory; raises where it cannot be mapped."""
        return _native.MappedFile(self._open(), self.size or 0)

    @property
    def token(self) -> Token:
        """Tells which file it is, once somebody asks."""
        return Token(self._path, seen=self._seen, file=self)

    def identity(self) -> Identity:
        """Which file it is."""
        return open_identity(self._open())

    def duplicate(self) -> int:
        """Another descriptor of the file, as long as it is open."""
        return os.dup(self._open())

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is closed")
        return self._descriptor

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
        found = remote_identity(system, name, system.info(name))
        self._identity = found
        self.size = found.size
        self.token = Token(path, found.token)
        self._file = system.open(
            name,
            "rb",
            block_size=REMOTE_BLOCK,
            cache_type="background",
            cache_options={"maxblocks": REMOTE_BLOCKS},
        )
        self._at = 0

    def identity(self) -> Identity:
        """Which file it is."""
        return self._identity

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


def read_all(path: str) -> bytes:
    """All bytes of a file."""
    return read_range(path, 0, None)


def read_range(path: str, start: int, stop: int | None) -> bytes:
    """The bytes of a file from one place to before another, or to its end."""
    local = local_path(path)
    if local is not None:
        with Path(local).open("rb") as file:
            file.seek(start)
            return file.read(-1 if stop is None else stop - start)
    system, name = remote(path)
    return bytes(system.cat_file(name, start, stop))


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
    """The names of files that are known in advance.

    A state shows them by what they hold, in order: files that were moved or copied are the same.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: Final = tuple(names)

    def __len__(self) -> int:
        return len(self.names)

    def brief(self) -> str:
        """How many there are, for people."""
        return str(len(self.names))

    def __str__(self) -> str:
        far = sum(local_path(name) is None for name in self.names)
        looked_at = [name for name in self.names if far <= FEW or local_path(name) is not None]
        known = dict(zip(looked_at, identities(looked_at), strict=True))
        folder = common_folder(self.names)
        digest = hashlib.blake2b(digest_size=6)
        for name in self.names:
            found = known[name] if name in known else f"named {name.removeprefix(folder)}"
            digest.update(f"{found}\0".encode(errors="surrogateescape"))
        return f"{len(self.names)} #{digest.hexdigest()}"


def identities(paths: Sequence[str]) -> list[Identity | None]:
    """What each of these files is now, None where there is none."""
    if len(paths) <= AT_ONCE:
        return [_identity(path) for path in paths]
    with ThreadPoolExecutor(AT_ONCE, "headrace-identities") as pool:
        return list(pool.map(_identity, paths))


def _identity(path: str) -> Identity | None:
    try:
        return identity(path)
    except OSError:
        return None


def common_folder(names: Sequence[str]) -> str:
    """What the names of files in one folder, or below it, begin with."""
    first, last = (min(names), max(names)) if names else ("", "")
    alike = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, alike) + 1]
