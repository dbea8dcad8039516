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


CIFAR = int(os.environ.get("CIFAR", "10000"))
"""Rows of each of six files: 10,000 are those of the real one."""


@cache
def cifar_archive() -> Path:
    """A file in CIFAR-10's binary format, of smooth pictures with some noise."""
    import io
    import tarfile

    random = np.random.default_rng(0)
    coarse = random.integers(0, 255, (500, 3, 8, 8), np.uint8).repeat(4, 2).repeat(4, 3).reshape(500, -1)
    path = FOLDER / "cifar-10-binary.tar.gz"
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in names:
            pixels = coarse[random.integers(0, 500, CIFAR)] + random.integers(0, 8, (CIFAR, 3072), np.uint8)
            data = np.hstack([random.integers(0, 10, (CIFAR, 1), np.uint8), pixels]).tobytes()
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        words = "airplane automobile bird cat deer dog frog horse ship truck".replace(" ", "\n").encode()
        entry = tarfile.TarInfo("cifar-10-batches-bin/batches.meta.txt")
        entry.size = len(words)
        archive.addfile(entry, io.BytesIO(words))
    return path


def cifar_ours() -> int:
    from copy import copy

    from headrace.datasets.public import public_configs

    dataset = copy(public_configs("cifar10")[None])
    dataset.sources = {"archive": hr.catalogue.SourceFile(str(cifar_archive()))}
    folder = FOLDER / f"ours{next(_numbers)}"
    found = dataset.build(folder).info.splits.total_num_examples
    shutil.rmtree(folder)
    return int(found)


def cifar_theirs() -> int:
    import tarfile

    import tensorflow_datasets as tfds
    from etils import epath

    class Files:
        downloaded_size = 0

        def download_and_extract(self, url: str) -> Any:
            with tarfile.open(cifar_archive()) as archive:
                archive.extractall(folder / "extracted", filter="data")
            return epath.Path(folder / "extracted")

    folder = FOLDER / f"theirs{next(_numbers)}"
    builder = tfds.builder("cifar10", data_dir=str(folder), try_gcs=False)
    builder._make_download_manager = lambda **_: Files()
    builder.download_and_prepare()
    shutil.rmtree(folder)
    return int(builder.info.splits.total_num_examples)


FIRST_BATCH = """
import time
begin = time.perf_counter()
import headrace as hr
next(iter(hr.load("mnist", split="train", as_supervised=True, data_dir=DATA_DIR).shuffle(1000).batch(32)))
print(time.perf_counter() - begin, time.process_time())
"""


@cache
def first_batches(rounds: int) -> list[list[float]]:
    """Seconds to the first batch of a prepared mnist, of 60,000 rows, in fresh processes: by the clock, and of CPU."""
    import gzip
    import struct
    from copy import copy

    from headrace.datasets.public import public_configs

    random = np.random.default_rng(0)
    sources = {}
    for split, rows in (("train", 60_000), ("test", 100)):
        pictures = random.integers(0, 255, (rows, 7, 7), np.uint8).repeat(4, 1).repeat(4, 2)
        for key, array in (("images", pictures), ("labels", random.integers(0, 10, rows).astype(np.uint8))):
            path = FOLDER / f"{split}-{key}.gz"
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            path.write_bytes(gzip.compress(head + array.tobytes(), 1))
            sources[f"{split}_{key}"] = hr.catalogue.SourceFile(str(path))
    dataset = copy(public_configs("mnist")[None])
    dataset.sources = sources
    dataset.build(FOLDER / "mnist")
    code = FIRST_BATCH.replace("DATA_DIR", repr(str(FOLDER / "mnist")))
    compiled = {**os.environ, "PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode")}  # as packages are installed
    compiled.pop("PYTHONDONTWRITEBYTECODE", None)
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=compiled)
        for _ in range(rounds + 1)
    ]
    return [[float(seconds) for seconds in run.stdout.split()] for run in runs[1:]]


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
    Case("prepare cifar10 (synthetic)", {"tfds": 10}, {"headrace": cifar_ours, "tfds": cifar_theirs}, 6 * CIFAR),
    Bound("first batch of mnist, fresh process", 1.0, "s", lambda rounds: [r[0] for r in first_batches(rounds)], min),
    Bound("the same, CPU time", 1.0, "s", lambda rounds: [r[1] for r in first_batches(rounds)], min),
    Bound("import of hr.tfds", 0.1, "s", imports, min),
]

if __name__ == "__main__":
    sys.exit(main("headrace: datasets in TFDS's layout", CASES, description=__doc__))
