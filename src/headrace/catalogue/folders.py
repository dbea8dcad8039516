"""The search path of named datasets: directories and URLs, each with a small index file, or searched."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from headrace.core.paths import local_only
from headrace.core.types import StrPath
from headrace.errors import StorageError, TransportError, warn_once
from headrace.remote.redact import show_path
from headrace.storage.files import whole_file
from headrace.tfds.builder import data_directory, list_versions
from headrace.tfds.files import Folder, damage_named
from headrace.tfds.versions import DatasetName, Version, resolve_version

INDEX = "catalogue.json"
VARIABLE = "HEADRACE_CATALOGUES"

_added: list[Folder] = []


def add(folder: StrPath, *, storage_options: Mapping[str, object] | None = None) -> None:
    """Let `hr.load` search a directory or URL too; those added last come first.

    The folders in the environment's HEADRACE_CATALOGUES, one a line or with semicolons between, count as added.

    Args:
        folder: Path or URL of a folder.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    >>> hr.catalogue.add(folder)
    >>> hr.catalogue.remove(folder)
    """
    place = Folder(folder, storage_options)
    remove(place.path)
    _added.insert(0, place)


def remove(folder: StrPath) -> None:
    """Remove a directory or URL from the search path of `hr.load`.

    Args:
        folder: Path or URL of a folder.

    >>> hr.catalogue.remove(folder)
    """
    path = Folder(folder).path
    _added[:] = [place for place in _added if place.path != path]


def catalogue_folders(
    data_dir: StrPath | None = None, storage_options: Mapping[str, object] | None = None
) -> list[Folder]:
    """Return the directories that are searched, in order: only the requested one, or added ones and TFDS's own."""
    if data_dir is not None:
        return [Folder(data_dir, storage_options)]
    named = os.environ.get(VARIABLE, "").replace("\n", ";").split(";")
    return [*_added, *(Folder(path.strip()) for path in named if path.strip()), data_directory()]


def folder_index(folder: Folder) -> dict[str, dict[str, list[str]]]:
    """Return the versions of each dataset, by config ('' for none): as a store's index says, or as the folder shows."""
    said = folder.read_json(INDEX)
    if said is not None:
        if not isinstance(said, dict) or not isinstance(said.get("datasets"), dict):
            raise _no_index(folder, "it has no datasets")
        found: dict[str, dict[str, list[str]]] = said["datasets"]
        with damage_named(folder.file(INDEX)):
            for name, configs in found.items():
                for config, versions in configs.items():
                    if not isinstance(versions, list) or "/" in name + config or {".", ".."} & {name, config}:
                        raise ValueError(f"{name!r:.80} with config {config!r:.80} is no dataset")
                    configs[config] = [str(Version.of(version)) for version in versions]
        if folder.local is None:  # elsewhere it saves many requests; here the folder itself is as quick to read
            return found
    return look_through(folder)


def _no_index(folder: Folder, why: str) -> StorageError:
    where = show_path(folder.file(INDEX))
    return StorageError(f"{where} is no index of datasets: {why}; `headrace dataset index` makes it anew")


def look_through(folder: Folder) -> dict[str, dict[str, list[str]]]:
    """Return the versions of each dataset that a folder holds."""
    names = sorted(name for name, size in folder.names().items() if size is None and name[0] != ".")
    listed = {name: listed_versions(folder / name) for name in names}
    return {name: found for name, found in listed.items() if found}


def listed_versions(home: Folder) -> dict[str, list[str]]:
    """Return the versions in the folder of one dataset, by config."""
    return {config or "": [str(version) for version in found] for config, found in list_versions(home).items()}


def _versions(folder: Folder, name: str) -> dict[str, list[str]] | None:
    """Return the versions of one dataset; those of a store as it lists them, if it can, since its index may
    be stale.
    """
    said = folder_index(folder).get(name)
    if folder.local is not None:
        return said
    try:
        there = listed_versions(folder / name)
    except (OSError, NotImplementedError, TransportError):  # a store that cannot be listed, or may not be
        there = {}
    if there and there != said and folder.read_json(INDEX) is not None:
        warn_once(
            ("stale catalogue", str(folder), name),
            f"{folder}/{INDEX} is stale: it does not list the versions of {name} that are there. Run `headrace dataset "
            "index` on a copy, and put the file there",
        )
    return there or said


def write_index(folder: StrPath) -> str:
    """Write the index of a folder of datasets, so that a copy in a store is listed by one read; returns its path.

    Args:
        folder: Path or URL of a folder.

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
    """Return the directory of a dataset's version, None if there is no dataset of this name."""
    configs = _versions(folder, wanted.name)
    if configs is None:
        return None
    home = folder / wanted.name
    config = wanted.config if wanted.config is not None else default_config(home, configs)
    if config not in configs:
        there = ", ".join(sorted(configs)) or "none"
        raise ValueError(f"{wanted.name} in {folder} has no config {config!r}: there are {there}")
    versions = [Version.of(version) for version in configs[config]]
    found = resolve_version(wanted.version, versions, f"{wanted._replace(version=None)} in {folder}")
    return (home / config if config else home) / str(found)


def default_config(home: Folder, configs: Mapping[str, object]) -> str:
    """Return the config that a name without one means."""
    if "" in configs:
        return ""
    default = home.read_object(".config/metadata.json").get("default_config_name")
    if isinstance(default, str) and default:
        return default  # also if it is not there: the only one that is may be another
    if len(configs) == 1:
        return next(iter(configs))
    raise ValueError(f"{home.name} has several configs, and none is the default: {', '.join(sorted(configs))}")
