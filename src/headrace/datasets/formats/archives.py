"""Archives: the files of a tar or zip one after another, without extracting them to disk."""

from __future__ import annotations

import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from headrace.errors import StorageError


def archive_files(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, IO[bytes]]]:
    """The names and open files of a tar (plain or compressed) or zip; each file is read before the next is asked for.

    Links, directories, hidden files and names that lead out of the archive are left out.
    """
    yield from _zip_files(path, wanted) if zipfile.is_zipfile(path) else _tar_files(path, wanted)


def archive_file(path: Path, name: str) -> bytes:
    """The content of one file of an archive."""
    for _, file in archive_files(path, lambda found: found == name):
        return file.read()
    raise StorageError(f"{path} has no file {name}")


def _tar_files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            name = _plain(member.name)
            if name and member.isreg() and wanted(name) and (file := archive.extractfile(member)) is not None:
                yield name, file


def _zip_files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = _plain(member.filename)
            if name and not member.is_dir() and wanted(name):
                with archive.open(member) as file:
                    yield name, file


def _plain(name: str) -> str | None:
    name = posixpath.normpath(name)
    hidden = name.startswith((".", "/")) or name.endswith("~") or posixpath.basename(name).startswith(".")
    return None if hidden else name
