"""Datasets of the Hugging Face hub by name: `hr.load("hf:owner/name", split="train")`.

The hub keeps a Parquet version of each dataset on a branch of its own. These files are downloaded once, verified by the
sizes and checksums that the hub lists, and read where they are.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from headrace.catalogue.sources import SourceFile, fetch_source, fetch_sources
from headrace.core.types import AnyFunction, JsonObject, JsonValue, LibraryObject, Nested
from headrace.dataset import Dataset
from headrace.errors import PipelineWarning, StorageError, what_there_is
from headrace.formats.tables.source import ParquetDataset
from headrace.image.decode import decode_image
from headrace.plan.node import stack_level
from headrace.tfds.builder import SplitBuilder
from headrace.tfds.decode import PartialDecoding, SkipDecoding, choose_features, choose_keys
from headrace.tfds.feature import ClassLabel, FeatureConnector, FeaturesDict, Image, Scalar, SequenceFeature, Text
from headrace.tfds.info import DatasetInfo, SplitInfo, Splits
from headrace.tfds.splits import SplitLike, as_split
from headrace.tfds.versions import Version

if TYPE_CHECKING:
    from headrace.tfds.splits import SplitLike

PREFIX = "hf:"
ENDPOINT = "https://huggingface.co"
BRANCH = "refs%2Fconvert%2Fparquet"
LISTING = "parquet.json"
_NAME = re.compile(r"hf:(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:/(?P<config>[^/\s]+))?")
INPUTS = ("image", "img", "text", "sentence", "content")
TARGETS = ("label", "labels", "target")


def hub_builder(name: str, data_dir: Path, *, download: bool = True) -> HubBuilder:
    """Return what reads a dataset of the hub; its files are downloaded the first time, and stay as they were then.

    Args:
        name: `hf:owner/name`, or `hf:owner/name/config`.
        data_dir: the folder of datasets, below which downloads lie.
        download: whether files that are not here may be downloaded.
    """
    found = _parsed(name)
    repository: str = found["repository"]
    folder = hub_folder(name, data_dir)
    if not download:
        _check_here(name, folder, [LISTING])
    endpoint = os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")
    home = f"{endpoint}/api/datasets/{repository}"
    files: dict[str, dict[str, list[str]]] = _listing(f"{home}/parquet", folder, LISTING, dict)
    config = found["config"] or _default_config(files, repository)
    if config not in files:
        raise ValueError(f"{repository} has no config {config!r}: {what_there_is(config, sorted(files))}")
    if not download:
        _check_here(
            name, folder, [_file_name(s, n, url) for s, urls in files[config].items() for n, url in enumerate(urls)]
        )
    try:
        known = _known_files(files[config], f"{home}/tree/{BRANCH}", folder)
        here = fetch_sources(_sources(files[config], known), folder, title=name)
    except StorageError:
        for listing in folder.glob("*.json"):  # the files may be others by now: list them anew next time
            listing.unlink(missing_ok=True)
        raise
    splits = {split: [here[f"{split}/{i}"] for i in range(len(urls))] for split, urls in files[config].items()}
    return HubBuilder(repository, config if len(files) > 1 else None, splits)


def hub_folder(name: str, data_dir: Path) -> Path:
    """Return the folder of all that is downloaded of a dataset of the hub."""
    return data_dir / "downloads" / "huggingface" / _parsed(name)["repository"].replace("/", "--")


def _parsed(name: str) -> re.Match[str]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} names no dataset of the hub: write hf:owner/name or hf:owner/name/config")
    return found


def _check_here(name: str, folder: Path, files: Iterable[str]) -> None:
    """Raise if one of these files would have to be downloaded."""
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise FileNotFoundError(
            f"{name} is not in {folder} ({missing[0]} is missing), and was not to be downloaded: "
            f"`headrace dataset build {name}` does, or hr.load with download=True"
        )


def _default_config(files: Mapping[str, object], repository: str) -> str:
    if "default" in files:
        return "default"
    if len(files) == 1:
        return next(iter(files))
    raise ValueError(f"{repository} has several configs: write hf:{repository}/CONFIG with {', '.join(sorted(files))}")


def _credentials() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _listing(url: str, folder: Path, name: str, kind: type) -> JsonValue:
    note = "set HF_TOKEN if the dataset is private, or has conditions that you have agreed to"
    path = fetch_source(SourceFile(url, note=note, filename=name, headers=_credentials()), folder)
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not found or not isinstance(found, kind):
        path.unlink()
        raise StorageError(f"{url} lists no Parquet files")
    return found


def _path_of(url: str) -> str:
    """Return the path of a file on its branch."""
    return unquote(url.partition(f"/resolve/{BRANCH}/")[2])


def _file_name(split: str, number: int, url: str) -> str:
    """Return what a file is called on this machine."""
    return _path_of(url).replace("/", "--") or f"{split}-{number:05d}.parquet"


def _known_files(splits: Mapping[str, list[str]], tree: str, folder: Path) -> dict[str, JsonObject]:
    """Return the hub's size and checksum of each file by its path. Each folder is listed by itself."""
    homes = {_path_of(url).rpartition("/")[0] for urls in splits.values() for url in urls}
    found: dict[str, JsonObject] = {}
    for home in sorted(filter(None, homes)):
        listed = _listing(f"{tree}/{quote(home)}", folder, f"tree--{home.replace('/', '--')}.json", list)
        found |= {str(entry.get("path")): entry for entry in listed}
    return found


