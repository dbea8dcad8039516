"""Datasets in a data directory, by name and version."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core.types import Nested, StrPath
from headrace.errors import StorageError, what_there_is
from headrace.image.codecs import MAX_PIXELS
from headrace.tfds.files import Folder
from headrace.tfds.habits import ReadConfig
from headrace.tfds.info import DatasetInfo, read_info
from headrace.tfds.reading import read_part
from headrace.tfds.splits import SplitLike
from headrace.tfds.versions import DatasetName, Version, parse_name, resolve_version

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.tfds.splits import SplitLike

PUBLIC_BUCKET = "gs://tfds-data/datasets"

Prepare = Callable[[DatasetName, Any], "ReadOnlyBuilder | None"]
PREPARE: list[Prepare] = []
"""What makes a dataset that is in no folder yet, given its name and the data directory; the catalogue adds it."""


class SplitBuilder(ABC):
    """A builder with splits: `info` lists them, `as_dataset` reads them."""

    info: DatasetInfo

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.full_name!r})"

    def as_dataset(
        self,
        split: SplitLike = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        seed: int | None = None,
        decoders: Nested = None,
        as_supervised: bool = False,
        order: str = "tfds",
        max_pixels: int | None = MAX_PIXELS,
        read_config: ReadConfig | None = None,
    ) -> Nested:
        """Return the elements of a split; of all splits as a dict if none is named, of several in the
        structure given.
        """
        if read_config is not None:
            seed = read_config.shuffle_seed if seed is None else seed
            order = read_config.order() if order == "tfds" else order
        if split is None:
            split = {name: name for name in self.info.splits}
        if isinstance(split, Mapping | list | tuple):
            again = partial(
                self.as_dataset, batch_size=batch_size, shuffle_files=shuffle_files, seed=seed, decoders=decoders,
                as_supervised=as_supervised, order=order, max_pixels=max_pixels, read_config=read_config,
            )  # fmt: skip
            if isinstance(split, Mapping):
                return {name: again(part) for name, part in split.items()}
            return type(split)(map(again, split))
        keys = self._supervised_keys() if as_supervised else None
        ds = self.read_split(
            split, decoders=decoders, keys=keys, shuffle_files=shuffle_files, seed=seed, order=order,
            max_pixels=max_pixels,
        )  # fmt: skip
        if read_config is not None and read_config.options is not None:
            ds = ds.with_options(read_config.options)
        return ds if batch_size is None else in_batches(ds, batch_size)

    def as_data_source(self, split: SplitLike = None, *, decoders: Nested = None, **_: object) -> Nested:
        """Return the elements of a split by number: a dataset with `len` and `ds[i]`, in the order of the files."""
        return self.as_dataset(split, decoders=decoders, order="file")

    def download_and_prepare(self, **_: object) -> None:  # noqa: B027 - there is nothing to do
        """Do nothing: what can be read is prepared, and nothing is ever downloaded."""

    @abstractmethod
    def read_split(
        self,
        split: SplitLike,
        *,
        decoders: Nested,
        keys: object,
        shuffle_files: bool,
        seed: int | None,
        order: str,
        max_pixels: int | None,
    ) -> Dataset:
        """Return the elements of one split, or of `keys` of them."""

    def _supervised_keys(self) -> Nested:
        keys = self.info.supervised_keys
        if keys is None:
            raise ValueError(
                f"{self.info.full_name} does not say what is input and what is label: "
                "load it without as_supervised and choose in map"
            )
        return keys


class ReadOnlyBuilder(SplitBuilder):
    """One version of a prepared dataset: `info` describes it, `as_dataset` reads it.

    Args:
        folder: Folder of the prepared dataset.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> builder = hr.tfds.builder("pairs:1.*.*", data_dir=folder)
    >>> builder
    ReadOnlyBuilder('pairs/1.0.0')
    >>> len(builder.as_dataset(split="train[:25%]"))
    5
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.info: DatasetInfo = read_info(folder)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.info.name

    @property
    def version(self) -> Version:
        """Its version."""
        return self.info.version

    @property
    def data_path(self) -> str:
        """The directory."""
        return self._folder.path

    def read_split(
        self,
        split: SplitLike,
        *,
        decoders: Nested,
        keys: Nested,
        shuffle_files: bool,
        seed: int | None,
        order: str,
        max_pixels: int | None,
    ) -> Dataset:
        return read_part(
            self.info, split, decoders=decoders, keys=keys, shuffle_files=shuffle_files, seed=seed, order=order,
            max_pixels=max_pixels, storage_options=self._folder.storage_options,
        )  # fmt: skip


