"""What `dataset_info.json` says of a dataset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import StorageError
from headrace.tfds.feature import FeatureConnector
from headrace.tfds.files import Folder
from headrace.tfds.splits import AbstractSplit, RowRange, as_split
from headrace.tfds.versions import Version

INFO = "dataset_info.json"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
FORMATS = ("tfrecord", "array_record", "parquet")


@dataclass(frozen=True)
class SplitInfo:
    """One split: how many rows each of its files has."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int = 0
    filepath_template: str = TEMPLATE

    @property
    def num_examples(self) -> int:
        """All rows."""
        return sum(self.shard_lengths)

    @property
    def num_shards(self) -> int:
        """How many files there are."""
        return len(self.shard_lengths)

    def filenames(self, dataset: str, file_format: str) -> list[str]:
        """The names of the files, in order."""
        return [
            shard_name(self.filepath_template, dataset, self.name, file_format, number, self.num_shards)
            for number in range(self.num_shards)
        ]

    def __repr__(self) -> str:
        return f"<SplitInfo num_examples={self.num_examples}, num_shards={self.num_shards}>"


@dataclass(frozen=True)
class PartInfo:
    """A part of one or more splits, such as `train[:80%]`."""

    name: str
    ranges: tuple[RowRange, ...]

    @property
    def num_examples(self) -> int:
        """All rows."""
        return sum(rows.stop - rows.start for rows in self.ranges)