def _sources(splits: Mapping[str, list[str]], known: Mapping[str, JsonObject]) -> dict[str, SourceFile]:
    """Return the files of all splits, with sizes and checksums as far as the hub tells them."""
    made = {}
    for split, urls in splits.items():
        for number, url in enumerate(urls):
            path = _path_of(url)
            entry = known.get(path, {})
            if "/partial-" in f"/{path}":
                warnings.warn(
                    f"split {split!r} is incomplete: of large datasets the hub has only the first 5 GB as Parquet",
                    PipelineWarning,
                    stacklevel=stack_level(),
                )
            made[f"{split}/{number}"] = SourceFile(
                url, (entry.get("lfs") or {}).get("oid"), size=entry.get("size"),
                filename=_file_name(split, number, url), headers=_credentials(),
            )  # fmt: skip
    return made


class HubBuilder(SplitBuilder):
    """The splits of one config, as Parquet files on this machine.

    Args:
        repository: `owner/name`.
        config: which config, None if there is but one.
        files: the files of each split, in order.
    """

    def __init__(self, repository: str, config: str | None, files: Mapping[str, list[Path]]) -> None:
        import pyarrow.parquet as pq

        self._files = files
        first = next(path for paths in files.values() for path in paths)
        schema = pq.read_schema(first)
        said = _said_features(schema)
        features = {field.name: _feature(field.type, said.get(field.name)) for field in schema}
        self._names = list(features)
        self._texts = [field.name for field in schema if _is_text(field.type)]
        self._labels = [name for name, feature in features.items() if isinstance(feature, ClassLabel)]
        self._images = [name for name, feature in features.items() if isinstance(feature, Image)]
        known = FeaturesDict({name: feature for name, feature in features.items() if feature is not None})
        lengths = {
            split: SplitInfo(split, tuple(pq.read_metadata(path).num_rows for path in paths))
            for split, paths in files.items()
        }
        source = next((name for name in INPUTS if name in features), None)
        target = next((name for name in TARGETS if name in features), None)
        self.info: DatasetInfo = DatasetInfo(
            repository.replace("/", "__"), Version(1, 0, 0), known, Splits(lengths), config_name=config,
            homepage=f"{ENDPOINT}/datasets/{repository}", file_format="parquet", disable_shuffling=True,
            supervised_keys=(source, target) if source and target else None, module_name="huggingface",
        )  # fmt: skip

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
        """Return rows in the order of the files."""
        del order
        columns: list[str] | None = None
        skipped: Mapping[str, Any] = {}
        if isinstance(decoders, PartialDecoding):
            columns = list(choose_features(self.info.features, decoders.features).children())
        elif decoders:
            skipped = decoders
        images = [name for name in self._images if columns is None or name in columns]
        raw = [name for name in images if isinstance(skipped.get(name), SkipDecoding)]
        ranges = as_split(split).ranges(self.info.splits.lengths)
        wholes = {rows.split: self._rows(rows.split, columns) for rows in ranges}
        parts = [wholes[rows.split][rows.start : rows.stop] for rows in ranges]
        made: Dataset = parts[0]
        for part in parts[1:]:
            made = made.concatenate(part)
        if shuffle_files:
            made = made.shuffle(seed=seed)
        if images:
            made = made.map(_decoder(images, raw, max_pixels))
        return made if keys is None else made.map(lambda row: choose_keys(row, keys))

    def _rows(self, split: str, columns: list[str] | None) -> Dataset:
        """Return the rows of one split; a missing text is empty, a missing label -1."""
        wanted = [name for name in self._names if columns is None or name in columns]
        nulls: JsonObject = dict.fromkeys(self._texts, "") | dict.fromkeys(self._labels, -1)
        return ParquetDataset(
            [str(path) for path in self._files[split]],
            exclude=[
                *(name for name in self._names if name not in wanted),
                *(f"{name}.path" for name in self._images if name in wanted),
            ],
            nulls={name: value for name, value in nulls.items() if name in wanted},
        )


def _decoder(images: list[str], raw: list[str], max_pixels: int | None) -> AnyFunction:
    def decode(row: JsonObject) -> JsonObject:
        made = dict(row)
        for name in images:
            data = row[name]["bytes"]
            made[name] = data if name in raw else decode_image(data, max_pixels=max_pixels)
        return made

    return decode


def _said_features(schema: LibraryObject) -> JsonObject:
    """Return what the hub's library has written down of the columns."""
    said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    found: JsonObject = said.get("info", {}).get("features") or {}
    return found


def _feature(kind: LibraryObject, said: JsonValue) -> FeatureConnector | None:
    """Return the feature of a column; None of a kind that TFDS has none for, which is read all the same."""
    import pyarrow as pa

    name = said.get("_type") if isinstance(said, Mapping) else None
    if name == "ClassLabel":
        return ClassLabel(names=[str(label) for label in said["names"]])
    if name == "Image":
        return Image(shape=(None, None, None))
    if _is_text(kind):
        return Text()
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Scalar(np.dtype(kind.to_pandas_dtype()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _feature(kind.value_type, said.get("feature") if isinstance(said, Mapping) else None)
        return None if inner is None else SequenceFeature(inner)
    if pa.types.is_struct(kind):
        parts = {field.name: _feature(field.type, None) for field in kind}
        return None if None in parts.values() else FeaturesDict({k: v for k, v in parts.items() if v is not None})
    return None


def _is_text(kind: object) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
