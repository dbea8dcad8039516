"""First passes in fresh processes, where every page of memory is new and nothing has been learnt.

Each side of each case runs in an interpreter of its own, all sides in turn, round after round. What counts is the time
of one pass by wall clock or, with HEADRACE_CPU=1, of the process's CPUs, which a busy machine disturbs less; imports,
making the data and building the pipeline are not counted. A line says how many times faster headrace is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from harness import Line, against_peers, fresh, main, pass_seconds
from peers import tensorflow

import headrace as hr

SIDES = ("headrace", "tf.data", "torch")
Build = Callable[[], Iterable[Any]]
D = hr.Dataset


def tf_slices(data: Any) -> Any:
    return tensorflow().data.Dataset.from_tensor_slices(data)


def loader(dataset: Any, **how: Any) -> Iterable[Any]:
    import torch.utils.data as td

    class Rows(td.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return iter(dataset())

    return td.DataLoader(Rows() if callable(dataset) else dataset, **how)


@cache
def images() -> Any:
    return np.random.default_rng(0).integers(0, 256, (320, 224, 224, 3), np.uint8)


@cache
def large() -> Any:
    return np.ones((120, 3 << 20), np.uint8)


def arrays() -> Iterator[Any]:
    for i in range(200):
        yield np.full((512, 512), i, np.float32)


def dicts() -> Iterator[Any]:
    for i in range(10_000):
        yield {"number": i, "vector": np.full(4, i, np.float32)}


def choosy(x: Any) -> Any:
    if x % 2:
        return x * 2
    return x


def folder() -> Path:
    return Path(os.environ.get("HEADRACE_COLD") or tempfile.gettempdir(), "headrace-cold")


def shards(count: int, records: int, size: int) -> list[str]:
    """Names of TFRecord files, which are written once for all processes."""
    home = folder() / f"{count}-{records}-{size}"
    names = [str(home / f"{i:04}.tfrecord") for i in range(count)]
    if not Path(names[-1]).exists():
        home.mkdir(parents=True, exist_ok=True)
        for name in names:
            with hr.io.TFRecordWriter(name) as writer:
                for j in range(records):
                    writer.write(bytes([j % 256]) * size)
    return names


def tiny() -> list[str]:
    return shards(1000, 10, 50)


def of_arrays() -> dict[str, Build]:
    spec = hr.TensorSpec((512, 512), np.float32)

    def tf() -> Any:
        made = tensorflow().data.Dataset.from_generator(
            arrays, output_signature=tensorflow().TensorSpec((512, 512), "float32")
        )
        return made.batch(4).as_numpy_iterator()

    return {
        "headrace": lambda: D.from_generator(arrays, output_signature=spec).batch(4),
        "tf.data": tf,
        "torch": lambda: loader(arrays, batch_size=4),
    }


def of_dicts() -> dict[str, Build]:
    spec = {"number": hr.TensorSpec((), np.int64), "vector": hr.TensorSpec((4,), np.float32)}

    def tf() -> Any:
        t = tensorflow()
        signature = {"number": t.TensorSpec((), "int64"), "vector": t.TensorSpec((4,), "float32")}
        return t.data.Dataset.from_generator(dicts, output_signature=signature).batch(32).as_numpy_iterator()

    return {
        "headrace": lambda: D.from_generator(dicts, output_signature=spec).batch(32),
        "tf.data": tf,
        "torch": lambda: loader(dicts, batch_size=32),
    }


def of_images() -> dict[str, Build]:
    def tf() -> Any:
        t = tensorflow()
        return tf_slices(images()).map(lambda x: t.cast(x, t.float32) / 255.0).batch(32).as_numpy_iterator()

    def torch() -> Any:
        class Rows:
            def __len__(self) -> int:
                return len(images())

            def __getitem__(self, i: int) -> Any:
                return images()[i].astype(np.float32) / 255.0

        return loader_of_rows(Rows(), batch_size=32)

    return {
        "headrace": lambda: D.from_tensor_slices(images()).map(lambda x: x.astype(np.float32) / 255.0).batch(32),
        "tf.data": tf,
        "torch": torch,
    }


def loader_of_rows(rows: Any, **how: Any) -> Iterable[Any]:
    import torch.utils.data as td

    return td.DataLoader(rows, **how)


def of_large() -> dict[str, Build]:
    return {
        "headrace": lambda: D.from_tensor_slices(large()).shuffle(50, seed=1).batch(2),
        "tf.data": lambda: tf_slices(large()).shuffle(50, seed=1).batch(2).as_numpy_iterator(),
        "torch": lambda: loader_of_rows(large(), batch_size=2, shuffle=True),
    }


def of_tiny(**how: Any) -> Callable[[], dict[str, Build]]:
    def build() -> dict[str, Build]:
        return {
            "headrace": lambda: hr.TFRecordDataset(tiny(), **how),
            "tf.data": lambda: tensorflow().data.TFRecordDataset(tiny(), **how).as_numpy_iterator(),
        }

    return build


def of_tiny_in_turn() -> dict[str, Build]:
    def tf() -> Any:
        t = tensorflow()
        turns = tf_slices(tiny()).interleave(t.data.TFRecordDataset, num_parallel_calls=t.data.AUTOTUNE)
        return turns.as_numpy_iterator()

    return {
        "headrace": lambda: D.from_tensor_slices(tiny()).interleave(hr.TFRecordDataset, num_parallel_calls=hr.AUTOTUNE),
        "tf.data": tf,
    }


def of_choosy() -> dict[str, Build]:
    def tf() -> Any:
        t = tensorflow()
        made = t.data.Dataset.range(20_000).map(lambda x: t.cond(x % 2 > 0, lambda: x * 2, lambda: x), 2)
        return made.as_numpy_iterator()

    return {
        "headrace": lambda: D.range(20_000).map(choosy, num_parallel_calls=2),
        "tf.data": tf,
        "torch": lambda: loader(lambda: map(choosy, range(20_000)), batch_size=None),
    }


def of_choices() -> dict[str, Build]:
    def tf() -> Any:
        range_ = tensorflow().data.Dataset.range
        made = tensorflow().data.Dataset.choose_from_datasets([range_(10_000)] * 3, range_(3).repeat(9_000))
        return made.as_numpy_iterator()

    return {
        "headrace": lambda: D.choose_from_datasets([D.range(10_000)] * 3, D.range(3).repeat(9_000)),
        "tf.data": tf,
    }


def of_children() -> dict[str, Build]:
    rows = np.arange(10_000).reshape(2_000, 5)
    return {
        "headrace": lambda: D.from_tensor_slices(rows).flat_map(D.from_tensor_slices),
        "tf.data": lambda: tf_slices(rows).flat_map(tensorflow().data.Dataset.from_tensor_slices).as_numpy_iterator(),
        "torch": lambda: loader(lambda: chain.from_iterable(rows), batch_size=None),
    }


def of_records() -> dict[str, Build]:
    def names() -> list[str]:
        return shards(4, 500, 100_000)

    return {
        "headrace": lambda: hr.TFRecordDataset(names()).shuffle(1000, seed=1).batch(16),
        "tf.data": lambda: (
            tensorflow().data.TFRecordDataset(names()).shuffle(1000, seed=1).batch(16).as_numpy_iterator()
        ),
    }


CASES: dict[str, Callable[[], dict[str, Build]]] = {
    "generator of 1 MB arrays, batch(4)": of_arrays,
    "generator of dicts, batch(32)": of_dicts,
    "224² images cast and scaled, batch(32)": of_images,
    "3 MB elements, shuffle(50), batch(2)": of_large,
    "1,000 tiny TFRecord files": of_tiny(),
    "1,000 tiny TFRecord files, num_parallel_reads=4": of_tiny(num_parallel_reads=4),
    "1,000 tiny TFRecord files, interleave AUTOTUNE": of_tiny_in_turn,
    "a Python if, num_parallel_calls=2": of_choosy,
    "choose_from_datasets of 3": of_choices,
    "flat_map(from_tensor_slices) of 5 rows": of_children,
    "100 kB records, shuffle(1000), batch(16)": of_records,
}


def measure(case: str, side: str) -> float:
    """Seconds of one pass, in this process."""
    import pyarrow as pa  # imports are not counted, nor is one that headrace leaves until it reads text

    assert pa
    return pass_seconds(CASES[case]()[side]())


@dataclass(frozen=True)
class Cold:
    """One case: a fresh process for each side and round."""

    name: str

    def run(self, rounds: int) -> Iterator[Line]:
        sides = [side for side in CASES[self.name]() if side in SIDES]
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                seconds[side].append(float(fresh(__file__, "--measure", self.name, side).split()[-1]))
        yield from against_peers(self.name, seconds, [side for side in sides if side != "headrace"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        tiny(), shards(4, 500, 100_000)
        print(measure(*sys.argv[2:4]))
    else:
        tiny(), shards(4, 500, 100_000)
        sys.exit(main("headrace: first passes in fresh processes", [*map(Cold, CASES)], description=__doc__))
