"""The disk usage of datasets, and their removal."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace.catalogue.folders import INDEX, find_in, look_through, write_index
from headrace.errors import StorageError
from headrace.storage.files import lock_directory
from headrace.tfds.files import Folder
from headrace.tfds.versions import DatasetName
from headrace.tfds.writing import BeingBuiltError

DOWNLOADS = "downloads"


def disk_usage_of(folder: Path) -> dict[str, int]:
    """Return the bytes of each version of each dataset, of unfinished builds, and of downloads."""
    found: dict[str, int] = {}
    for name, configs in look_through(Folder(folder)).items():
        for config, versions in configs.items():
            home = folder / name / config
            for version in versions:
                found["/".join(filter(None, (name, config, version)))] = bytes_below(home / version)
    for path in sorted(folder.glob("*/**/.*.building")) if folder.exists() else []:
        found[str(path.relative_to(folder))] = bytes_below(path)
    if (folder / DOWNLOADS).exists():
        found[DOWNLOADS] = bytes_below(folder / DOWNLOADS)
    return found


def bytes_below(folder: Path) -> int:
    """Return the sizes of all files below a folder."""
    return sum((Path(top) / name).lstat().st_size for top, _, names in os.walk(folder) for name in names)


def remove_version(folder: Path, name: DatasetName) -> int:
    """Remove one version of a dataset. Return how many bytes it had. Raise if it is being built."""
    place = find_in(Folder(folder), name)
    if place is None or place.local is None:
        raise FileNotFoundError(f"there is no dataset {name} in {folder}")
    target = place.local
    if target.is_symlink() or not target.is_dir():
        raise StorageError(f"{target} is no folder of a dataset")
    building = target.parent / f".{target.name}.building"
    held = lock_directory(building)
    if held is None:
        raise BeingBuiltError(target, building)
    try:
        freed = bytes_below(target)
        target.rename(building / "removed")  # so that it is gone at once, also for readers of the directory
    finally:
        held.release()
    shutil.rmtree(building)
    for home in (target.parent, target.parent.parent):
        if home != folder and not any(path.name != ".config" for path in home.iterdir()):
            shutil.rmtree(home)
    if (folder / INDEX).exists():
        write_index(folder)
    return freed


def remove_folder(folder: Path) -> int:
    """Remove a folder of downloads. Return how many bytes it had."""
    if not folder.is_dir():
        raise FileNotFoundError(f"nothing is downloaded in {folder}")
    freed = bytes_below(folder)
    shutil.rmtree(folder)
    return freed
