"""The small files of a dataset's directory, local or behind a URL."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.core.paths import refuse_shortened_url
from headrace.core.types import JsonObject, JsonValue, StrPath
from headrace.errors import NONSENSE, StorageError
from headrace.formats.shared.files import as_path, local_path, read_all
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport


@contextmanager
def damage_named(where: str) -> Iterator[None]:
    """Raise StorageError with the place if what is read there makes no sense.

    Args:
        where: Path or URL of the file.
    """
    try:
        yield
    except NONSENSE as error:
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise StorageError(f"{show_path(where)} is damaged: {said[:MAX_REASON]}") from None


MAX_REASON = 300
"""Characters of a reason that are shown: values that make no sense may be long."""


class Folder:
    """A folder by path or URL."""

    def __init__(self, path: StrPath, storage_options: Mapping[str, object] | None = None) -> None:
        refuse_shortened_url(path, "the folder")
        written = as_path(path).rstrip("/")
        here = local_path(written)
        self.path: str = written if here is None else str(Path(here).expanduser()) or "/"
        self.storage_options = storage_options
        self._via: Transport = ALONE.using(storage_options)

    def __str__(self) -> str:
        return show_path(self.path)

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.path}/{name}", self.storage_options)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def parent(self) -> Folder:
        """Return the parent directory."""
        return Folder(self.path.rsplit("/", 1)[0] or "/", self.storage_options)

    @property
    def local(self) -> Path | None:
        """Return the local path, None if it is elsewhere."""
        here = local_path(self.path)
        return None if here is None else Path(here)

    def file(self, name: str) -> str:
        """Return the path or URL of a file in it."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if there is none."""
        try:
            return read_all(self.file(name), self._via)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def read_json(self, name: str) -> JsonValue:
        """Return the contents of a JSON file, None if there is none."""
        data = self.read(name)
        if data is None:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{show_path(self.file(name))} is damaged: {error}") from None

    def read_object(self, name: str) -> JsonObject:
        """Return what a file of JSON says that must be an object; an empty one if there is no such file.

        Raises:
            StorageError: It is no object, or no JSON.
        """
        said = self.read_json(name)
        if said is not None and not isinstance(said, dict):
            raise StorageError(f"{show_path(self.file(name))} is damaged: it is no object of JSON")
        return said or {}

    def names(self) -> dict[str, int | None]:
        """Return its contents: files with their sizes, directories with None; empty if there is no such directory."""
        here = self.local
        if here is not None:
            return _local_names(here)
        system, path = self._via.system(self.path)
        try:
            found = self._via.attempt(self.path, lambda: system.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        entries = [(entry["name"].rstrip("/").rsplit("/", 1)[-1], entry) for entry in found]
        return {
            name: None if entry["type"] == "directory" else int(entry.get("size") or 0)
            for name, entry in entries
            if name and name != path.rstrip("/").rsplit("/", 1)[-1]
        }


def _local_names(folder: Path) -> dict[str, int | None]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: None if entry.is_dir() else entry.stat().st_size for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return {}
