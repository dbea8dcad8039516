"""`headrace.lock`: which version of each dataset a project uses, and the checksums of its files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from headrace.core.paths import local_only
from headrace.core.types import JsonObject
from headrace.errors import StorageError
from headrace.formats.shared.files import read_all
from headrace.remote.transport import ALONE
from headrace.storage.files import whole_file
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.feature import FEATURES
from headrace.tfds.files import Folder, damage_named
from headrace.tfds.info import INFO
from headrace.tfds.versions import Version

LOCK_FILE = "headrace.lock"


def lock_path() -> Path:
    """Return the lock file of this project: HEADRACE_LOCK, or the nearest one at or above the working directory."""
    if said := os.environ.get("HEADRACE_LOCK"):
        return local_only(said, "HEADRACE_LOCK")
    here = Path.cwd()
    return next((f / LOCK_FILE for f in (here, *here.parents) if (f / LOCK_FILE).exists()), here / LOCK_FILE)


def read_lock() -> JsonObject:
    """Return what is locked, by name and config."""
    path = lock_path()
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("datasets"), dict):
        raise StorageError(f"{path} is no lock file of headrace's")
    found: JsonObject = said["datasets"]
    for name, entry in found.items():
        with damage_named(str(path)):
            Version.of(entry["version"])
            for file, pinned in entry["files"].items():
                if type(pinned["size"]) is not int or not isinstance(pinned["sha256"], str):
                    raise ValueError(f"{name}, {file}: size and sha256 are needed")
    return found


def lock_entry(builder: ReadOnlyBuilder) -> JsonObject:
    """Return what is pinned of a dataset."""
    info = builder.info
    files = {}
    names = [INFO, FEATURES]
    for split in info.splits.values():
        names += split.filenames(info.name, info.file_format)
    for name in names:
        data = read_all(Folder(info.data_dir).file(name), ALONE)
        files[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {"version": str(info.version), "files": files}


def write_lock(name: str, entry: JsonObject) -> Path:
    """Pin a dataset in the project's lock file."""
    path = lock_path()
    known = read_lock() | {name: entry}
    with whole_file(path) as file:
        file.write((json.dumps({"datasets": dict(sorted(known.items()))}, indent=1) + "\n").encode())
    return path


def check_locked(builder: ReadOnlyBuilder, entry: JsonObject, *, all_bytes: bool = False) -> None:
    """Refuse a dataset that is not the one locked: by its pages and the sizes of its files, or by all bytes."""
    info = builder.info
    folder = Folder(info.data_dir)
    there = folder.names()
    for name, pinned in entry["files"].items():
        if name not in there:
            raise _other(info.full_name, f"{name} is missing")
        if there[name] != pinned["size"]:
            raise _other(info.full_name, f"{name} has {there[name]} bytes, not {pinned['size']}")
        if all_bytes or name in (INFO, FEATURES):
            found = hashlib.sha256(folder.read(name) or b"").hexdigest()
            if found != pinned["sha256"]:
                raise _other(info.full_name, f"{name} has the SHA-256 {found}, not {pinned['sha256']}")


def _other(name: str, what: str) -> StorageError:
    return StorageError(
        f"{name} is not what {lock_path()} has locked: {what}; `headrace dataset lock` accepts it as it is now"
    )
