"""Iris: four lengths of flowers of three species."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_file
from headrace.tfds.features import ClassLabel, Tensor


@public_dataset(
    "iris",
    version="2.1.0",
    features={
        "features": Tensor(shape=(4,), dtype=np.float32),
        "label": ClassLabel(names=["Iris-setosa", "Iris-versicolor", "Iris-virginica"]),
    },
    rows={"train": 150},
    disk_bytes=8_000,
    supervised_keys=("features", "label"),
    homepage="https://archive.ics.uci.edu/ml/datasets/iris",
    license="CC BY 4.0",
    citation="@misc{dua2017uci, author={Dua, Dheeru and Graff, Casey}, year={2017}, "
    "title={UCI Machine Learning Repository}, url={http://archive.ics.uci.edu/ml}}",
)
def iris(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Lengths and widths of sepals and petals, in centimetres, of 50 flowers of each of three species."""
    lines = archive_file(sources["archive"], "iris.data").decode().splitlines()
    for number, line in enumerate(filter(None, lines)):
        *lengths, label = line.split(",")
        yield number, {"features": np.array(lengths, np.float32), "label": label}
