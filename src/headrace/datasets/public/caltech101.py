"""Caltech-101: pictures of objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import label_names, public_dataset
from headrace.datasets.formats.archives import files_of_tar_in
from headrace.tfds.features import ClassLabel, Image, Text

INNER = "caltech-101/101_ObjectCategories.tar.gz"
HOME = "101_ObjectCategories/"
SEED = 1234
TRAINING_ROWS_PER_CLASS = 30


def training_files(paths: list[str]) -> set[str]:
    """Return the 30 files of each class that are drawn for training, as TFDS draws them.

    TFDS takes folders and files in the order in which the file system lists them. Here they are sorted, so that the
    split is the same on every machine.
    """
    classes = defaultdict(list)
    for path in sorted(paths):
        classes[path.split("/")[0]].append(path)
    rng = np.random.RandomState(SEED)
    found: set[str] = set()
    for name, files in classes.items():
        if len(files) < TRAINING_ROWS_PER_CLASS:
            raise ValueError(f"class {name} has {len(files)} files, fewer than {TRAINING_ROWS_PER_CLASS}")
        found.update(files[i] for i in rng.choice(len(files), TRAINING_ROWS_PER_CLASS, replace=False))
    return found


@public_dataset(
    "caltech101",
    version="3.0.2",
    features={
        "image": Image(),
        "label": ClassLabel(names=label_names("caltech101")),
        "image/file_name": Text(),
    },
    rows={"train": 3_060, "test": 6_084},
    disk_bytes=133_000_000,
    supervised_keys=("image", "label"),
    homepage="https://doi.org/10.22002/D1.20086",
    citation="@article{FeiFei2004LearningGV, title={Learning Generative Visual Models from Few Training Examples: An "
    "Incremental Bayesian Approach Tested on 101 Object Categories}, author={Li Fei-Fei and Rob Fergus and Pietro "
    "Perona}, journal={Computer Vision and Pattern Recognition Workshop}, year={2004}}",
)
def caltech101(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Pictures of objects of 101 kinds and of clutter, 31 to 800 of each; 30 of each are drawn for training."""
    archive = sources["archive"]
    chosen = training_files([path.removeprefix(HOME) for path, _ in files_of_tar_in(archive, INNER)])
    for path, file in files_of_tar_in(archive, INNER):
        key = path.removeprefix(HOME)
        if key.endswith(".jpg") and (key in chosen) == (split == "train"):
            label, name = key.split("/", 1)
            yield key, {"image": file.read(), "label": label.lower(), "image/file_name": name}
