"""Other loaders: Grain, Hugging Face datasets, WebDataset, SPDL, LitData and MosaicML streaming.

Each is written as its documentation advises for one process, and reads the same rows: 20,000 images of 28 x 28 bytes
with a label, or 2,000 JPEGs. Before the clock starts, the sums of labels and pixels of every side are compared. A
loader that is not installed is skipped.
"""

from __future__ import annotations

import atexit
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case, Job, main

import headrace as hr

sys.path.append(sys.path.pop(0))  # catalogue.py of this folder hides the package that MosaicML streaming imports

D = hr.Dataset
ROWS, BATCH, BUFFER, JPEGS = 20_000, 128, 1_000, 2_000
Batches = Callable[[], Iterable[tuple[Any, Any]]]


@cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="headrace-loaders-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def data() -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return draw.integers(0, 256, (ROWS, 28, 28), np.uint8), draw.integers(0, 10, ROWS)


@cache
def jpegs() -> list[bytes]:
    draw = np.random.default_rng(0)
    small = draw.integers(0, 256, (JPEGS, 24, 32, 3), np.uint8)
    return [hr.image.encode_jpeg(np.kron(image, np.ones((8, 8, 1), np.uint8))) for image in small]


def checked(build: Batches, want: Callable[[], tuple[int, int]]) -> Job:
    """A job that counts rows; the first pass compares the sums of labels and pixels, before the clock counts."""
    made = cache(build)
    compared: list[bool] = []

    def job() -> int:
        if not compared:
            found = np.sum([(np.sum(y, dtype=np.int64), np.sum(x, dtype=np.int64)) for x, y in made()], axis=0)
            if tuple(found.tolist()) != want():
                raise AssertionError(f"other rows: {found}, not {want()}")
            compared.append(True)
        return sum(len(y) for _, y in made())

    return job


def sums() -> tuple[int, int]:
    images, labels = data()
    return int(labels.sum()), int(images.sum(dtype=np.int64))


