"""A program whose types are checked: each `assert_type` says what a type checker infers. It is not run."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import headrace as hr

Image = NDArray[np.float32]


def parse(record: bytes) -> tuple[Image, int]:
    return np.frombuffer(record, np.float32), len(record)


def length(image: Image, label: int) -> int:
    return len(image) + label


def noisy(image: Image, label: int, rng: np.random.Generator) -> Image:
    return image + rng.normal(size=image.shape).astype(np.float32) * label


records = hr.TFRecordDataset(["a.tfrecord"])
assert_type(records, hr.Dataset[bytes])

parsed = records.map(parse, num_parallel_calls=hr.AUTOTUNE)
assert_type(parsed, hr.Dataset[tuple[Image, int]])
assert_type(parsed.map(length), hr.Dataset[int])
assert_type(parsed.random_map(noisy, seed=1), hr.Dataset[Image])

chain = parsed.filter(lambda image, label: label > 0).shuffle(100, seed=1).repeat(2).skip(1).take(5).shard(2, 0)
assert_type(chain, hr.Dataset[tuple[Image, int]])
assert_type(chain.cache().prefetch(2).with_options(hr.Options(cpu_budget=2)), hr.Dataset[tuple[Image, int]])
assert_type(chain.enumerate(), hr.Dataset[tuple[np.int64, tuple[Image, int]]])
assert_type(chain.concatenate(parsed).ignore_errors().unique(), hr.Dataset[tuple[Image, int]])


def open_file(name: str) -> hr.Dataset[bytes]:
    return hr.TFRecordDataset(name)


files = hr.Dataset.list_files("*.tfrecord")
assert_type(files.interleave(open_file, cycle_length=2), hr.Dataset[bytes])
assert_type(files.flat_map(open_file), hr.Dataset[bytes])

for image, label in chain:
    assert_type(image, Image)
    assert_type(label, int)

iterator = chain.iterator()
assert_type(next(iterator), tuple[Image, int])
assert_type(iterator.state(), dict[str, Any])
assert_type(parsed.map(length).get_single_element(), int)
assert_type(chain.batch(2), hr.Dataset[Any])
assert_type(hr.Dataset.from_tensor_slices([1, 2]), hr.Dataset[Any])
