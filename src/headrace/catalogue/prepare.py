"""Public datasets that are not here yet: found by name, copied from a mirror that has them prepared, or built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.catalogue.download import is_offline
from headrace.catalogue.mirrors import PreparedDataset, copy_prepared, find_prepared
from headrace.core.types import Argument, StrPath
from headrace.options import Options
from headrace.plan.display import bytes_text
from headrace.storage.files import await_writer
from headrace.tfds.builder import PREPARE, ReadOnlyBuilder, builder_from_directory, data_directory
from headrace.tfds.files import Folder
from headrace.tfds.pipelines import local_folder
from headrace.tfds.versions import DatasetName, resolve_version
from headrace.tfds.writing import BeingBuiltError, name_default_config

if TYPE_CHECKING:
    from headrace.datasets.declare import PublicDataset

PUBLIC = "headrace.datasets.public"
"""The package that declares public datasets: it is above the catalogue, and is imported on first use."""


def public_names() -> list[str]:
    """Return the names of all public datasets."""
    found: list[str] = import_module(PUBLIC).public_names()
    return found


def public_datasets() -> Iterator[PublicDataset]:
    """Yield all public datasets, each of its configs apart."""
    module = import_module(PUBLIC)
    for name in module.public_names():
        yield from module.public_configs(name).values()


def full_name(dataset: PublicDataset) -> str:
    """Name and config."""
    return f"{dataset.name}/{dataset.config}" if dataset.config else dataset.name


def find_public(wanted: DatasetName) -> PublicDataset | None:
    """Return the public dataset that a name asks for, at the version requested; None if there is none of that name."""
    configs: dict[str | None, PublicDataset] = import_module(PUBLIC).public_configs(wanted.name)
    if not configs:
        return None
    config = wanted.config if wanted.config is not None else next(iter(configs))
    if config not in configs:
        there = ", ".join(sorted(filter(None, configs))) or "none"
        raise ValueError(f"{wanted.name} has no config {config!r}: there are {there}")
    found = configs[config]
    return found.at_version(resolve_version(wanted.version, found.versions, full_name(found)))


def not_here(dataset: PublicDataset, folder: Folder) -> str:
    """Say that a dataset has not been downloaded, how large it is, and what to do."""
    return (
        f"{full_name(dataset)} {dataset.version} is not in {folder}, and was not to be downloaded "
        f"({sizes_text(dataset)}): `headrace dataset build {full_name(dataset)}` does, or hr.load with download=True"
    )


def sizes_text(dataset: PublicDataset) -> str:
    """Return how much would be downloaded, and how much disk space is needed."""
    disk = f", about {bytes_text(dataset.disk_bytes)} on disk" if dataset.disk_bytes else ""
    return f"{bytes_text(dataset.download_bytes)} to download{disk}"


def prepare(
    dataset: PublicDataset, data_dir: StrPath | None = None, *, options: Options | None = None, **how: Argument
) -> ReadOnlyBuilder:
    """Prepare a public dataset in a local folder; if another process prepares it, wait for that.

    Args:
        dataset: which one.
        data_dir: the folder of datasets; TFDS's own by default.
        options: which mirrors may have it prepared.
        how: further arguments of `DatasetBuilder.build`.
    """
    folder = local_folder(data_directory(data_dir).path)
    found = find_prepared(DatasetName(dataset.name, dataset.config, dataset.version), options)

    def make() -> ReadOnlyBuilder:
        if found is None:
            return dataset.build(folder, **how)
        copied = copy_prepared(found, folder, overwrite=how.get("overwrite", False))
        if dataset.default_config is not None:
            name_default_config(folder / dataset.name, dataset.default_config)
        return builder_from_directory(copied)

    return _alone(make)


def fetch_prepared(found: PreparedDataset, data_dir: StrPath | None = None) -> ReadOnlyBuilder:
    """Copy a dataset of a mirror that no builder here makes; another process that copies it is waited for."""
    folder = local_folder(data_directory(data_dir).path)

    def make() -> ReadOnlyBuilder:
        copied = copy_prepared(found, folder)
        if found.name.config is not None and not (folder / found.name.name / ".config").exists():
            name_default_config(folder / found.name.name, found.name.config)
        return builder_from_directory(copied)

    return _alone(make)


def _alone(make: Callable[[], ReadOnlyBuilder]) -> ReadOnlyBuilder:
    """Make a dataset once no other process is making it."""
    while True:
        try:
            return make()
        except BeingBuiltError as error:
            with suppress(FileNotFoundError):  # it is done
                await_writer(error.folder)


def prepare_named(wanted: DatasetName, data_dir: StrPath) -> ReadOnlyBuilder | None:
    """Return a public dataset for `hr.tfds.load`; None if there is none of that name, or downloads are forbidden."""
    public = None if is_offline() else find_public(wanted)
    return None if public is None else prepare(public, data_dir)


PREPARE.append(prepare_named)
