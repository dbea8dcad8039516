"""The files that a dataset is made of: where they are, and how one can tell that they are the right ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.records.files import local_path, open_path
from headrace.records.redact import show_path
from headrace.records.transport import ALONE
from headrace.storage.files import whole_file

PIECE = 4 << 20


@dataclass(frozen=True)
class SourceFile:
    """A file by path or URL, with the SHA-256 of what it holds; `note` says how to get it by hand.

    >>> hr.catalogue.SourceFile("https://example.com/points.csv", sha256="ab12…", note="ask the authors for it").name
    'points.csv'
    """

    url: str
    sha256: str | None = None
    note: str = ""
    storage_options: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rstrip("/").rsplit("/", 1)[-1]


def fetch_source(source: SourceFile, folder: Path) -> Path:
    """The file on this machine, checked; one that is elsewhere is copied into the folder first."""
    here = local_path(source.url)
    by_hand = folder / source.name
    if here is not None and Path(here).expanduser().exists():
        return _checked(Path(here).expanduser(), source)
    if by_hand.exists():
        return _checked(by_hand, source)
    if here is not None:
        raise StorageError(f"{source.url} is not there: put it at {by_hand}{_note(source)}")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _copy(source, by_hand)
    except (OSError, ImportError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"{show_path(source.url)} cannot be fetched ({error}): put it at {by_hand} by hand{_note(source)}"
        ) from error
    return _checked(by_hand, source)


def _note(source: SourceFile) -> str:
    return f" ({source.note})" if source.note else ""


def _copy(source: SourceFile, target: Path) -> None:
    import numpy as np

    file = open_path(source.url, ALONE.using(source.storage_options))
    piece = np.empty(PIECE, np.uint8)
    offset = 0
    try:
        with whole_file(target) as out:
            while got := file.read_into(piece, offset):
                out.write(piece[:got].tobytes())
                offset += got
    finally:
        file.close()


def _checked(path: Path, source: SourceFile) -> Path:
    if source.sha256 is not None:
        found = sha256_of(path)
        if found != source.sha256.lower():
            raise StorageError(
                f"{path} is not the file that it should be: its SHA-256 is {found}, where {source.sha256} was promised"
                f"{_note(source)}"
            )
    return path


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
