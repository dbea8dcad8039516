"""The small files of a dataset's directory, on this machine or behind a URL."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.paths import refuse_shortened_url
from headrace.records.files import as_path, local_path, read_all
from headrace.records.redact import show_path
from headrace.records.transport import ALONE, Transport


class Folder:
    """A folder by path or URL."""

    def __init__(self, path: Any, storage_options: Mapping[str, Any] | None = None) -> None:
        refuse_shortened_url(path, "the folder")
        written = as_path(path).rstrip("/")
        here = local_path(written)
        self.path = written if here is None else str(Path(here).expanduser()) or "/"
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
        """The folder that it lies in."""
        return Folder(self.path.rsplit("/", 1)[0] or "/", self.storage_options)

    @property
    def local(self) -> Path | None:
        """The folder on this machine, None where it is elsewhere."""
        here = local_path(self.path)
        return None if here is None else Path(here)

    def file(self, name: str) -> str:
        """The path or URL of a file in it."""
        return f"{self.path}/{name}"

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None where there is none."""
        try:
            return read_all(self.file(name), self._via)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def read_json(self, name: str) -> Any:
        """What a file of JSON says, None where there is none."""
        data = self.read(name)
        if data is None:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            raise StorageError(f"{show_path(self.file(name))} is damaged: {error}") from None

    def names(self) -> dict[str, int | None]:
        """What lies in it: files with their sizes, folders with None; nothing where there is no such folder."""
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
