"""Food-101: photographs of dishes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import label_names, public_dataset
from headrace.datasets.formats.archives import archive_file, archive_files
from headrace.tfds.features import ClassLabel, Image

FILES = {"train": "train", "validation": "test"}


@public_dataset(
    "food101",
    version="2.0.0",
    features={"image": Image(), "label": ClassLabel(names=label_names("food101"))},
    rows={"train": 75_750, "validation": 25_250},
    supervised_keys=("image", "label"),
    homepage="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    citation="@inproceedings{bossard2014food, title={Food-101 -- Mining Discriminative Components with Random Forests}, "
    "author={Bossard, Lukas and Guillaumin, Matthieu and Van Gool, Luc}, year={2014}}",
)
def food101(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Photographs of 101 dishes, 1,000 of each; some of those for training have wrong labels, on purpose."""
    archive = sources["archive"]
    listed = json.loads(archive_file(archive, f"food-101/meta/{FILES[split]}.json"))
    wanted = {f"food-101/images/{name}.jpg": (name, label) for label, names in listed.items() for name in names}
    for path, file in archive_files(archive, wanted.__contains__):
        name, label = wanted[path]
        yield name, {"image": file.read(), "label": label}
