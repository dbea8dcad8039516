"""Datasets for other libraries: Hugging Face datasets, Croissant metadata, tar files for WebDataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from headrace.catalogue.croissant import croissant_page
from headrace.core.types import Component, JsonObject, JsonValue, LibraryObject, Nested
from headrace.sinks.write_webdataset import Archive, EncodedSamples, file_content, tar_member
from headrace.storage.files import whole_file
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.decode import SkipDecoding
from headrace.tfds.feature import (
    ClassLabel,
    DatasetFeature,
    FeatureConnector,
    FeaturesDict,
    Image,
    SequenceFeature,
    Tensor,
    Text,
)

if TYPE_CHECKING:
    from headrace.dataset import Dataset

ROWS_PER_TAR = 10_000
"""How many rows a tar file has."""


def export_huggingface(builder: ReadOnlyBuilder, target: Path) -> None:
    """Write all splits as a DatasetDict on disk, for `datasets.load_from_disk`; pictures stay as they were written."""
    import datasets

    features = datasets.Features(
        {name: huggingface_feature(child, name) for name, child in builder.info.features.children().items()}
    )
    decoders = undecoded_pictures(builder.info.features)

    with TemporaryDirectory() as cache:
        made = {}
        for split in builder.info.splits:
            ds = builder.as_dataset(split, decoders=decoders, order="file")

            def rows(ds: Dataset = ds) -> Iterator[Nested]:
                return (huggingface_value(row, builder.info.features) for row in ds)

            made[split] = datasets.Dataset.from_generator(
                rows, features=features, cache_dir=cache, split=datasets.NamedSplit(split)
            )
        datasets.DatasetDict(made).save_to_disk(str(target))


def huggingface_feature(feature: FeatureConnector, path: str) -> Nested:
    """Return the same in Hugging Face's words."""
    import datasets

    if isinstance(feature, FeaturesDict):
        return {name: huggingface_feature(child, f"{path}/{name}") for name, child in feature.items()}
    if isinstance(feature, SequenceFeature):
        inner = huggingface_feature(feature.feature, path)
        if isinstance(inner, dict) and not isinstance(feature, DatasetFeature):
            return {name: datasets.List(each) for name, each in inner.items()}
        return datasets.List(inner)
    if isinstance(feature, Image):
        return datasets.Image()
    if isinstance(feature, ClassLabel):
        return datasets.ClassLabel(names=feature.names)
    if not isinstance(feature, Tensor):
        raise ValueError(f"feature {path!r}, {feature}, has no counterpart in Hugging Face datasets")
    kind = "string" if isinstance(feature, Text) else "binary" if feature.dtype.kind == "S" else feature.dtype.name
    made: LibraryObject = datasets.Value(kind)
    for _ in feature.shape:
        made = datasets.List(made)
    return made


def huggingface_value(value: Component, feature: FeatureConnector) -> Component:
    """Return a value as Hugging Face's features take it."""
    if isinstance(feature, FeaturesDict):
        return {name: huggingface_value(value[name], child) for name, child in feature.items()}
    if isinstance(feature, DatasetFeature):
        return [huggingface_value(each, feature.feature) for each in value]
    if isinstance(feature, SequenceFeature):
        inner = feature.feature
        if isinstance(inner, FeaturesDict):
            return {n: huggingface_value(value[n], SequenceFeature(child)) for n, child in inner.items()}
        return [huggingface_value(each, inner) for each in value]
    if isinstance(feature, Image):
        return {"bytes": value, "path": None}
    if isinstance(feature, Text):
        return value.decode(errors="replace")
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def undecoded_pictures(feature: FeatureConnector) -> JsonValue:
    """Decoders that leave every picture as its bytes."""
    if isinstance(feature, FeaturesDict):
        inside = {name: undecoded_pictures(child) for name, child in feature.items()}
        return {name: each for name, each in inside.items() if each}
    if isinstance(feature, SequenceFeature):
        return undecoded_pictures(feature.feature)
    return SkipDecoding() if isinstance(feature, Image) else None


def export_webdataset(builder: ReadOnlyBuilder, target: Path) -> None:
    """Tar files `SPLIT-000000.tar`: pictures and text as files of their own, all else of a row as JSON or `.npy`."""
    target.mkdir(parents=True, exist_ok=True)
    features = builder.info.features
    decoders = undecoded_pictures(features)
    for split in builder.info.splits:
        rows = iter(builder.as_dataset(split, decoders=decoders, order="file"))
        count = builder.info.splits[split].num_examples
        for number, first in enumerate(range(0, count, ROWS_PER_TAR)):
            with whole_file(target / f"{split}-{number:06d}.tar") as file:
                archive = Archive(file)
                for row in range(first, min(count, first + ROWS_PER_TAR)):
                    key = f"{row:09d}"
                    members = b"".join(tar_member(*each) for each in _files(key, next(rows), features))
                    archive.write(EncodedSamples(members, [key]))
                archive.close()


def _files(key: str, row: Nested, features: FeatureConnector) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a row. Pictures of one feature may have different suffixes."""
    rest: JsonObject = {}
    for name, feature in sorted(features.children().items()):
        value = row[name]
        if isinstance(feature, Image):
            ending = "jpg" if value[:2] == b"\xff\xd8" else "png"
            yield f"{key}.{name}.{ending}", value
        elif isinstance(feature, Text):
            yield f"{key}.{name}.txt", value
        elif isinstance(value, np.ndarray) and value.dtype != object:
            yield f"{key}.{name}.npy", file_content("npy", value)
        else:
            rest[name] = huggingface_value(value, feature)
    if rest:
        yield f"{key}.json", json.dumps(rest, default=_plain).encode()


def _plain(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.tolist() if hasattr(value, "tolist") else str(value)


def export_croissant(builder: ReadOnlyBuilder, target: Path) -> None:
    """Croissant metadata of the directory, as a page of JSON-LD."""
    page = json.dumps(croissant_page(builder), indent=1, ensure_ascii=False)
    path = target if target.suffix == ".json" else target / "croissant.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(page.encode())


EXPORTS: dict[str, Callable[[ReadOnlyBuilder, Path], None]] = {
    "croissant": export_croissant,
    "huggingface": export_huggingface,
    "webdataset": export_webdataset,
}
"""By the names that the command line knows."""
