"""Kuzushiji-MNIST: handwritten Japanese characters, in MNIST's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.public.mnist import labelled_pictures
from headrace.tfds.features import ClassLabel, Image


@public_dataset(
    "kmnist",
    version="3.0.1",
    features={
        "image": Image(shape=(28, 28, 1)),
        "label": ClassLabel(names=["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]),
    },
    rows={"train": 60_000, "test": 10_000},
    disk_bytes=33_000_000,
    supervised_keys=("image", "label"),
    homepage="http://codh.rois.ac.jp/kmnist/index.html.en",
    license="CC BY-SA 4.0",
    citation="@online{clanuwat2018deep, author={Tarin Clanuwat and Mikel Bober-Irizar and Asanobu Kitamoto and "
    "Alex Lamb and Kazuaki Yamamoto and David Ha}, title={Deep Learning for Classical Japanese Literature}, "
    "eprint={cs.CV/1812.01718}, year={2018}}",
)
def kmnist(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Characters of old Japanese books, one for each of ten rows of Hiragana, as grey pictures of 28 × 28 pixels."""
    yield from labelled_pictures(sources[f"{split}_images"], sources[f"{split}_labels"])
