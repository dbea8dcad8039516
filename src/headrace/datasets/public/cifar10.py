"""CIFAR-10: small colour pictures of ten kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.datasets.formats.pictures import labelled_planes
from headrace.errors import StorageError
from headrace.tfds.features import ClassLabel, Image, Text

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FILES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
CITATION = (
    "@techreport{krizhevsky2009learning, author={Alex Krizhevsky}, "
    "title={Learning multiple layers of features from tiny images}, year={2009}}"
)


def batch_rows(archive: Path, files: list[str], split: str, labels: list[str]) -> Iterator[Nested]:
    """The rows of CIFAR's binary files, numbered in the order of `files`, which an archive has in any order."""
    waiting: dict[str, list[Any]] = {}
    number = 0
    left = list(files)
    for path, file in archive_files(archive, lambda name: name.rsplit("/", 1)[-1] in files):
        name = path.rsplit("/", 1)[-1]
        found = labelled_planes(file, len(labels), 32, name)
        if name != left[0]:
            waiting[name] = list(found)
            continue
        while True:
            left.pop(0)
            for said, picture in found:
                row = dict(zip(labels, said, strict=True))
                yield number, {**row, "id": f"{split}_{number:05d}", "image": picture}
                number += 1
            if not left:
                return
            if left[0] not in waiting:
                break
            found = iter(waiting.pop(left[0]))
    raise StorageError(f"{archive} has no file {left[0]}")


@public_dataset(
    "cifar10",
    version="3.0.2",
    features={"id": Text(), "image": Image(shape=(32, 32, 3)), "label": ClassLabel(names=NAMES)},
    rows={"train": 50_000, "test": 10_000},
    disk_bytes=139_000_000,
    supervised_keys=("image", "label"),
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation=CITATION,
)
def cifar10(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Animals and vehicles of ten kinds as colour pictures of 32 × 32 pixels, 6,000 of each kind."""
    yield from batch_rows(sources["archive"], FILES[split], split, ["label"])
