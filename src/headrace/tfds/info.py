"""The contents of `dataset_info.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.types import JsonObject, JsonValue, Nested
from headrace.errors import StorageError
from headrace.remote.redact import show_path
from headrace.tfds.feature import FeatureConnector
from headrace.tfds.files import Folder, damage_named
from headrace.tfds.splits import AbstractSplit, RowRange, as_split
from headrace.tfds.versions import Version

INFO = "dataset_info.json"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
FORMATS = ("tfrecord", "array_record", "parquet")
_FIELD = re.compile(r"\{([^{}]*)\}")
MAX_COUNT = 1 << 60
"""No dataset has more rows or bytes."""


@dataclass(frozen=True)
class SplitInfo:
    """One split: how many rows each of its files has.

    Args:
        name: Name of the split.
        shard_lengths: Number of rows in each file.
        num_bytes: Size in bytes.
        filepath_template: Pattern of the names of files.
    """

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
        """Return how many files there are."""
        return len(self.shard_lengths)

    def filenames(self, dataset: str, file_format: str) -> list[str]:
        """Return the names of the files, in order."""
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
    """The splits by name; `splits["train[:80%]"]` describes a part."""

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
    """The metadata of a dataset.

    Args:
        name: Name of the dataset.
        version: Version of the dataset.
        features: Features of a row.
        splits: Splits by name.
        config_name: Name of the configuration.
        description: Description, in words.
        citation: How to cite the dataset.
        homepage: URL of the dataset's page.
        license: License of the dataset.
        supervised_keys: Names of input and label, as a pair.
        file_format: Format of the files.
        release_notes: Notes by version.
        config_description: Description of the configuration.
        download_size: Size of the downloads in bytes.
        download_checksums: Checksums by URL.
        disable_shuffling: Whether rows are stored in the order in which they were made.
        metadata: Additional information.
        data_dir: Folder with prepared datasets. Default: `TFDS_DATA_DIR`, or `~/tensorflow_datasets`.
        module_name: Module that defines the dataset.

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
    supervised_keys: Nested = None
    file_format: str = "tfrecord"
    release_notes: Mapping[str, str] = field(default_factory=dict)
    config_description: str = ""
    download_size: int = 0
    download_checksums: Mapping[str, str] = field(default_factory=dict)
    disable_shuffling: bool = False
    metadata: JsonValue = None
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
    """Return the name of one file."""
    digits = max(5, len(str(count)))
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": file_format,
        "SHARD_INDEX": f"{number:0{digits}d}",
        "NUM_SHARDS": f"{count:0{digits}d}",
        "SHARD_X_OF_Y": f"{number:0{digits}d}-of-{count:0{digits}d}",
    }
    unknown = sorted(set(_FIELD.findall(template)) - set(values))
    if unknown or "{" in _FIELD.sub("", template) or "}" in _FIELD.sub("", template):
        known = ", ".join(f"{{{name}}}" for name in values)
        raise StorageError(f"filepathTemplate {template!r:.200} cannot be filled in: its fields can be {known}")
    made = _FIELD.sub(lambda found: values[found[1]], template)
    if not made or made.startswith("/") or "\\" in made or "\0" in made or {"..", "."} & set(made.split("/")):
        raise StorageError(f"filepathTemplate {template!r:.200} gives {made!r:.200}, which is no file of the dataset")
    return made


def read_info(folder: Folder) -> DatasetInfo:
    """Return the info of a directory that holds one version of a dataset."""
    page = folder.read_json(INFO)
    where = show_path(folder.file(INFO))
    if page is None and INFO not in folder.names():
        raise _no_info(folder)
    with damage_named(where):
        said = _camel_keys(page)
        if not isinstance(said, dict) or not {"name", "version"} <= set(said):
            raise ValueError("it has no name, or no version")
        splits = {_text(split, "name"): _split(split, where) for split in said.get("splits", [])}
        info = DatasetInfo(
            name=_text(said, "name"),
            version=Version.of(_text(said, "version")),
            features=FeatureConnector.from_directory(folder),
            splits=Splits(splits),
            config_name=_text(said, "configName") or None,
            description=_text(said, "description"),
            citation=_text(said, "citation"),
            homepage=", ".join(said.get("location", {}).get("urls", [])),
            license=_text(said.get("redistributionInfo", {}), "license"),
            supervised_keys=_supervised(said.get("supervisedKeys"), where),
            file_format=_file_format(_text(said, "fileFormat") or "tfrecord", where),
            release_notes=_table(said, "releaseNotes"),
            config_description=_text(said, "configDescription"),
            download_size=_count(said.get("downloadSize", 0)),
            download_checksums=_table(said, "downloadChecksums"),
            disable_shuffling=bool(said.get("disableShuffling", False)),
            metadata=folder.read_json("metadata.json"),
            data_dir=folder.path,
            module_name=_text(said, "moduleName"),
        )
        for split in splits.values():
            count = max(1, split.num_shards)
            try:
                shard_name(split.filepath_template, info.name, split.name, info.file_format, 0, count)
            except StorageError as error:
                raise StorageError(f"{where}: {error}") from None
        return info