class Again:
    """An iterable that makes its batches anew in each pass."""

    def __init__(self, start: Callable[[], Iterator[Any]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Any]:
        return self._start()


def in_memory() -> Any:
    return D.from_tensor_slices(data()).shuffle(seed=1).batch(BATCH)


def in_memory_grain() -> Any:
    import grain

    images, labels = data()

    class Source:
        def __len__(self) -> int:
            return ROWS

        def __getitem__(self, number: int) -> tuple[Any, Any]:
            return images[number], labels[number]

    return grain.MapDataset.source(Source()).shuffle(seed=1).to_iter_dataset().batch(BATCH)


def in_memory_huggingface() -> Any:
    import datasets

    images, labels = data()
    features = datasets.Features(x=datasets.Array2D((28, 28), "uint8"), y=datasets.Value("int64"))
    rows = datasets.Dataset.from_dict({"x": images, "y": labels}, features).with_format("numpy")
    shuffled = rows.shuffle(seed=1)
    return Again(lambda: ((batch["x"], batch["y"]) for batch in shuffled.iter(BATCH)))


@cache
def tars() -> list[str]:
    rows = D.from_tensor_slices(data()).enumerate()
    made = rows.map(lambda i, row: {"__key__": f"{i:06}", "npy": row[0], "cls": row[1]})
    return made.write_webdataset(folder() / "rows", shards=4, progress=False)


def from_tars() -> Any:
    pairs = hr.WebDataset(tars()).map(lambda row: (row["npy"], row["cls"]))
    return pairs.shuffle(BUFFER, seed=1).batch(BATCH)


def from_tars_webdataset() -> Any:
    import webdataset

    ds = webdataset.WebDataset(tars(), shardshuffle=False).shuffle(BUFFER).decode().to_tuple("npy", "cls")
    return ds.batched(BATCH)


def on_disk() -> Any:
    images, labels = data()
    rows = D.from_tensor_slices({"x": images, "y": labels})
    rows.save(folder() / "saved")
    return D.load(folder() / "saved").map(lambda row: (row["x"], row["y"])).shuffle(seed=1).batch(BATCH)


def on_disk_mosaic() -> Any:
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    images, labels = data()
    with MDSWriter(out=str(folder() / "mds"), columns={"x": "ndarray:uint8:28,28", "y": "int"}) as writer:
        for x, y in zip(images, labels, strict=True):
            writer.write({"x": x, "y": int(y)})
    ds = StreamingDataset(local=str(folder() / "mds"), shuffle=True, batch_size=BATCH)
    loader = DataLoader(ds, batch_size=BATCH)
    return Again(lambda: ((batch["x"].numpy(), batch["y"].numpy()) for batch in loader))


def on_disk_litdata() -> Any:
    import litdata

    out = str(folder() / "litdata")
    litdata.optimize(row_of_litdata, list(range(ROWS)), out, chunk_bytes="8MB", num_workers=1)
    loader = litdata.StreamingDataLoader(litdata.StreamingDataset(out, shuffle=True), batch_size=BATCH)
    return Again(lambda: ((np.asarray(batch["x"]), np.asarray(batch["y"])) for batch in loader))


def row_of_litdata(number: int) -> dict[str, Any]:
    images, labels = data()
    return {"x": images[number], "y": int(labels[number])}


def decoded_sums() -> tuple[int, int]:
    total = sum(int(hr.image.decode_jpeg(each, channels=3).sum(dtype=np.int64)) for each in jpegs())
    return sum(range(JPEGS)), total


def decoded() -> Any:
    pairs = D.from_tensor_slices((jpegs(), np.arange(JPEGS)))
    decoded = pairs.map(lambda jpeg, y: (hr.image.decode_jpeg(jpeg, channels=3), y), num_parallel_calls=hr.AUTOTUNE)
    return decoded.shuffle(BUFFER, seed=1).batch(32)


def decoded_spdl() -> Any:
    import simplejpeg
    from spdl.pipeline import PipelineBuilder

    rows = list(zip(jpegs(), range(JPEGS), strict=True))

    def decode(row: tuple[bytes, int]) -> tuple[Any, int]:
        return simplejpeg.decode_jpeg(row[0], fastdct=True), row[1]

    def collate(batch: list[tuple[Any, int]]) -> tuple[Any, Any]:
        return np.stack([x for x, _ in batch]), np.array([y for _, y in batch])

    def start() -> Iterator[Any]:
        order = random.Random(1).sample(rows, len(rows))
        threads = hr.Options().cpu_budget or 2
        builder = PipelineBuilder().add_source(order).pipe(decode, concurrency=threads).aggregate(32)
        pipeline = builder.pipe(collate).add_sink(3).build(num_threads=threads)
        with pipeline.auto_stop():
            yield from pipeline

    return Again(start)


CASES = [
    Case(
        "arrays in memory, shuffled, batched",
        {},
        {
            "headrace": checked(in_memory, sums),
            "Grain": checked(in_memory_grain, sums),
            "Hugging Face datasets": checked(in_memory_huggingface, sums),
        },
        ROWS,
    ),
    Case(
        "tar files, shuffled in a buffer, batched",
        {},
        {"headrace": checked(from_tars, sums), "WebDataset": checked(from_tars_webdataset, sums)},
        ROWS,
    ),
    Case(
        "rows on disk, each in its own format, shuffled, batched",
        {},
        {
            "headrace": checked(on_disk, sums),
            "MosaicML streaming": checked(on_disk_mosaic, sums),
            "LitData": checked(on_disk_litdata, sums),
        },
        ROWS,
    ),
    Case(
        "JPEGs of 192 x 256, decoded on threads",
        {},
        {"headrace": checked(decoded, decoded_sums), "SPDL": checked(decoded_spdl, decoded_sums)},
        JPEGS,
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: other loaders", CASES, description=__doc__))
