"""Datasets by name, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.catalogue.builder import KNOWN
from headrace.catalogue.folders import catalogue_folders, find_in, folder_index
from headrace.catalogue.installed import INSTALLED, InstalledBuilder, installed_builder
from headrace.catalogue.lock import check_locked, lock_entry, read_lock, write_lock
from headrace.catalogue.prepare import find_public, full_name, not_here, prepare, public_datasets, public_names
from headrace.errors import what_there_is
from headrace.image.codecs import MAX_PIXELS
from headrace.tfds.builder import ReadOnlyBuilder, SplitBuilder
from headrace.tfds.versions import DatasetName, Version, parse_name, resolve_version


def load_named(
    name: str,
    *,
    split: Any = None,
    data_dir: Any = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    seed: int | None = None,
    as_supervised: bool = False,
    decoders: Any = None,
    with_info: bool = False,
    order: str = "tfds",
    max_pixels: int | None = MAX_PIXELS,
    storage_options: Mapping[str, Any] | None = None,
    download: bool = True,
) -> Any:
    """The elements of a dataset by its name: `mnist`, `team/big:1.*.*`; the arguments are those of `hr.tfds.load`.

    It is looked for in the folders that were added (`hr.catalogue.add`), in TFDS's own, and among those that come with
    installed packages (scikit-learn's). A public dataset that is in none of them (`hr.catalogue.list_datasets()` names
    them, `headrace dataset info NAME` tells their size) is downloaded and prepared in `data_dir` the first time, unless
    `download` is False or HEADRACE_OFFLINE is set. Where the project has a `headrace.lock` that names the dataset, the
    version is the one locked, and other files are refused.

    >>> ds = hr.load("digits", split="train[:80%]", as_supervised=True)
    >>> image, label = ds[0]
    >>> image.shape, label, len(ds)
    ((8, 8, 1), np.int64(0), 1438)
    """
    found = find_builder(name, data_dir=data_dir, storage_options=storage_options, download=download)
    made = found.as_dataset(
        split, batch_size=batch_size, shuffle_files=shuffle_files, seed=seed, decoders=decoders,
        as_supervised=as_supervised, order=order, max_pixels=max_pixels,
    )  # fmt: skip
    return (made, found.info) if with_info else made


def find_builder(
    name: str,
    *,
    data_dir: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    locked: bool = True,
    download: bool = False,
) -> SplitBuilder:
    """What reads the dataset of a name; with `download`, a public one that is not here yet is prepared first."""
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
    public = find_public(wanted)
    if public is not None:
        if not download:
            raise FileNotFoundError(not_here(public, folders[-1]))
        prepared = prepare(public, data_dir)
        if entry is not None:
            check_locked(prepared, entry)
        return prepared
    if missed:
        raise missed[0]
    raise _unknown(wanted, [str(folder) for folder in folders], data_dir)


def _installed(wanted: DatasetName, missed: list[ValueError]) -> InstalledBuilder:
    if wanted.config is not None:
        raise missed[0] if missed else ValueError(f"{wanted.name} has no configs")
    found = installed_builder(wanted.name)
    resolve_version(wanted.version, [found.info.version], wanted.name)
    return found


def _unknown(wanted: DatasetName, folders: list[str], data_dir: Any) -> Exception:
    where = ", ".join(folders)
    if wanted.name in KNOWN:
        return FileNotFoundError(f"{wanted.name} has not been built in {where}: call its build()")
    known = [*list_datasets(data_dir=data_dir), *public_names()]
    return FileNotFoundError(f"there is no dataset {wanted.name!r} in {where}: {what_there_is(wanted.name, known)}")


def list_datasets(*, data_dir: Any = None) -> dict[str, list[str]]:
    """The datasets that `hr.load` finds, with their versions; of a `data_dir`, those that are in it.

    Public datasets that have not been downloaded are among them.

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


def search(text: str, *, data_dir: Any = None) -> list[str]:
    """The names of datasets with all words of a text in their name or description.

    >>> hr.catalogue.search("flowers")
    ['iris', 'oxford_flowers102', 'tf_flowers']
    """
    about = {name: name for name in list_datasets(data_dir=data_dir)}
    for each in public_datasets():
        if full_name(each) in about:
            about[full_name(each)] += f" {each.description} {each.config_description}"
    words = text.lower().split()
    return [name for name, said in about.items() if all(word in said.lower() for word in words)]


def lock_dataset(name: str, *, data_dir: Any = None) -> str:
    """Pin the version that a name means now, and the checksums of its files, in the project's `headrace.lock`.

    >>> _ = hr.Dataset.range(3).map(lambda x: {"x": x}).write_tfds(folder, "three")
    >>> import os
    >>> os.environ["HEADRACE_LOCK"] = str(folder / "headrace.lock")
    >>> hr.catalogue.lock_dataset("three", data_dir=folder)
    'three:1.0.0'
    >>> del os.environ["HEADRACE_LOCK"]
    """
    wanted = parse_name(name)
    found = find_builder(name, data_dir=data_dir, locked=False)
    if not isinstance(found, ReadOnlyBuilder):
        raise ValueError(f"{wanted.name} comes with scikit-learn, whose version your requirements pin")
    write_lock(str(wanted._replace(version=None)), lock_entry(found))
    return f"{wanted._replace(version=str(found.version))}"
