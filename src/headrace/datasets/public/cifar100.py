"""CIFAR-100: small colour pictures of a hundred kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import label_names, public_dataset
from headrace.datasets.public.cifar10 import CITATION, batch_rows
from headrace.tfds.features import ClassLabel, Image, Text


@public_dataset(
    "cifar100",
    version="3.0.2",
    features={
        "id": Text(),
        "image": Image(shape=(32, 32, 3)),
        "label": ClassLabel(names=label_names("cifar100")),
        "coarse_label": ClassLabel(names=label_names("cifar100_coarse")),
    },
    rows={"train": 50_000, "test": 10_000},
    disk_bytes=139_000_000,
    supervised_keys=("image", "label"),
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation=CITATION,
)
def cifar100(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Colour pictures of 32 × 32 pixels of a hundred kinds, which form twenty groups; 600 of each kind."""
    yield from batch_rows(sources["archive"], [f"{split}.bin"], split, ["coarse_label", "label"])
