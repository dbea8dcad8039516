"""Images: decoded, resized and augmented, against tf.data and torchvision.

JPEGs of 500×375 in TFRecord files, PNGs of 28×28, and images of 224×224 in memory. All sides make the same pixels where
they can: TensorFlow's decoder and headrace's give the same bits. Speeds are ratios of sides that took turns in one run.
First passes and peak memory are those of fresh processes; with HEADRACE_CPU=1 first passes count the time of the CPUs.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from harness import Bound, Case, Line, batches, fresh, main, pass_seconds
from peers import tensorflow

import headrace as hr
from headrace.execute.budget import cpus

JPEGS = 512
PNGS = 20_000
AUGMENTED = 256
SIZE = (224, 224)
BATCH = 32
FIRST = 300
"""Images of a first pass."""


def photo(number: int, height: int = 375, width: int = 500) -> np.ndarray:
    """Waves, soft shapes and a little noise, which compress as photographs do: 50 kB at 500×375."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:height, :width]
    waves = np.stack([np.sin(x / (20 + 7 * c + number % 13)) * np.cos(y / (30 + 5 * c)) for c in range(3)], 2)
    coarse = hr.image.resize(rng.normal(0, 40, (height // 8 + 2, width // 8 + 2, 3)), (height, width), "bicubic")
    return (127 + 60 * waves + coarse + rng.normal(0, 3, (height, width, 1))).clip(0, 255).astype(np.uint8)


@cache
def jpegs() -> list[bytes]:
    made = [hr.image.encode_jpeg(photo(i), quality=90) for i in range(64)]
    return [made[i % 64] for i in range(JPEGS)]


@cache
def folder() -> Path:
    return Path(os.environ.get("HEADRACE_IMAGES") or mkdtemp(prefix="headrace-images-"))


@cache
def jpeg_files() -> list[str]:
    made = sorted(folder().glob("jpeg-*.tfrecord"))
    if made:
        return [str(name) for name in made]
    ds = hr.Dataset.from_tensor_slices({"image": jpegs(), "label": np.arange(JPEGS) % 10})
    return ds.write_tfrecord(folder() / "jpeg", shards=4)


def ours(calls: int, at_once: bool = False, batch: int = BATCH) -> Any:
    features = {"image": hr.io.FixedLenFeature([], "S"), "label": hr.io.FixedLenFeature([], np.int64)}

    def load(record: Any) -> Any:
        row = hr.io.parse_single_example(record, features)
        if at_once:
            return hr.image.decode_and_resize(row["image"], SIZE) / 255.0, row["label"]
        pixels = hr.image.decode_jpeg(row["image"], channels=3)
        return hr.image.resize(pixels, SIZE) / 255.0, row["label"]

    return hr.TFRecordDataset(jpeg_files()).map(load, num_parallel_calls=calls).batch(batch).prefetch(hr.AUTOTUNE)


def theirs(calls: int) -> Any:
    tf = tensorflow()
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def load(record: Any) -> Any:
        row = tf.io.parse_single_example(record, features)
        image = tf.image.resize(tf.io.decode_jpeg(row["image"], channels=3), SIZE)
        return image / 255.0, row["label"]

    return tf.data.TFRecordDataset(jpeg_files()).map(load, num_parallel_calls=calls).batch(BATCH).prefetch(-1)


def our_crops(batch: int = 256) -> Any:
    features = {"image": hr.io.FixedLenFeature([], "S"), "label": hr.io.FixedLenFeature([], np.int64)}

    def load(record: Any, rng: Any) -> Any:
        row = hr.io.parse_single_example(record, features)
        pixels = hr.image.decode_jpeg(row["image"], channels=3)
        pixels = hr.image.random_resized_crop(pixels, SIZE, rng, dtype=np.uint8)
        return hr.image.random_flip_left_right(pixels, rng), row["label"]

    return hr.TFRecordDataset(jpeg_files()).random_map(load, seed=1, num_parallel_calls=hr.AUTOTUNE).batch(batch)


def their_crops(batch: int = 256) -> Any:
    tf = tensorflow()
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def load(record: Any) -> Any:
        row = tf.io.parse_single_example(record, features)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(row["image"]),
            tf.zeros([1, 0, 4]),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        image = tf.image.resize(tf.io.decode_and_crop_jpeg(row["image"], window, channels=3), SIZE)
        return tf.cast(tf.round(tf.image.random_flip_left_right(image)), tf.uint8), row["label"]

    return tf.data.TFRecordDataset(jpeg_files()).map(load, num_parallel_calls=-1).batch(batch).prefetch(-1)


FIRST_PASSES = {
    "headrace": lambda: ours(hr.AUTOTUNE).take(FIRST // BATCH),
    "tf.data": lambda: theirs(-1).take(FIRST // BATCH).as_numpy_iterator(),
}


@dataclass(frozen=True)
class FirstPass:
    """The first 300 images, of which each side takes 9 batches in a process of its own.

    A run before compiles our modules, as installers do.
    """

    asked: float
    name: str = f"JPEG 500×375 → 224×224, batch({BATCH}): first {FIRST} images, fresh processes"

    def run(self, rounds: int) -> Iterator[Line]:
        jpeg_files()
        os.environ["HEADRACE_IMAGES"] = str(folder())
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder() / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        pairs = [
            tuple(float(fresh(__file__, "--first", side).split()[-1]) for side in FIRST_PASSES)
            for _ in range(rounds + 1)
        ][1:]
        ratios = [theirs / mine for mine, theirs in pairs]
        median = statistics.median(ratios)
        yield Line(self.name, "tf.data", self.asked, "×", median, ratios, median >= self.asked)


def peak_memory(rounds: int) -> list[float]:
    jpeg_files()
    os.environ["HEADRACE_IMAGES"] = str(folder())
    return [float(fresh(__file__, "--memory").split()[-1]) for _ in range(rounds)]


def peak_of_passes() -> float:
    """Peak memory of this process in MB after two passes in batches of 64."""
    for _ in range(2):
        for _ in ours(hr.AUTOTUNE, batch=64):
            pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def decode_alone() -> int:
    ds = hr.Dataset.from_tensor_slices(jpegs()).map(lambda b: hr.image.decode_jpeg(b, 3), num_parallel_calls=cpus())
    return sum(1 for _ in ds)


def decode_by_a_pool() -> int:
    import simplejpeg

    with ThreadPoolExecutor(cpus()) as pool:
        return sum(1 for _ in pool.map(partial(simplejpeg.decode_jpeg, fastdct=True), jpegs()))


@cache
def pngs() -> list[bytes]:
    made = [hr.image.encode_png(photo(i, 28, 28)[:, :, :1]) for i in range(500)]
    return [made[i % 500] for i in range(PNGS)]


def our_pngs() -> Any:
    ds = hr.Dataset.from_tensor_slices(pngs()).map(lambda b: hr.image.decode_png(b, 1), num_parallel_calls=hr.AUTOTUNE)
    return ds.batch(128)


def their_pngs(calls: int | None) -> Any:
    tf = tensorflow()
    ds = tf.data.Dataset.from_tensor_slices(pngs())
    return ds.map(lambda b: tf.io.decode_png(b, 1), num_parallel_calls=calls).batch(128).prefetch(-1)


@cache
def pictures() -> np.ndarray:
    return np.stack([photo(i, 256, 256) for i in range(64)])[np.arange(AUGMENTED) % 64]


def our_augmentation() -> Any:
    def change(image: Any, rng: Any) -> Any:
        image = hr.image.random_crop(hr.image.random_flip_left_right(image, rng), SIZE, rng)
        image = hr.image.random_brightness(image, 0.4, rng)
        image = hr.image.random_contrast(image, 0.6, 1.4, rng)
        image = hr.image.random_saturation(image, 0.6, 1.4, rng)
        return hr.image.random_hue(image, 0.1, rng)

    ds = hr.Dataset.from_tensor_slices(pictures()).random_map(change, seed=1, num_parallel_calls=hr.AUTOTUNE)
    return ds.batch(BATCH)


@cache
def torchvision() -> Any:
    """Its transforms. With another torch than its wheel was built for it lacks operators: they get names."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    while True:
        try:
            import torchvision.transforms.v2 as found
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}(Tensor x) -> Tensor")
            for name in [n for n in sys.modules if n.startswith("torchvision")]:
                del sys.modules[name]
        else:
            return found, library


@cache
def tensors() -> Any:
    import torch

    return torch.from_numpy(pictures()).permute(0, 3, 1, 2).contiguous()


def their_augmentation(threads: int) -> int:
    import torch

    v2, _ = torchvision()
    change = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(SIZE), v2.ColorJitter(0.4, 0.4, 0.4, 0.1)])
    before = torch.get_num_threads()
    torch.set_num_threads(1 if threads else before)

    def made() -> Iterator[Any]:
        if not threads:
            yield from map(change, tensors())
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(change, tensors())

    rows = list(made())
    for start in range(0, len(rows), BATCH):
        torch.stack(rows[start : start + BATCH])
    torch.set_num_threads(before)
    return len(rows)


CALLS = {"as many calls as cores": cpus(), "AUTOTUNE": hr.AUTOTUNE}
OUR_JPEGS = {
    f"{how}, {name}": batches(partial(ours, calls, at_once))
    for how, at_once in (("decode_jpeg, resize", False), ("decode_and_resize", True))
    for name, calls in CALLS.items()
}
TF_JPEGS = {name: batches(partial(theirs, calls)) for name, calls in CALLS.items()}
CASES = [
    Case("JPEG 500×375 → 224×224, batch(32)", {"tf.data": 1.6}, {"headrace": OUR_JPEGS, "tf.data": TF_JPEGS}, JPEGS),
    FirstPass(1.6),
    Case(
        "JPEG 500×375 → random_resized_crop(224), flip, uint8 batch(256)",
        {"full decodes by a bare thread pool": 1.0},
        {
            "headrace": batches(our_crops),
            "full decodes by a bare thread pool": decode_by_a_pool,
            "tf.data (decode_and_crop_jpeg)": batches(their_crops),
        },
        JPEGS,
    ),
    Bound("peak memory of JPEG → 224×224, batch(64)", 450, "MB", peak_memory),
    Case(
        "JPEG decoding alone",
        {"a bare thread pool": 0.9},
        {"headrace": decode_alone, "a bare thread pool": decode_by_a_pool},
        JPEGS,
    ),
    Case(
        "PNG 28×28",
        {"tf.data": 6},
        {
            "headrace": batches(our_pngs),
            "tf.data": {"AUTOTUNE": batches(partial(their_pngs, -1)), "one thread": batches(partial(their_pngs, None))},
        },
        PNGS,
    ),
    Case(
        "flip, crop, colours of 224×224",
        {"torchvision v2": 4},
        {
            "headrace": batches(our_augmentation),
            "torchvision v2": {
                "its own threads": partial(their_augmentation, 0),
                "a thread pool": partial(their_augmentation, cpus()),
            },
        },
        AUGMENTED,
    ),
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["--first"]:
        build = FIRST_PASSES[sys.argv[2]]()
        import pyarrow as pa  # imports are not counted

        assert pa
        print(pass_seconds(build))
        sys.exit()
    if sys.argv[1:2] == ["--memory"]:
        print(peak_of_passes())
        sys.exit()
    sys.exit(main("headrace: images", CASES, description=__doc__))
