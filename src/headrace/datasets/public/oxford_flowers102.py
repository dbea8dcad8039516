"""Flowers of 102 kinds that grow in Britain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import label_names, public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.datasets.formats.mat import read_mat
from headrace.tfds.features import ClassLabel, Image, Text

SPLITS = {"train": "trnid", "test": "tstid", "validation": "valid"}


@public_dataset(
    "oxford_flowers102",
    version="2.1.1",
    features={"image": Image(), "label": ClassLabel(names=label_names("oxford_flowers102")), "file_name": Text()},
    rows={"train": 1_020, "test": 6_149, "validation": 1_020},
    supervised_keys=("image", "label"),
    homepage="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    citation="@inproceedings{nilsback2008automated, author={Nilsback, M-E. and Zisserman, A.}, "
    "title={Automated Flower Classification over a Large Number of Classes}, year={2008}}",
)
def oxford_flowers102(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Photographs of flowers of 102 kinds, from 40 to 258 of each, of different sizes."""
    labels = read_mat(sources["labels"])["labels"].reshape(-1)
    numbers = read_mat(sources["splits"])[SPLITS[split]].reshape(-1).tolist()
    wanted = {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) - 1 for number in numbers}
    for path, file in archive_files(sources["images"], wanted.__contains__):
        name = path.removeprefix("jpg/")
        yield name, {"image": file.read(), "label": wanted[path], "file_name": name}