def in_batches(ds: Dataset, size: int) -> Nested:
    """Batch, padded with zeros if rows differ in size; with -1, all rows as one element."""
    if size == -1:
        count = len(ds)
        if not count:
            raise ValueError("batch_size=-1 of no rows at all")
        return in_batches(ds, count).get_single_element()
    spec = ds._node.spec
    if not any(leaf.shape is None or None in leaf.shape for leaf in spec.leaves):
        return ds.batch(size)
    empty = [b"" if leaf.dtype is not None and leaf.dtype.kind == "S" else None for leaf in spec.leaves]
    return ds.padded_batch(size, padding_values=spec.structure.pack(empty) if spec.structure else None)


def data_directory(data_dir: StrPath | None = None, storage_options: Mapping[str, object] | None = None) -> Folder:
    """Return the directory of datasets: as given, from TFDS_DATA_DIR, or `~/tensorflow_datasets`."""
    return Folder(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets", storage_options)


def builder(
    name: str,
    *,
    data_dir: StrPath | None = None,
    config: str | None = None,
    version: str | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> ReadOnlyBuilder:
    """Open a prepared dataset by its name, such as `mnist`, `glue/cola` or `mnist:3.*.*`.

    It is stored in `data_dir`, a path or URL, by default TFDS's directory (`TFDS_DATA_DIR`, or
    `~/tensorflow_datasets`). Without a version it is the highest one; without a config, the default one. Nothing is
    ever downloaded.

    Args:
        name: Name of the dataset.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.
        config: Name of the configuration.
        version: Version of the dataset.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> hr.tfds.builder("pairs", data_dir=folder).version
    Version(major=1, minor=0, patch=0)
    """
    wanted = parse_name(name)
    wanted = DatasetName(wanted.name, config or wanted.config, version or wanted.version)
    return ReadOnlyBuilder(find_version(data_directory(data_dir, storage_options), wanted))


def find_version(data: Folder, wanted: DatasetName) -> Folder:
    """Return the directory of what a name asks for."""
    home = data / wanted.name
    names = home.names()
    if not names:
        known = [name for name, size in data.names().items() if size is None and not name.startswith(".")]
        raise FileNotFoundError(f"there is no dataset {wanted.name!r} in {data}: {what_there_is(wanted.name, known)}")
    configs = [name for name, size in names.items() if size is None and not _is_version(name) and name[0] != "."]
    if wanted.config is not None:
        if wanted.config not in configs:
            raise ValueError(
                f"{wanted.name} has no config {wanted.config!r}: {what_there_is(wanted.config, sorted(configs))}"
            )
        home = home / wanted.config
    elif not any(map(_is_version, names)) and configs:
        home = home / _default_config(home, configs)
    names = home.names()
    versions = [Version.of(name) for name, size in names.items() if size is None and _is_version(name)]
    unfinished = sorted(name for name in names if ".incomplete" in name)
    if not versions and unfinished:
        raise StorageError(f"{home} is being written, or its writer was stopped: there is nothing but {unfinished[0]}")
    return home / str(resolve_version(wanted.version, versions, str(wanted._replace(version=None))))


def _default_config(home: Folder, configs: Sequence[str]) -> str:
    default = home.read_object(".config/metadata.json").get("default_config_name")
    if isinstance(default, str) and default in configs:
        return str(default)
    if len(configs) == 1:
        return configs[0]
    raise ValueError(
        f"{home.name} has several configs, and none is the default: write {home.name}/{sorted(configs)[0]} "
        f"or another ({', '.join(sorted(configs))})"
    )


def _is_version(name: str) -> bool:
    try:
        Version.of(name)
    except ValueError:
        return False
    return True


def builder_from_directory(
    builder_dir: StrPath, *, storage_options: Mapping[str, object] | None = None
) -> ReadOnlyBuilder:
    """Open the dataset of one directory, which contains its `dataset_info.json`.

    Args:
        builder_dir: Folder of the prepared dataset.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> hr.tfds.builder_from_directory(folder / "pairs/1.0.0").name
    'pairs'
    """
    return ReadOnlyBuilder(Folder(builder_dir, storage_options))


def data_source(
    name: str, *, split: SplitLike = None, data_dir: StrPath | None = None, decoders: Nested = None, **_: object
) -> Nested:
    """Return the elements of a prepared dataset by number: datasets with `len` and `ds[i]`.

    Args:
        name: Name of the dataset.
        split: Split in TFDS's notation, such as `train[:80%]`; None returns a dict of all splits.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.
        decoders: How to decode features, such as `SkipDecoding()`, by name.
        **_: Other arguments of TFDS are ignored.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x})
    >>> _ = ds.write_tfds(folder, "numbers")
    >>> hr.tfds.data_source("numbers", split="train", data_dir=folder)[3]
    {'x': np.int64(3)}
    """
    return builder(name, data_dir=data_dir).as_data_source(split, decoders=decoders)


def list_builders(*, data_dir: StrPath | None = None, storage_options: Mapping[str, object] | None = None) -> list[str]:
    """Return the names of the datasets in a data directory.

    Args:
        data_dir: Folder with prepared datasets.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> hr.tfds.list_builders(data_dir=folder)
    ['pairs']
    """
    data = data_directory(data_dir, storage_options)
    names = [name for name, size in data.names().items() if size is None and not name.startswith(".")]
    return sorted(name for name in names if list_versions(data / name))


def list_versions(home: Folder) -> dict[str | None, list[Version]]:
    """Return the versions of a dataset, by config; None if it has none."""
    names = [name for name, size in home.names().items() if size is None and not name.startswith(".")]
    found: dict[str | None, list[Version]] = {}
    own = sorted(Version.of(name) for name in names if _is_version(name))
    if own:
        found[None] = own
    for config in sorted(name for name in names if not _is_version(name)):
        versions = sorted(Version.of(name) for name in (home / config).names() if _is_version(name))
        if versions:
            found[config] = versions
    return found


def _prepared(wanted: DatasetName, data_dir: StrPath | None, how: Mapping[str, Any]) -> ReadOnlyBuilder | None:
    """Return a public dataset that is downloaded and prepared now; None if there is none of that name."""
    folder = data_directory(data_dir)
    if folder.local is None:
        return None
    wanted = DatasetName(wanted.name, how.get("config") or wanted.config, how.get("version") or wanted.version)
    return next((made for prepare in PREPARE if (made := prepare(wanted, folder.path)) is not None), None)


def load_prepared(
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
    read_config: ReadConfig | None = None,
    try_gcs: bool = False,
    download: bool = True,
    builder_kwargs: Mapping[str, Any] | None = None,
    download_and_prepare_kwargs: Mapping[str, Any] | None = None,  # noqa: ARG001
    as_dataset_kwargs: Mapping[str, Any] | None = None,
) -> Nested:
    """Load a prepared TFDS dataset like `tfds.load`, without TensorFlow.

    `split` is in TFDS's language (`train`, `train[:80%]`, `train[10:20]+test`, `all`, a ReadInstruction, or a list or
    dict of these); None gives a dict of all splits. `as_supervised` gives pairs of input and label, `with_info` the
    DatasetInfo too. `decoders` choose what is left encoded (SkipDecoding) and what is read at all (PartialDecoding).
    Rows come in the order in which TFDS gives them; `order="file"` gives that of the files, in which `train[:30]` is
    what `take(30)` is. In both, `ds[i]` and `ds.shuffle()` of everything work. With `shuffle_files` the files come in
    another order in each epoch, drawn from `seed`. A picture of unknown size is an error if it has more than
    `max_pixels`; None allows any. With `try_gcs`, a missing dataset is read from TFDS's public bucket. A public
    dataset that is missing (see `hr.load`) is downloaded and prepared, unless `download` is False or HEADRACE_OFFLINE
    is set. `download_and_prepare_kwargs` are accepted and ignored.

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
        read_config: How to read, as an `hr.tfds.ReadConfig`.
        try_gcs: Whether to look in TFDS's public bucket.
        download: Whether a public dataset that is missing is downloaded and prepared.
        builder_kwargs: Arguments for the builder.
        download_and_prepare_kwargs: Accepted and ignored.
        as_dataset_kwargs: Further arguments, as `tfds.load` takes them.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> ds = hr.tfds.load("pairs", split="train[50%:]", data_dir=folder, as_supervised=True)
    >>> len(ds), ds[0]
    (10, (np.int64(10), np.int64(0)))
    """
    how = dict(builder_kwargs or {})
    try:
        found = builder(name, data_dir=data_dir, storage_options=storage_options, **how)
    except FileNotFoundError:
        if try_gcs:
            found = builder(name, data_dir=PUBLIC_BUCKET, storage_options=storage_options or {"token": "anon"}, **how)
        else:
            made = _prepared(parse_name(name), data_dir, how) if download else None
            if made is None:
                raise
            found = made
    wanted: dict[str, Any] = {
        "batch_size": batch_size, "shuffle_files": shuffle_files, "seed": seed, "decoders": decoders,
        "as_supervised": as_supervised, "order": order, "max_pixels": max_pixels, "read_config": read_config,
        **(as_dataset_kwargs or {}),
    }  # fmt: skip
    made = found.as_dataset(split, **wanted)
    return (made, found.info) if with_info else made
