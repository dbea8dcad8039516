"""Where `save` puts what: generations of rows, and one page that names the current one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.storage.files import TEMPORARY, locked, read_page, unlock, write_page

VERSION = 1
SAVED = "saved.json"
GENERATION = "rows-"


@contextlib.contextmanager
def generation(path: Path) -> Iterator[Path]:
    """A directory for new rows. It is removed unless they are published; so is what a killed writer left."""
    try:
        lock = locked(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    if lock is None:
        raise StorageError(f"another process is saving to {path}; give another path, or wait for it")
    try:
        yield path / f"{GENERATION}{secrets.token_hex(4)}"
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; what it held is untouched") from error
    finally:
        try:
            _tidy(path)
        finally:
            unlock(lock)
            os.close(lock)


def publish(path: Path, current: Path, **facts: Any) -> None:
    """Have `path` mean these rows from now on."""
    write_page(path / SAVED, {"version": VERSION, "current": current.name, **facts})


def _tidy(path: Path) -> None:
    current = read_page(path / SAVED)["current"] if (path / SAVED).exists() else None
    for found in path.iterdir():
        if found.name.startswith(GENERATION) and found.name != current:
            shutil.rmtree(found, ignore_errors=True)
        elif found.suffix == TEMPORARY:
            found.unlink(missing_ok=True)
