"""STL-10: colour pictures of ten kinds, most of them without labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_file, archive_files
from headrace.datasets.formats.pictures import fixed_rows
from headrace.errors import StorageError
from headrace.tfds.features import ClassLabel, Image

NAMES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]
SIZE = 96


@public_dataset(
    "stl10",
    version="1.0.0",
    features={"image": Image(shape=(SIZE, SIZE, 3)), "label": ClassLabel(names=NAMES)},
    rows={"train": 5_000, "test": 8_000, "unlabelled": 100_000},
    supervised_keys=("image", "label"),
    homepage="http://ai.stanford.edu/~acoates/stl10/",
    citation="@inproceedings{coates2011stl10, title={An Analysis of Single Layer Networks in Unsupervised Feature "
    "Learning}, author={Coates, Adam and Ng, Andrew and Lee, Honglak}, booktitle={AISTATS}, year={2011}}",
)
def stl10(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Animals and vehicles of ten kinds as colour pictures of 96 × 96 pixels, with many more that have no label (-1)."""
    archive = sources["archive"]
    labels: Iterator[int] = repeat(-1)
    if split != "unlabelled":
        stored = np.frombuffer(archive_file(archive, f"stl10_binary/{split}_y.bin"), np.uint8)
        labels = iter((stored.astype(np.int64) - 1).tolist())
    name = f"stl10_binary/{'unlabeled' if split == 'unlabelled' else split}_X.bin"
    for _, file in archive_files(archive, lambda found: found == name):
        rows = chain.from_iterable(fixed_rows(file, 3 * SIZE * SIZE, name))
        for number, (row, label) in enumerate(zip(rows, labels, strict=split != "unlabelled")):
            picture = np.ascontiguousarray(row.reshape(3, SIZE, SIZE).transpose(2, 1, 0))  # stored by column
            yield number, {"image": picture, "label": label}
        return
    raise StorageError(f"{archive} has no file {name}")
