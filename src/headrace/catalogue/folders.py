"""Where named datasets are looked for: folders and URLs, each with one small index file, or looked through."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.storage.files import whole_file
from headrace.tfds.builder import data_directory, list_versions
from headrace.tfds.files import Folder
from headrace.tfds.versions import DatasetName, Version, resolve_version

INDEX = "catalogue.json"
VARIABLE = "HEADRACE_CATALOGUES"

_added: list[Folder] = []


def add(folder: Any, *, storage_options: Mapping[str, Any] | None = None) -> None:
    """Have `hr.load` look for datasets in a folder or URL too; those added last come first.

    The folders in the environment's HEADRACE_CATALOGUES, one a line or with semicolons between, count as added.

    >>> hr.catalogue.add(folder)
    >>> hr.catalogue.remove(folder)
    """
    place = Folder(folder, storage_options)
    remove(place.path)
    _added.insert(0, place)


def remove(folder: Any) -> None:
    """Have `hr.load` no longer look there.

    >>> hr.catalogue.remove(folder)
    """
    path = Folder(folder).path
    _added[:] = [place for place in _added if place.path != path]


def catalogue_folders(data_dir: Any = None, storage_options: Mapping[str, Any] | None = None) -> list[Folder]:
    """Where datasets are looked for, in this order: what is asked for alone, or what was added and TFDS's own."""
    if data_dir is not None:
        return [Folder(data_dir, storage_options)]
    named = os.environ.get(VARIABLE, "").replace("\n", ";").split(";")
    return [*_added, *(Folder(path.strip()) for path in named if path.strip()), data_directory()]


def folder_index(folder: Folder) -> dict[str, dict[str, list[str]]]:
    """The versions of each dataset, by config ('' for none): as the index says, or as the folder shows."""
    said = folder.read_json(INDEX)
    if said is not None:
        if not isinstance(said, dict) or not isinstance(said.get("datasets"), dict):
            raise StorageError(f"{folder.file(INDEX)} is no index of datasets; `headrace dataset index` makes it anew")
        found: dict[str, dict[str, list[str]]] = said["datasets"]
        return found
    return look_through(folder)


def look_through(folder: Folder) -> dict[str, dict[str, list[str]]]:
    """The versions of each dataset that a folder holds."""
    names = sorted(name for name, size in folder.names().items() if size is None and name[0] != ".")
    listed = {name: list_versions(folder / name) for name in names}
    return {
        name: {config or "": [str(version) for version in versions] for config, versions in found.items()}
        for name, found in listed.items()
        if found
    }


def write_index(folder: Any) -> str:
    """Write the index of a folder of datasets, so that a copy in a store is listed by one read; returns its path.

    >>> _ = hr.Dataset.range(3).map(lambda x: {"x": x}).write_tfds(folder, "three")
    >>> hr.catalogue.write_index(folder).split("/")[-1]
    'catalogue.json'
    """
    place = Folder(folder)
    here = place.local
    if here is None:
        raise ValueError(f"the index is written on this machine: write that of the copy, then put it at {place}")
    with whole_file(Path(here) / INDEX) as file:
        file.write(json.dumps({"datasets": look_through(place)}, indent=1).encode())
    return str(Path(here) / INDEX)


def find_in(folder: Folder, wanted: DatasetName) -> Folder | None:
    """The folder of a dataset's version, None where there is no dataset of this name."""
    configs = folder_index(folder).get(wanted.name)
    if configs is None:
        return None
    home = folder / wanted.name
    config = wanted.config if wanted.config is not None else _default_config(home, configs)
    if config not in configs:
        there = ", ".join(sorted(configs)) or "none"
        raise ValueError(f"{wanted.name} in {folder} has no config {config!r}: there are {there}")
    versions = [Version.of(version) for version in configs[config]]
    found = resolve_version(wanted.version, versions, f"{wanted._replace(version=None)} in {folder}")
    return (home / config if config else home) / str(found)


def _default_config(home: Folder, configs: Mapping[str, Any]) -> str:
    if "" in configs:
        return ""
    said = home.read_json(".config/metadata.json") or {}
    default = said.get("default_config_name")
    if default in configs:
        return str(default)
    if len(configs) == 1:
        return next(iter(configs))
    raise ValueError(f"{home.name} has several configs, and none is the default: {', '.join(sorted(configs))}")
