"""Datasets in TFDS's layout: read and built here, and by TFDS itself.

Directories are written by headrace to a temporary folder and read from the page cache; both read the same files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from harness import Bound, Case, main

import headrace as hr

IMAGES, BUILT = (int(os.environ.get(name, default)) for name, default in (("IMAGES", 20_000), ("BUILT", 200_000)))
_folder = TemporaryDirectory(prefix="headrace-benchmark-")
FOLDER = Path(_folder.name)
F = hr.tfds.features


@cache
def images(file_format: str = "tfrecord") -> Path:
    """Pictures of 28 × 28 as PNG, and labels."""
    random = np.random.default_rng(0)
    kinds = [
        np.kron(random.integers(0, 255, (7, 7), np.uint8), np.ones((4, 4), np.uint8))[..., None] for _ in range(99)
    ]

    @hr.dataset(
        "pictures",
        version="1.0.0",
        features={"image": F.Image(shape=(28, 28, 1)), "label": F.ClassLabel(num_classes=10)},
        splits=["train"],
        supervised_keys=("image", "label"),
        file_format=file_format,
        shards=4,
    )
    def pictures(split: str) -> Iterator[Any]:
        for i in range(IMAGES):
            yield i, {"image": kinds[i % 99], "label": i % 10}

    return Path(pictures.build(FOLDER / file_format).data_path)


def ours() -> int:
    ds = hr.tfds.builder_from_directory(images()).as_dataset("train", as_supervised=True)
    return sum(len(labels) for _, labels in ds.shuffle().batch(128))


def theirs() -> int:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(images()))
    ds = builder.as_dataset(split="train", as_supervised=True, shuffle_files=True)
    return sum(len(labels) for _, labels in ds.cache().shuffle(IMAGES).batch(128).prefetch(-1).as_numpy_iterator())


def data_source() -> int:
    """As its guide says: random access, and a loader that shuffles and batches."""
    import tensorflow_datasets as tfds

    source = tfds.builder_from_directory(str(images("array_record"))).as_data_source(split="train")
    order = np.random.default_rng(0).permutation(len(source))
    rows = 0
    for first in range(0, len(order), 128):
        batch = source.__getitems__(order[first : first + 128].tolist())
        np.stack([row["image"] for row in batch])
        rows += len(np.array([row["label"] for row in batch]))
    return rows


def generated() -> Iterator[Any]:
    for i in range(BUILT):
        yield i, {"x": i, "half": i / 2, "text": f"row {i}", "label": i % 10}


_numbers = count()


def build_ours() -> int:
    features = {"x": np.int64, "half": np.float32, "text": F.Text(), "label": F.ClassLabel(num_classes=10)}

    @hr.dataset("rows", version="1.0.0", features=features, splits=["train"])
    def rows(split: str) -> Iterator[Any]:
        return generated()

    folder = FOLDER / f"ours{next(_numbers)}"
    found = rows.build(folder).info.splits["train"].num_examples
    shutil.rmtree(folder)
    return int(found)


@cache
def their_builder() -> Any:
    import tensorflow_datasets as tfds

    class Rows(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            features = {"x": np.int64, "half": np.float32, "text": tfds.features.Text()}
            features["label"] = tfds.features.ClassLabel(num_classes=10)
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            yield from generated()

    return Rows


def build_theirs() -> int:
    folder = FOLDER / f"theirs{next(_numbers)}"
    builder = their_builder()(data_dir=str(folder))
    builder.download_and_prepare()
    shutil.rmtree(folder)
    return int(builder.info.splits["train"].num_examples)


def imports(rounds: int) -> list[float]:
    """Seconds that the modules of hr.tfds take by themselves, within `import headrace`."""
    found = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import headrace"], capture_output=True, text=True, check=True
        )
        lines = [line.split("|") for line in done.stderr.splitlines() if "headrace.tfds" in line]
        found.append(sum(int(line[0].split(":")[1]) for line in lines) / 1e6)
    return found


CASES = [
    Case(
        "pictures: load, as_supervised, shuffle, batch",
        {"tfds.load": 10, "tfds.data_source": 5},
        {"headrace": ours, "tfds.load": theirs, "tfds.data_source": data_source},
        IMAGES,
    ),
    Case("build from a generator", {"tfds": 10}, {"headrace": build_ours, "tfds": build_theirs}, BUILT),
    Bound("import of hr.tfds", 0.1, "s", imports, min),
]

if __name__ == "__main__":
    sys.exit(main("headrace: datasets in TFDS's layout", CASES, description=__doc__))