class Splits(Mapping[str, Any]):
    """The splits by name; `splits["train[:80%]"]` says how large a part would be."""

    def __init__(self, splits: Mapping[str, SplitInfo]) -> None:
        self._splits = dict(splits)

    @property
    def lengths(self) -> dict[str, tuple[int, ...]]:
        """The lengths of the shards of each."""
        return {name: split.shard_lengths for name, split in self._splits.items()}

    @property
    def total_num_examples(self) -> int:
        """The rows of all splits."""
        return sum(split.num_examples for split in self._splits.values())

    def __getitem__(self, key: str | AbstractSplit) -> Any:
        if isinstance(key, str) and key in self._splits:
            return self._splits[key]
        return PartInfo(str(key), tuple(as_split(key).ranges(self.lengths)))

    def __contains__(self, key: object) -> bool:
        return key in self._splits

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __repr__(self) -> str:
        return repr(self._splits)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a dataset without reading its rows.

    >>> ds = hr.Dataset.range(20).map(lambda x: {"x": x, "y": x % 2})
    >>> _ = ds.write_tfds(folder, "pairs", supervised_keys=("x", "y"))
    >>> info = hr.tfds.builder("pairs", data_dir=folder).info
    >>> info.full_name, info.splits["train"].num_examples, info.supervised_keys
    ('pairs/1.0.0', 20, ('x', 'y'))
    """

    name: str
    version: Version
    features: FeatureConnector
    splits: Splits
    config_name: str | None = None
    description: str = ""
    citation: str = ""
    homepage: str = ""
    license: str = ""
    supervised_keys: Any = None
    file_format: str = "tfrecord"
    release_notes: Mapping[str, str] = field(default_factory=dict)
    config_description: str = ""
    download_size: int = 0
    download_checksums: Mapping[str, str] = field(default_factory=dict)
    disable_shuffling: bool = False
    metadata: Any = None
    data_dir: str = ""
    module_name: str = ""

    @property
    def full_name(self) -> str:
        """Name, config and version, as in a path."""
        return "/".join(filter(None, (self.name, self.config_name, str(self.version))))

    @property
    def dataset_size(self) -> int:
        """The bytes of all splits, as far as they are written down."""
        return sum(split.num_bytes for split in self.splits.values())

    def __repr__(self) -> str:
        lines = [
            "DatasetInfo(",
            f"    full_name={self.full_name!r},",
            f"    features={self.features!r},",
            f"    splits={self.splits!r},",
            f"    supervised_keys={self.supervised_keys!r},",
            f"    file_format={self.file_format!r},",
            ")",
        ]
        return "\n".join(lines)


def shard_name(template: str, dataset: str, split: str, file_format: str, number: int, count: int) -> str:
    """The name of one file."""
    digits = max(5, len(str(count)))
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": file_format,
        "SHARD_INDEX": f"{number:0{digits}d}",
        "NUM_SHARDS": f"{count:0{digits}d}",
        "SHARD_X_OF_Y": f"{number:0{digits}d}-of-{count:0{digits}d}",
    }
    try:
        return template.format(**values)
    except (KeyError, IndexError, ValueError) as error:
        raise StorageError(f"filepathTemplate {template!r} cannot be filled in: {error}") from None


def read_info(folder: Folder) -> DatasetInfo:
    """The info of a directory that holds one version of a dataset."""
    page = folder.read_json(INFO)
    where = folder.file(INFO)
    if page is None:
        raise _no_info(folder)
    said = _camel_keys(page)
    if not isinstance(said, dict) or not {"name", "version"} <= set(said):
        raise StorageError(f"{where} is damaged: it has no name, or no version")
    try:
        splits = {split["name"]: _split(split, where) for split in said.get("splits", [])}
        return DatasetInfo(
            name=said["name"],
            version=Version.of(said["version"]),
            features=FeatureConnector.from_directory(folder),
            splits=Splits(splits),
            config_name=said.get("configName") or None,
            description=said.get("description", ""),
            citation=said.get("citation", ""),
            homepage=", ".join(said.get("location", {}).get("urls", [])),
            license=said.get("redistributionInfo", {}).get("license", ""),
            supervised_keys=_supervised(said.get("supervisedKeys"), where),
            file_format=_file_format(said.get("fileFormat") or "tfrecord", where),
            release_notes=said.get("releaseNotes", {}),
            config_description=said.get("configDescription", ""),
            download_size=int(said.get("downloadSize", 0)),
            download_checksums=said.get("downloadChecksums", {}),
            disable_shuffling=bool(said.get("disableShuffling", False)),
            metadata=folder.read_json("metadata.json"),
            data_dir=folder.path,
            module_name=said.get("moduleName", ""),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise StorageError(f"{where} is damaged: {error!r}") from error


def _no_info(folder: Folder) -> Exception:
    names = folder.names()
    if ".incomplete" in folder.name:
        return StorageError(f"{folder} is being written, or its writer was stopped: read it when it has its own name")
    if not names:
        return FileNotFoundError(f"there is no directory {folder}, or nothing in it")
    if any(".incomplete" in name for name in names):
        return StorageError(f"{folder} is being written, or its writer was stopped: it has no {INFO} yet")
    return StorageError(f"{folder} is no directory of a dataset: it has no {INFO}, but {', '.join(sorted(names)[:8])}")


def _split(said: Mapping[str, Any], where: str) -> SplitInfo:
    lengths = said.get("shardLengths")
    if lengths is None:
        if int(said.get("numShards", 0)):
            raise StorageError(
                f"{where}: split {said['name']!r} does not say how many rows its {said['numShards']} files have; "
                "it was written by a very old TFDS: prepare it again"
            )
        lengths = []
    return SplitInfo(
        said["name"],
        tuple(int(length) for length in lengths),
        int(said.get("numBytes", 0)),
        said.get("filepathTemplate") or TEMPLATE,
    )


def _file_format(said: str, where: str) -> str:
    if said not in FORMATS:
        raise StorageError(f"{where}: files of format {said!r} cannot be read; known are {', '.join(FORMATS)}")
    return said


def _supervised(said: Any, where: str) -> Any:
    """The keys of input and output: names, or tuples and dicts of them."""
    if not said:
        return None
    if "tuple" in said:
        return tuple(_nested_keys(item, where) for item in said["tuple"]["items"])
    return (said["input"], said["output"])


def _nested_keys(said: Any, where: str) -> Any:
    if "featureKey" in said:
        return said["featureKey"]
    if "tuple" in said:
        return tuple(_nested_keys(item, where) for item in said["tuple"]["items"])
    if "dict" in said:
        return {key: _nested_keys(item, where) for key, item in said["dict"]["dict"].items()}
    raise StorageError(f"{where} is damaged: supervised keys {said!r}")


_FREE = {"releaseNotes", "downloadChecksums"}


def _camel_keys(said: Any) -> Any:
    """The same with the names of fields as they are written today; old files have `shard_lengths`."""
    if isinstance(said, list):
        return [_camel_keys(item) for item in said]
    if not isinstance(said, dict):
        return said
    named = {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): value for key, value in said.items()}
    return {key: value if key in _FREE or key == "dict" else _camel_keys(value) for key, value in named.items()}
