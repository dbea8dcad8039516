"""Where named datasets are looked for: folders and URLs, each with one small index file, or looked through."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from headrace.errors import StorageError, TransportError, warn_once
from headrace.paths import local_only
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
    """The versions of each dataset, by config ('' for none): as a store's index says, or as the folder shows."""
    said = folder.read_json(INDEX)
    if said is not None:
        if not isinstance(said, dict) or not isinstance(said.get("datasets"), dict):
            raise StorageError(f"{folder.file(INDEX)} is no index of datasets; `headrace dataset index` makes it anew")
        found: dict[str, dict[str, list[str]]] = said["datasets"]
        if folder.local is None:  # elsewhere it saves many requests; here the folder itself is as quick to read
            return found
    return look_through(folder)


def look_through(folder: Folder) -> dict[str, dict[str, list[str]]]:
    """The versions of each dataset that a folder holds."""
    names = sorted(name for name, size in folder.names().items() if size is None and name[0] != ".")
    listed = {name: _listed_versions(folder / name) for name in names}
    return {name: found for name, found in listed.items() if found}


def _listed_versions(home: Folder) -> dict[str, list[str]]:
    return {config or "": [str(version) for version in found] for config, found in list_versions(home).items()}


def _versions(folder: Folder, name: str) -> dict[str, list[str]] | None:
    """The versions of one dataset; those of a store as it lists them, if it can, since its index may be stale."""
    said = folder_index(folder).get(name)
    if folder.local is not None:
        return said
    try:
        there = _listed_versions(folder / name)
    except (OSError, NotImplementedError, TransportError):  # a store that cannot be listed, or may not be
        there = {}
    if there and there != said and folder.read_json(INDEX) is not None:
        warn_once(
            ("stale catalogue", str(folder), name),
            f"{folder}/{INDEX} is stale: it does not list the versions of {name} that are there. Run `headrace dataset "
            "index` on a copy, and put the file there",
        )
    return there or said


def write_index(folder: Any) -> str:
    """Write the index of a folder of datasets, so that a copy in a store is listed by one read; returns its path.

    >>> _ = hr.Dataset.range(3).map(lambda x: {"x": x}).write_tfds(folder, "three")
    >>> hr.catalogue.write_index(folder).split("/")[-1]
    'catalogue.json'
    """
    here = local_only(
        folder, "write_index", "write the index of a copy on this machine, then put it there"
    ).expanduser()
    with whole_file(here / INDEX) as file:
        file.write(json.dumps({"datasets": look_through(Folder(here))}, indent=1).encode())
    return str(here / INDEX)


def find_in(folder: Folder, wanted: DatasetName) -> Folder | None:
    """The folder of a dataset's version, None where there is no dataset of this name."""
    configs = _versions(folder, wanted.name)
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
    if default:
        return str(default)
    if len(configs) == 1:
        return next(iter(configs))
    raise ValueError(f"{home.name} has several configs, and none is the default: {', '.join(sorted(configs))}")