def _text(said: Mapping[str, object], key: str) -> str:
    """Return a text of a page, "" if it is not there."""
    value = said.get(key, "")
    if not isinstance(value, str) and value is not None:
        raise TypeError(f"{key} is {value!r:.80}, and must be a text")
    return value or ""


def _table(said: Mapping[str, object], key: str) -> JsonObject:
    """Return an object of a page, an empty one if it is not there."""
    value = said.get(key, {})
    if not isinstance(value, dict):
        raise TypeError(f"{key} is {value!r:.80}, and must be an object")
    return value


def _count(said: JsonValue) -> int:
    """Return a number of rows or bytes."""
    number = int(said)
    if not 0 <= number <= MAX_COUNT:
        raise ValueError(f"{said!r:.80} is no number of rows or bytes")
    return number


def _no_info(folder: Folder) -> Exception:
    names = folder.names()
    if ".incomplete" in folder.name:
        return StorageError(f"{folder} is being written, or its writer was stopped: read it when it has its own name")
    if not names:
        return FileNotFoundError(f"there is no directory {folder}, or nothing in it")
    if any(".incomplete" in name for name in names):
        return StorageError(f"{folder} is being written, or its writer was stopped: it has no {INFO} yet")
    return StorageError(f"{folder} is no directory of a dataset: it has no {INFO}, but {', '.join(sorted(names)[:8])}")


def _split(said: Mapping[str, object], where: str) -> SplitInfo:
    lengths = said.get("shardLengths")
    if lengths is None:
        if _count(said.get("numShards", 0)):
            raise StorageError(
                f"{where}: split {said['name']!r} does not say how many rows its {said['numShards']} files have; "
                "it was written by a very old TFDS: prepare it again"
            )
        lengths = []
    if not isinstance(lengths, list):
        raise TypeError(f"shardLengths is {lengths!r:.80}, and must be a list")
    counts = tuple(_count(length) for length in lengths)
    return SplitInfo(
        _text(said, "name"), counts, _count(said.get("numBytes", 0)), _text(said, "filepathTemplate") or TEMPLATE
    )


def _file_format(said: str, where: str) -> str:
    if said not in FORMATS:
        raise StorageError(f"{where}: files of format {said!r} cannot be read; known are {', '.join(FORMATS)}")
    return said


def _supervised(said: JsonValue, where: str) -> Nested:
    """Return the keys of input and output: names, or tuples and dicts of them."""
    if not said:
        return None
    if "tuple" in said:
        return tuple(_nested_keys(item, where) for item in said["tuple"]["items"])
    return _text(said, "input"), _text(said, "output")


def _nested_keys(said: JsonValue, where: str) -> Nested:
    if "featureKey" in said:
        return _text(said, "featureKey")
    if "tuple" in said:
        return tuple(_nested_keys(item, where) for item in said["tuple"]["items"])
    if "dict" in said:
        return {key: _nested_keys(item, where) for key, item in said["dict"]["dict"].items()}
    raise ValueError(f"supervised keys {said!r:.80}")


_FREE = {"releaseNotes", "downloadChecksums"}


def _camel_keys(said: object) -> JsonValue:
    """Return the same with the names of fields as they are written today; old files have `shard_lengths`."""
    if isinstance(said, list):
        return [_camel_keys(item) for item in said]
    if not isinstance(said, dict):
        return said
    named = {re.sub(r"_([a-z])", lambda m: m[1].upper(), key): value for key, value in said.items()}
    return {key: value if key in _FREE or key == "dict" else _camel_keys(value) for key, value in named.items()}
