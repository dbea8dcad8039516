"""Prepared datasets in buckets and on web servers, in TFDS's layout: copied, or read in place, instead of built."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.catalogue.download import is_offline
from headrace.catalogue.folders import INDEX, default_config, listed_versions, write_index
from headrace.catalogue.sources import SourceFile, fetch_sources
from headrace.core.types import JsonObject
from headrace.errors import HeadraceError, StorageError, TransportError
from headrace.formats.tfrecord.source import TFRecordDataset
from headrace.options import Options
from headrace.remote.redact import show_path
from headrace.tfds.feature import FEATURES, labels_file, labels_in
from headrace.tfds.files import Folder
from headrace.tfds.info import INFO, read_info
from headrace.tfds.versions import DatasetName, Version, resolve_version
from headrace.tfds.writing import building_folder

log: logging.Logger = logging.getLogger("headrace")

VARIABLE = "HEADRACE_MIRRORS"
METADATA = "metadata.json"
ROWS_PER_CHECK = 1024


def mirror_folders(options: Options | None = None) -> list[Folder]:
    """Return the mirrors of `options` and those that HEADRACE_MIRRORS names, one a line or with semicolons between."""
    options = options or Options()
    named = os.environ.get(VARIABLE, "").replace("\n", ";").split(";")
    paths = [*(options.catalogue_mirrors or ()), *(path.strip() for path in named if path.strip())]
    return [Folder(path, _storage_options(path, options)) for path in paths]


def _storage_options(path: str, options: Options) -> JsonObject | None:
    """Return the options of the file system of a mirror."""
    made: JsonObject = {}
    stores = options.storage_options or {}
    for key in sorted(stores, key=len):
        if path.startswith(key if "://" in key else f"{key}://"):
            made |= stores[key]
    return made or None


class PreparedDataset(NamedTuple):
    """A version of a dataset on a mirror."""

    name: DatasetName
    folder: Folder


def find_prepared(wanted: DatasetName, options: Options | None = None) -> PreparedDataset | None:
    """Return a version of a dataset on the first mirror that has it; None if none has, or nothing may be fetched.

    Args:
        wanted: the name. If it has an exact version, mirrors need not be listed.
        options: which mirrors, and their credentials.
    """
    if is_offline():
        return None
    for mirror in mirror_folders(options):
        try:
            found = _exact(mirror, wanted) or _listed(mirror, wanted)
        except (OSError, NotImplementedError, TransportError) as error:
            log.warning("mirror %s: %s", mirror, error)
            continue
        if found is not None:
            return found
    return None


def _exact(mirror: Folder, wanted: DatasetName) -> PreparedDataset | None:
    """Return the version that is asked for, if it is one and is there."""
    if wanted.version is None or "*" in wanted.version:
        return None
    place = mirror
    for part in filter(None, wanted):
        place = place / part
    return None if place.read(INFO) is None else PreparedDataset(wanted, place)


def _listed(mirror: Folder, wanted: DatasetName) -> PreparedDataset | None:
    """Return the version that fits best, as the mirror's index says or as it lists its files."""
    home = mirror / wanted.name
    said = mirror.read_json(INDEX) if mirror.local is None else None
    configs = (said or {}).get("datasets", {}).get(wanted.name) or listed_versions(home)
    if not configs:
        return None
    config = wanted.config if wanted.config is not None else default_config(home, configs)
    versions = [Version.of(version) for version in configs.get(config, ())]
    try:
        version = str(resolve_version(wanted.version, versions, str(wanted)))
    except ValueError:
        return None  # another mirror, or a builder, may have it
    place = (home / config if config else home) / version
    return PreparedDataset(DatasetName(wanted.name, config or None, version), place)


def copy_prepared(found: PreparedDataset, data_dir: Path, *, overwrite: bool = False) -> Path:
    """Copy a version of a dataset from a mirror.

    Args:
        found: which one, and where it is.
        data_dir: the folder of datasets to copy to.
        overwrite: whether to replace a version that is there.
    """
    target = data_dir.joinpath(*filter(None, found.name))
    page = found.folder.read(INFO)
    if page is None:
        raise StorageError(f"{found.folder} has no {INFO} any more")
    _copy(found.folder, page, target, overwrite=overwrite)
    if (data_dir / INDEX).exists():
        write_index(data_dir)
    return target


def _copy(place: Folder, page: bytes, target: Path, *, overwrite: bool) -> None:
    """Copy all files of a version, and check that they hold what the info promises, before they get their names."""
    with building_folder(target, overwrite=overwrite) as folder:
        whole = folder / "whole"
        whole.mkdir(exist_ok=True)
        small: dict[str, bytes | None] = {INFO: page, FEATURES: place.read(FEATURES), METADATA: place.read(METADATA)}
        info = read_info(place)
        for path, labels in labels_in(info.features):
            if labels.named:
                small[labels_file(path)] = place.read(labels_file(path))
        for name, data in small.items():
            if data is not None:
                (whole / name).write_bytes(data)
        shards = [name for split in info.splits.values() for name in split.filenames(info.name, info.file_format)]
        _fetch_files(place, shards, whole, f"{info.full_name} from {place}")
        for split in info.splits.values():
            for name, rows in zip(split.filenames(info.name, info.file_format), split.shard_lengths, strict=True):
                _check_records(whole / name, rows, info.file_format, place)


def _check_records(path: Path, rows: int, file_format: str, place: Folder) -> None:
    """Raise if a file's records are damaged, or not as many as promised; it is fetched again next time."""
    if file_format != "tfrecord":
        return
    try:
        found = sum(map(len, TFRecordDataset(str(path)).batch(ROWS_PER_CHECK)))  # which checks each checksum
    except HeadraceError as error:
        path.unlink()
        raise StorageError(f"{show_path(place.file(path.name))} is corrupt: {error}") from error
    if found != rows:
        path.unlink()
        raise StorageError(f"{show_path(place.file(path.name))} has {found:,} rows, and {rows:,} were promised")


def _fetch_files(place: Folder, names: Sequence[str], folder: Path, title: str) -> None:
    if place.local is not None:
        import shutil

        for name in names:
            shutil.copyfile(place.local / name, folder / name)
        return
    options: Mapping[str, Any] | None = place.storage_options
    files = {name: SourceFile(place.file(name), storage_options=options, filename=name) for name in names}
    fetch_sources(files, folder, title=title)
