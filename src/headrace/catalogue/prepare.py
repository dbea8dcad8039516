"""Public datasets that are not here yet: found by name, copied from a mirror that has them prepared, or built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.catalogue.mirrors import copy_prepared
from headrace.plan.display import bytes_text
from headrace.storage.files import await_writer
from headrace.tfds.builder import ReadOnlyBuilder, builder_from_directory, data_directory
from headrace.tfds.files import Folder
from headrace.tfds.pipelines import local_folder
from headrace.tfds.versions import DatasetName, resolve_version
from headrace.tfds.writing import BeingBuiltError, name_default_config

if TYPE_CHECKING:
    from headrace.datasets.declare import PublicDataset

PUBLIC = "headrace.datasets.public"
"""What declares public datasets: it stands above the catalogue, and is imported when a name asks for it."""


def public_names() -> list[str]:
    """The names of all public datasets."""
    found: list[str] = import_module(PUBLIC).public_names()
    return found


def public_datasets() -> Iterator[PublicDataset]:
    """All public datasets, each of its configs apart."""
    module = import_module(PUBLIC)
    for name in module.public_names():
        yield from module.public_configs(name).values()


def full_name(dataset: PublicDataset) -> str:
    """Name and config."""
    return f"{dataset.name}/{dataset.config}" if dataset.config else dataset.name


def find_public(wanted: DatasetName) -> PublicDataset | None:
    """The public dataset that a name asks for, at the version asked for; None if there is none of that name."""
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
    """How much would be downloaded, and lie on the disk."""
    disk = f", about {bytes_text(dataset.disk_bytes)} on disk" if dataset.disk_bytes else ""
    return f"{bytes_text(dataset.download_bytes)} to download{disk}"


def prepare(dataset: PublicDataset, data_dir: Any = None, **how: Any) -> ReadOnlyBuilder:
    """Have a public dataset in a folder of this machine; another process that prepares it is waited for.

    Args:
        dataset: which one.
        data_dir: the folder of datasets; TFDS's own by default.
        how: further arguments of `DatasetBuilder.build`.
    """
    folder = local_folder(data_directory(data_dir).path)
    name = DatasetName(dataset.name, dataset.config, dataset.version)
    while True:
        try:
            copied = copy_prepared(name, folder, overwrite=how.get("overwrite", False))
            if copied is None:
                return dataset.build(folder, **how)
            if dataset.default_config is not None:
                name_default_config(folder / dataset.name, dataset.default_config)
            return builder_from_directory(copied)
        except BeingBuiltError as error:
            with suppress(FileNotFoundError):  # it is done
                await_writer(error.folder)
