"""Beans: healthy and diseased leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import ClassLabel, Image


@public_dataset(
    "beans",
    version="0.1.0",
    features={
        "image": Image(shape=(500, 500, 3)),
        "label": ClassLabel(names=["angular_leaf_spot", "bean_rust", "healthy"]),
    },
    rows={"train": 1_034, "validation": 133, "test": 128},
    supervised_keys=("image", "label"),
    homepage="https://github.com/AI-Lab-Makerere/ibean/",
    license="MIT",
    citation='@online{beansdata, author="Makerere AI Lab", title="Bean disease dataset", year="2020"}',
)
def beans(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Photographs of bean leaves of 500 × 500 pixels, taken with phones on fields in Uganda, of three classes."""
    for path, file in archive_files(sources[split], lambda name: name.endswith(".jpg")):
        yield path, {"image": file.read(), "label": path.split("/")[-2]}
