"""Flowers: the pictures of TensorFlow's tutorials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import ClassLabel, Image


@public_dataset(
    "tf_flowers",
    version="3.0.1",
    features={
        "image": Image(),
        "label": ClassLabel(names=["dandelion", "daisy", "tulips", "sunflowers", "roses"]),
    },
    rows={"train": 3_670},
    disk_bytes=233_000_000,
    supervised_keys=("image", "label"),
    homepage="https://www.tensorflow.org/tutorials/load_data/images",
    license="CC BY (each picture names its author in LICENSE.txt of the archive)",
    citation='@online{tfflowers, author="The TensorFlow Team", title="Flowers", year="2019"}',
)
def tf_flowers(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Photographs of five kinds of flowers, of different sizes."""
    for path, file in archive_files(sources["archive"], lambda name: name.endswith(".jpg")):
        _, kind, name = path.rsplit("/", 2)
        yield f"{kind}/{name}", {"image": file.read(), "label": kind.lower()}
