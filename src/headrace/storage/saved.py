"""The layout of `save`: generations of rows, and one page that names the current one."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.core.types import JsonObject
from headrace.errors import StorageError
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF
from headrace.storage.files import TEMPORARY, lock_directory, read_page, write_page
from headrace.storage.parts import StoredPart
from headrace.storage.shelf import Shelf
from headrace.storage.structures import Types, stored_spec

VERSION = 3
SAVED = "saved.json"
GENERATION = "rows-"


@contextlib.contextmanager
def generation(path: Path) -> Iterator[Path]:
    """Yield a directory for new rows. It is removed unless they are published; so is what a killed writer left."""
    try:
        lock = lock_directory(path)
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
            lock.release()


def publish(path: Path, current: Path, **facts: object) -> None:
    """Make `path` refer to these rows from now on."""
    write_page(path / SAVED, {"version": VERSION, "current": current.name, **facts})


class SavedElements(NamedTuple):
    """What was saved: the parts, the spec of their elements, and whether each is a pair with its shard's number."""

    parts: list[StoredPart]
    spec: Spec
    sharded: bool


def read_saved(path: Path, types: Types) -> SavedElements:
    """Read what `path` holds. Raise StorageError if it holds nothing, or nothing valid."""
    page = _page(path)
    shelf = Shelf(path / page["current"], types)
    if not shelf.complete:
        raise StorageError(f"{path} is damaged: not all of its files are there")
    sharded = page.get("sharded") is True
    try:
        spec = stored_spec(page["spec"], types)
        for part in shelf.parts:
            _check(part, spec, sharded=sharded)
    except StorageError as error:
        raise StorageError(f"{path} is damaged: {error}") from None
    return SavedElements(shelf.parts, spec, sharded)


def _check(part: StoredPart, spec: Spec, *, sharded: bool) -> None:
    structure = part.layout.structure
    if sharded:
        fine = structure.kind is tuple and len(structure.children) == 2 and structure.children[1] == LEAF
        structure = structure.children[0] if fine else structure
    else:
        fine = True
    if not fine or part.failures or (spec.structure is not None and spec.structure != structure):
        raise StorageError(f"{part.path} has elements {part.layout.structure} but {spec} were saved")


def _page(path: Path) -> JsonObject:
    if not (path / SAVED).exists():
        raise StorageError(f"{path} holds no saved dataset: there is no {SAVED} in it")
    page = read_page(path / SAVED)
    if page.get("version") != VERSION:
        raise StorageError(
            f"{path} has format version {page.get('version')!r}, this headrace reads {VERSION}: save it again"
        )
    current = page.get("current")
    if not isinstance(current, str) or not re.fullmatch(f"{GENERATION}[0-9a-f]+", current) or "spec" not in page:
        raise StorageError(f"{path / SAVED} is no page of a saved dataset")
    return page


def _tidy(path: Path) -> None:
    try:
        current = _page(path)["current"] if (path / SAVED).exists() else None
    except StorageError:  # it is unknown which rows count: they stay, until there is a valid page
        return
    for found in path.iterdir():
        if found.name.startswith(GENERATION) and found.name != current:
            shutil.rmtree(found, ignore_errors=True)
        elif found.suffix == TEMPORARY:
            found.unlink(missing_ok=True)
