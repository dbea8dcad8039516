"""Archives: the files of a tar or zip one after another, without extracting them to disk."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headrace.errors import StorageError

BLOCK_BYTES = 1 << 20
GZIP_WINDOW = 31
"""For zlib: data with GZIP's frame."""


def archive_files(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the names and open files of a tar (plain or compressed) or zip; read each file before the next.

    Links, directories, hidden files and names that lead out of the archive are left out.
    """
    if zipfile.is_zipfile(path):
        yield from _zip_files(path, wanted)
        return
    with path.open("rb") as raw:
        yield from _tar_files(raw, wanted)


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


def _tar_files(raw: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with _opened_tar(raw) as archive:
        for member in archive:
            name = _plain(member.name)
            if name and member.isreg() and wanted(name) and (file := archive.extractfile(member)) is not None:
                yield name, file


@contextmanager
def _opened_tar(raw: IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Open a tar file to be read from its beginning; GZIP data in pieces of a megabyte, not of 8 kB."""
    zipped = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    if not zipped:
        with tarfile.open(fileobj=raw, mode="r:*") as archive:
            yield archive
        return
    with (
        io.BufferedReader(InflatedFile(raw), BLOCK_BYTES) as inflated,
        tarfile.open(fileobj=inflated, mode="r:") as archive,
    ):
        yield archive


class InflatedFile(io.RawIOBase):
    """The content of a GZIP file of one or more members, whose checksums zlib verifies. To go back is to begin anew.

    Args:
        raw: the file, open at its beginning.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._begin()

    def _begin(self) -> None:
        self._raw.seek(0)
        self._member = zlib.decompressobj(GZIP_WINDOW)
        self._waiting = b""
        self._at = 0

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def tell(self) -> int:
        """See io.RawIOBase."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, by reading what is before it."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the length of GZIP data is not known")
        wanted = offset if whence == io.SEEK_SET else self._at + offset
        if wanted < self._at:
            self._begin()
        passed = memoryview(bytearray(min(BLOCK_BYTES, wanted - self._at)))
        while self._at < wanted and self.readinto(passed[: wanted - self._at]):
            pass
        return self._at

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase."""
        while True:
            data = self._waiting or self._raw.read(BLOCK_BYTES)
            self._waiting = b""
            if self._member.eof:
                data = data.lstrip(b"\0")  # some programs fill the last block
                if not data:
                    return 0
                self._member = zlib.decompressobj(GZIP_WINDOW)
            elif not data:
                raise EOFError("the GZIP data ends before its end mark")
            made = self._member.decompress(data, len(buffer))
            self._waiting = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if made:
                buffer[: len(made)] = made
                self._at += len(made)
                return len(made)


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
