"""SVHN: digits of house numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.mat import read_mat
from headrace.errors import StorageError
from headrace.tfds.features import ClassLabel, Image, Text


@public_dataset(
    "svhn_cropped",
    version="3.1.0",
    features={"id": Text(), "image": Image(shape=(32, 32, 3)), "label": ClassLabel(num_classes=10)},
    rows={"train": 73_257, "test": 26_032, "extra": 531_131},
    supervised_keys=("image", "label"),
    homepage="http://ufldl.stanford.edu/housenumbers/",
    license="for non-commercial use",
    citation="@article{netzer2011reading, author={Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco, "
    "Alessandro and Wu, Bo and Ng, Andrew Y}, "
    "title={Reading Digits in Natural Images with Unsupervised Feature Learning}, year={2011}}",
)
def svhn_cropped(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Single digits of house numbers, cut out of photographs of streets, as colour pictures of 32 × 32 pixels."""
    arrays = read_mat(sources[split])
    pictures, labels = arrays["X"], arrays["y"].reshape(-1)
    if pictures.shape != (32, 32, 3, len(labels)) or not len(labels) or not 1 <= labels.min() <= labels.max() <= 10:
        raise StorageError(f"{sources[split]}: pictures of shape {pictures.shape} for {len(labels):,} labels")
    for number, label in enumerate(labels.tolist()):  # the digit 0 is class 10 there
        picture = np.ascontiguousarray(pictures[..., number])
        yield number, {"id": f"{split}_{number:06d}", "image": picture, "label": label % 10}
