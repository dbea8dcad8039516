"""Prepared datasets in buckets and on web servers, in TFDS's layout: copied instead of built."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.catalogue.download import is_offline
from headrace.catalogue.folders import INDEX, write_index
from headrace.catalogue.sources import SourceFile, fetch_sources
from headrace.errors import HeadraceError, StorageError, TransportError
from headrace.sources.tfrecord import TFRecordDataset
from headrace.tfds.feature import FEATURES, labels_file, labels_in
from headrace.tfds.files import Folder
from headrace.tfds.info import INFO, read_info
from headrace.tfds.versions import DatasetName
from headrace.tfds.writing import building_folder

log = logging.getLogger("headrace")

VARIABLE = "HEADRACE_MIRRORS"
METADATA = "metadata.json"
ROWS_AT_ONCE = 1024


def mirror_folders() -> list[Folder]:
    """The mirrors that HEADRACE_MIRRORS names, one a line or with semicolons between."""
    named = os.environ.get(VARIABLE, "").replace("\n", ";").split(";")
    return [Folder(path.strip()) for path in named if path.strip()]


def copy_prepared(name: DatasetName, data_dir: Path, *, overwrite: bool = False) -> Path | None:
    """Copy a version of a dataset from the first mirror that has it; None if none has.

    Args:
        name: name, config and version, all of them known.
        data_dir: the folder of datasets to copy to.
        overwrite: whether to replace a version that is there.
    """
    if is_offline():
        return None
    parts = [name.name, *filter(None, [name.config]), str(name.version)]
    target = data_dir.joinpath(*parts)
    for mirror in mirror_folders():
        place = mirror
        for part in parts:
            place = place / part
        try:
            page = place.read(INFO)
        except (OSError, TransportError) as error:
            log.warning("mirror %s: %s", mirror, error)
            continue
        if page is not None:
            _copy(place, page, target, overwrite=overwrite)
            if (data_dir / INDEX).exists():
                write_index(data_dir)
            return target
    return None


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
    """Refuse a file whose records are damaged, or are not as many as promised; it is fetched again next time."""
    if file_format != "tfrecord":
        return
    try:
        found = sum(map(len, TFRecordDataset(str(path)).batch(ROWS_AT_ONCE)))  # which checks each checksum
    except HeadraceError as error:
        path.unlink()
        raise StorageError(f"{place.file(path.name)} is corrupt: {error}") from error
    if found != rows:
        path.unlink()
        raise StorageError(f"{place.file(path.name)} has {found:,} rows, and {rows:,} were promised")


def _fetch_files(place: Folder, names: Sequence[str], folder: Path, title: str) -> None:
    if place.local is not None:
        import shutil

        for name in names:
            shutil.copyfile(place.local / name, folder / name)
        return
    options: Mapping[str, Any] | None = place.storage_options
    files = {name: SourceFile(place.file(name), storage_options=options, filename=name) for name in names}
    fetch_sources(files, folder, title=title)
