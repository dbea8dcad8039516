"""Datasets by name, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.catalogue import huggingface, openml
from headrace.catalogue.builder import KNOWN
from headrace.catalogue.folders import catalogue_folders, find_in, folder_index
from headrace.catalogue.installed import INSTALLED, InstalledBuilder, installed_builder
from headrace.catalogue.lock import check_locked, lock_entry, read_lock, write_lock
from headrace.catalogue.mirrors import find_prepared
from headrace.catalogue.prepare import (
    fetch_prepared,
    find_public,
    full_name,
    not_here,
    prepare,
    public_datasets,
    public_names,
)
from headrace.core.types import Nested, StrPath
from headrace.errors import what_there_is
from headrace.image.codecs import MAX_PIXELS
from headrace.options import Options
from headrace.tfds.builder import ReadOnlyBuilder, SplitBuilder, data_directory
from headrace.tfds.habits import ReadConfig
from headrace.tfds.pipelines import local_folder
from headrace.tfds.splits import SplitLike
from headrace.tfds.versions import DatasetName, Version, parse_name, resolve_version

if TYPE_CHECKING:
    from headrace.tfds.splits import SplitLike


def load_named(
    name: str,
    *,
    split: SplitLike = None,
    data_dir: StrPath | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    seed: int | None = None,
    as_supervised: bool = False,
    decoders: Nested = None,
    with_info: bool = False,
    order: str = "tfds",
    max_pixels: int | None = MAX_PIXELS,
    storage_options: Mapping[str, object] | None = None,
    download: bool = True,
    options: Options | None = None,
) -> Nested:
    """Load a dataset by its name: `mnist`, `team/big:1.*.*`; the arguments are those of `hr.tfds.load`.

    It is looked for in the folders that were added (`hr.catalogue.add`), in TFDS's own, and among those that come with
    installed packages (scikit-learn's). `hf:owner/name` and `hf:owner/name/config` are datasets of the Hugging Face
    hub, `openml:40945` one of OpenML: their files are downloaded the first time.

    A public dataset that is in none of these places (`hr.catalogue.list_datasets()` names them, `headrace dataset info
    NAME` tells their size) is downloaded and prepared in `data_dir` the first time, unless `download` is False or
    HEADRACE_OFFLINE is set. Mirrors (`options=hr.Options(catalogue_mirrors=[URL])`, or the environment's
    HEADRACE_MIRRORS) have datasets prepared: these are copied, or with `download=False` read in place. If the project
    has a `headrace.lock` that names the dataset, the version is the one locked, and other files are refused.

    Args:
        name: Name of the dataset, with an optional configuration and version: `mnist:3.*.*`.
        split: Split in TFDS's notation, such as `train[:80%]`; None returns a dict of all splits.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.
        batch_size: Number of elements in a batch; -1 for one batch of all. Default: no batches.
        shuffle_files: Whether to read the files in another order in each epoch.
        seed: Seed of the random draws. Default: `hr.set_random_seed`'s, else another one in each run.
        as_supervised: Whether elements are pairs (input, label) instead of dicts.
        decoders: How to decode features, such as `SkipDecoding()`, by name.
        with_info: Whether to return the `DatasetInfo` as well.
        order: "tfds" for the order of TensorFlow Datasets, "file" for the order of the files.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        download: Whether a dataset that is not there may be downloaded.
        options: Further mirrors of prepared datasets, and their credentials.

    >>> ds = hr.load("digits", split="train[:80%]", as_supervised=True)
    >>> image, label = ds[0]
    >>> image.shape, label, len(ds)
    ((8, 8, 1), np.int64(0), 1438)
    """
    found = find_builder(name, data_dir=data_dir, storage_options=storage_options, download=download, options=options)
    made = found.as_dataset(
        split, batch_size=batch_size, shuffle_files=shuffle_files, seed=seed, decoders=decoders,
        as_supervised=as_supervised, order=order, max_pixels=max_pixels,
        read_config=None if options is None else ReadConfig(options=options),
    )  # fmt: skip
    return (made, found.info) if with_info else made


def find_builder(
    name: str,
    *,
    data_dir: StrPath | None = None,
    storage_options: Mapping[str, object] | None = None,
    locked: bool = True,
    download: bool = False,
    options: Options | None = None,
) -> SplitBuilder:
    """Return what reads the dataset of a name.

    Args:
        name: Name of the dataset, with an optional config and version.
        data_dir: Folder with prepared datasets. Default: those of the catalogue.
        storage_options: Options of the file system of `data_dir`, such as credentials; see `hr.Options`.
        locked: Whether the project's `headrace.lock` is respected.
        download: Whether a dataset that is not here is prepared, or copied from a mirror. Without it, mirrors are read
            in place.
        options: Further mirrors of prepared datasets, and their credentials.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a dataset is a string, such as 'mnist', not {name!r}")
    if is_of_a_hub(name):
        find = openml.openml_builder if name.startswith(openml.PREFIX) else huggingface.hub_builder
        return find(name, local_folder(data_directory(data_dir).path), download=download)
    wanted = parse_name(name)
    entry = read_lock().get(str(wanted._replace(version=None))) if locked else None
    if entry is not None:
        resolve_version(wanted.version, [Version.of(entry["version"])], f"{wanted.name} in headrace.lock")
        wanted = wanted._replace(version=entry["version"])
    folders = catalogue_folders(data_dir, storage_options)
    missed: list[ValueError] = []
    for folder in folders:
        try:
            place = find_in(folder, wanted)
        except ValueError as error:
            missed.append(error)  # another folder may have that version
            continue
        if place is not None:
            found = ReadOnlyBuilder(place)
            if entry is not None:
                check_locked(found, entry)
            return found
    if wanted.name in INSTALLED and data_dir is None:
        try:
            return _installed(wanted, missed)
        except ValueError as error:
            missed.append(error)  # a public one may have that version
    elsewhere = _not_in_folders(wanted, data_dir, download=download, options=options)
    if elsewhere is not None:
        if entry is not None:
            check_locked(elsewhere, entry)
        return elsewhere
    if missed:
        raise missed[0]
    raise _unknown(wanted, [str(folder) for folder in folders], data_dir)


def is_of_a_hub(name: str) -> bool:
    """Return whether a name is one of the Hugging Face hub or of OpenML."""
    return name.startswith((huggingface.PREFIX, openml.PREFIX))


def hub_downloads(name: str, data_dir: Path) -> Path:
    """Return the folder of all that is downloaded for a name of a hub."""
    folder = openml.openml_folder if name.startswith(openml.PREFIX) else huggingface.hub_folder
    return folder(name, data_dir)


def _not_in_folders(
    wanted: DatasetName, data_dir: StrPath | None, *, download: bool, options: Options | None
) -> ReadOnlyBuilder | None:
    """Return a dataset of a mirror, or a public one, made here or read in place; None if there is none."""
    public = find_public(wanted)
    if public is not None and download:
        return prepare(public, data_dir, options=options)
    exact = wanted if public is None else DatasetName(public.name, public.config, public.version)
    mirrored = find_prepared(exact, options)
    if mirrored is not None:
        return fetch_prepared(mirrored, data_dir) if download else ReadOnlyBuilder(mirrored.folder)
    if public is not None:
        raise FileNotFoundError(not_here(public, catalogue_folders(data_dir)[-1]))
    return None


def _installed(wanted: DatasetName, missed: list[ValueError]) -> InstalledBuilder:
    if wanted.config is not None:
        raise missed[0] if missed else ValueError(f"{wanted.name} has no configs")
    found = installed_builder(wanted.name)
    resolve_version(wanted.version, [found.info.version], wanted.name)
    return found


def _unknown(wanted: DatasetName, folders: list[str], data_dir: StrPath | None) -> Exception:
    where = ", ".join(folders)
    if wanted.name in KNOWN:
        return FileNotFoundError(f"{wanted.name} has not been built in {where}: call its build()")
    known = [*list_datasets(data_dir=data_dir), *public_names()]
    return FileNotFoundError(f"there is no dataset {wanted.name!r} in {where}: {what_there_is(wanted.name, known)}")


def list_datasets(*, data_dir: StrPath | None = None) -> dict[str, list[str]]:
    """Return the datasets that `hr.load` finds, with their versions; of a `data_dir`, those that are in it.

    Public datasets that have not been downloaded are among them.

    Args:
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.

    >>> hr.catalogue.list_datasets()["digits"]
    ['1.0.0']
    >>> "mnist" in hr.catalogue.list_datasets()
    True
    """
    found: dict[str, set[Version]] = {}
    for folder in catalogue_folders(data_dir):
        for name, configs in folder_index(folder).items():
            for config, versions in configs.items():
                found.setdefault(f"{name}/{config}" if config else name, set()).update(map(Version.of, versions))
    if data_dir is None:
        for name in INSTALLED:
            if name not in found:
                found[name] = {Version(1, 0, 0)}
        for each in public_datasets():
            found.setdefault(full_name(each), set()).add(Version.of(each.version))
    return {name: [str(version) for version in sorted(found[name])] for name in sorted(found)}


def search(text: str, *, data_dir: StrPath | None = None) -> list[str]:
    """Return the names of datasets with all words of a text in their name or description.

    Args:
        text: Words to look for.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.

    >>> hr.catalogue.search("flowers")
    ['iris', 'oxford_flowers102', 'tf_flowers']
    """
    about = {name: name for name in list_datasets(data_dir=data_dir)}
    for each in public_datasets():
        if full_name(each) in about:
            about[full_name(each)] += f" {each.description} {each.config_description}"
    words = text.lower().split()
    return [name for name, said in about.items() if all(word in said.lower() for word in words)]


def lock_dataset(name: str, *, data_dir: StrPath | None = None) -> str:
    """Pin the version that a name means now, and the checksums of its files, in the project's `headrace.lock`.

    Args:
        name: Name of the dataset, with an optional version.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.

    >>> _ = hr.Dataset.range(3).map(lambda x: {"x": x}).write_tfds(folder, "three")
    >>> import os
    >>> os.environ["HEADRACE_LOCK"] = str(folder / "headrace.lock")
    >>> hr.catalogue.lock_dataset("three", data_dir=folder)
    'three:1.0.0'
    >>> del os.environ["HEADRACE_LOCK"]
    """
    if name.startswith((huggingface.PREFIX, openml.PREFIX)):
        raise ValueError(f"{name} has no versions to pin: its files stay as they were at the first load")
    wanted = parse_name(name)
    found = find_builder(name, data_dir=data_dir, locked=False)
    if not isinstance(found, ReadOnlyBuilder):
        raise ValueError(f"{wanted.name} comes with scikit-learn, whose version your requirements pin")
    write_lock(str(wanted._replace(version=None)), lock_entry(found))
    return f"{wanted._replace(version=str(found.version))}"
