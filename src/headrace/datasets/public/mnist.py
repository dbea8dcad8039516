"""MNIST: handwritten digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.core.types import JsonObject, Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.idx import read_idx
from headrace.errors import StorageError
from headrace.tfds.features import ClassLabel, Image


def labelled_pictures(pictures: Path, labels: Path) -> Iterator[tuple[int, JsonObject]]:
    """Rows of two IDX files, one of pictures and one of labels."""
    return paired_rows(read_idx(pictures.read_bytes(), pictures), read_idx(labels.read_bytes(), labels), pictures)


def paired_rows(pictures: Any, labels: Any, name: Any) -> Iterator[tuple[int, JsonObject]]:
    """Rows of an array of pictures and one of labels."""
    if len(pictures) != len(labels) or pictures.shape[1:] != (28, 28):
        raise StorageError(f"{name}: pictures of shape {pictures.shape} for {len(labels):,} labels")
    for number, (picture, label) in enumerate(zip(pictures[..., None], labels.tolist(), strict=True)):
        yield number, {"image": picture, "label": label}


@public_dataset(
    "mnist",
    version="3.0.1",
    earlier=("1.0.0", "2.0.0", "3.0.0"),
    features={"image": Image(shape=(28, 28, 1)), "label": ClassLabel(num_classes=10)},
    rows={"train": 60_000, "test": 10_000},
    disk_bytes=22_000_000,
    supervised_keys=("image", "label"),
    homepage="http://yann.lecun.com/exdb/mnist/",
    license="CC BY-SA 3.0",
    citation="@article{lecun2010mnist, title={MNIST handwritten digit database}, "
    "author={LeCun, Yann and Cortes, Corinna and Burges, CJ}, year={2010}}",
)
def mnist(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Handwritten digits from 0 to 9 as grey pictures of 28 × 28 pixels."""
    yield from labelled_pictures(sources[f"{split}_images"], sources[f"{split}_labels"])
