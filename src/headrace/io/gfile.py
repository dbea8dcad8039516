"""`hr.io.gfile`: files by path or URL, under tf.io.gfile's names, by way of fsspec."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from glob import glob as glob_files
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.types import Attribute, LibraryObject, Nested
from headrace.formats.shared.files import as_path, local_path
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE

Path = str | bytes | os.PathLike[str]


class FileStatistics(NamedTuple):
    """The result of `stat`: its length in bytes, when it was changed, and whether it is a folder."""

    length: int
    mtime_nsec: int
    is_directory: bool


@contextmanager
def _at(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a path or URL, with nothing remembered, and the path in it. Errors show no secrets."""
    import fsspec  # which takes long to import

    with ALONE.hiding(as_path(path)):
        system, place = fsspec.core.url_to_fs(as_path(path))
        system.invalidate_cache()
        yield system, place


def _name(path: Path) -> str:
    """Return a path or URL as errors show it."""
    return show_path(as_path(path))


def _shown(path: Path, place: str) -> str:
    """Return a path within a file system as one of the form that was given."""
    scheme, mark, _ = as_path(path).partition("://")
    return f"{scheme}://{place.lstrip('/')}" if mark else place


class GFile:
    """Open a file, by path or URL. A context manager, and what `open` gives.

    Args:
        name: Path or URL.
        mode: As for `open`: "r", "w", "rb", "wb", "a" and the like.

    >>> with hr.io.gfile.GFile(folder / "a.txt", "w") as f:
    ...     _ = f.write("one line")
    >>> with hr.io.gfile.GFile(folder / "a.txt") as f:
    ...     f.read()
    'one line'
    """

    def __init__(self, name: Path, mode: str = "r") -> None:
        with _at(name) as (system, place):
            text = {} if "b" in mode else {"encoding": "utf-8"}
            self._file: LibraryObject = system.open(place, mode, **text)
            self.name: str = as_path(name)
            self.mode = mode

    def __getattr__(self, name: str) -> Attribute:
        return getattr(self._file, name)

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Nested]:
        return iter(self._file)

    def size(self) -> int:
        """Return the length of the file in bytes."""
        return stat(self.name).length


def exists(path: Path) -> bool:
    """Return whether there is a file or folder of that name."""
    with _at(path) as (system, place):
        return bool(system.exists(place))


def isdir(path: Path) -> bool:
    """Return whether it is a folder."""
    with _at(path) as (system, place):
        return bool(system.isdir(place))


def listdir(path: Path) -> list[str]:
    """Return the names in a folder."""
    with _at(path) as (system, place):
        if not system.isdir(place):
            raise FileNotFoundError(f"{_name(path)} is no folder")
        names = (posixpath.basename(found.rstrip("/")) for found in system.ls(place, detail=False))
        return sorted(name for name in names if name)


def glob(pattern: Path | Sequence[Path]) -> list[str]:
    """Return the names that match a pattern, or one of several."""
    if not isinstance(pattern, str | bytes | os.PathLike):
        return sorted({name for one in pattern for name in glob(one)})
    if local_path(as_path(pattern)) is not None:  # names stay as relative as they were given
        return sorted(glob_files(as_path(pattern), recursive=True))  # noqa: PTH207
    with _at(pattern) as (system, place):
        return sorted(_shown(pattern, found) for found in system.glob(place))


def makedirs(path: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    with _at(path) as (system, place):
        system.makedirs(place, exist_ok=True)


def mkdir(path: Path) -> None:
    """Make a folder."""
    with _at(path) as (system, place):
        system.mkdir(place, create_parents=False)


def remove(path: Path) -> None:
    """Delete a file."""
    with _at(path) as (system, place):
        if system.isdir(place):
            raise IsADirectoryError(f"{_name(path)} is a folder: rmtree deletes it")
        system.rm_file(place)


def rmtree(path: Path) -> None:
    """Delete a folder and all in it."""
    with _at(path) as (system, place):
        system.rm(place, recursive=True)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Move a file."""
    _transfer(src, dst, overwrite, lambda system, a, b: system.mv(a, b))


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy a file."""
    _transfer(src, dst, overwrite, lambda system, a, b: system.cp_file(a, b))


def _transfer(src: Path, dst: Path, overwrite: bool, act: Callable[[Any, str, str], object]) -> None:
    with _at(src) as (system, source), _at(dst) as (other, target):
        if not overwrite and other.exists(target):
            raise FileExistsError(f"{_name(dst)} is there already: overwrite=True replaces it")
        if type(system) is type(other):
            act(system, source, target)
            return
    raise ValueError(f"{_name(src)} and {_name(dst)} are in different stores: read the one and write the other")


def stat(path: Path) -> FileStatistics:
    """Return the length of a file, when it was changed, and whether it is a folder."""
    with _at(path) as (system, place):
        found = system.info(place)
        changed = found.get("mtime") or found.get("LastModified") or found.get("updated") or 0
        seconds = changed.timestamp() if isinstance(changed, datetime) else changed
        nanoseconds = int(seconds * 1e9) if isinstance(seconds, int | float) else 0
        return FileStatistics(int(found.get("size") or 0), nanoseconds, found["type"] == "directory")


def walk(top: Path, topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder below `top` with the names of the folders and files in it."""
    local = local_path(as_path(top))
    if local is not None:
        yield from os.walk(local, topdown)
        return
    with _at(top) as (system, place):
        found = [(_shown(top, base), sorted(folders), sorted(files)) for base, folders, files in system.walk(place)]
        yield from found if topdown else reversed(found)


def join(path: str, *paths: str) -> str:
    """Put parts of a path together."""
    return posixpath.join(path, *paths)


__all__ = [
    "FileStatistics", "GFile", "copy", "exists", "glob", "isdir", "join", "listdir", "makedirs", "mkdir", "remove",
    "rename", "rmtree", "stat", "walk",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.io.gfile", name)
