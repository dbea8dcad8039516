"""Fashion-MNIST: pictures of clothes, in MNIST's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.public.mnist import labelled_pictures
from headrace.tfds.features import ClassLabel, Image

NAMES = [
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
]  # fmt: skip


@public_dataset(
    "fashion_mnist",
    version="3.0.1",
    features={"image": Image(shape=(28, 28, 1)), "label": ClassLabel(names=NAMES)},
    rows={"train": 60_000, "test": 10_000},
    disk_bytes=38_000_000,
    supervised_keys=("image", "label"),
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    license="MIT",
    citation="@article{xiao2017fashion, title={Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning "
    "Algorithms}, author={Han Xiao and Kashif Rasul and Roland Vollgraf}, journal={arXiv:1708.07747}, year={2017}}",
)
def fashion_mnist(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Clothes, shoes and bags of ten kinds as grey pictures of 28 × 28 pixels, in place of MNIST's digits."""
    yield from labelled_pictures(sources[f"{split}_images"], sources[f"{split}_labels"])
