"""Archives: the files of a tar or zip one after another, without extracting them to disk."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.datasets.formats.inflated import BLOCK_BYTES, Checkpoints, InflatedFile, checkpoints_of
from headrace.errors import StorageError


def archive_files(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the names and open files of a tar (plain or compressed) or zip; read each file before the next.

    Links, directories, hidden files and names that lead out of the archive are left out.
    """
    if zipfile.is_zipfile(path):
        yield from _zip_files(path, wanted)
        return
    with path.open("rb") as raw:
        yield from _tar_files(raw, wanted, checkpoints_of(path))


def files_of_tar_in(
    path: Path, name: str, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the names and open files of a tar that is a file of another archive; see `archive_files`."""
    for _, inner in archive_files(path, lambda found: found == name):
        yield from _tar_files(inner, wanted)
        return
    raise StorageError(f"{path} has no file {name}")


def archive_file(path: Path, name: str) -> bytes:
    """Return the content of one file of an archive."""
    for _, file in archive_files(path, lambda found: found == name):
        return file.read()
    raise StorageError(f"{path} has no file {name}")


def _tar_files(
    raw: IO[bytes], wanted: Callable[[str], bool], checkpoints: Checkpoints | None = None
) -> Iterator[tuple[str, IO[bytes]]]:
    with _opened_tar(raw, checkpoints) as archive:
        for member in archive:
            name = _plain(member.name)
            if name and member.isreg() and wanted(name) and (file := archive.extractfile(member)) is not None:
                yield name, file


@contextmanager
def _opened_tar(raw: IO[bytes], checkpoints: Checkpoints | None) -> Iterator[tarfile.TarFile]:
    """Open a tar file to be read from its beginning; GZIP data in pieces of a megabyte, not of 8 kB."""
    zipped = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    if not zipped:
        with tarfile.open(fileobj=raw, mode="r:*") as archive:
            yield archive
        return
    with (
        io.BufferedReader(InflatedFile(raw, checkpoints), BLOCK_BYTES) as inflated,
        tarfile.open(fileobj=inflated, mode="r:") as archive,
    ):
        yield archive


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
