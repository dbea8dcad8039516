"""A hunt for small pipelines that a peer runs faster: many sources through many operations, against tf.data and torch.

All sides of a line take turns in one process, after a pass each that does not count. What counts is the time of a pass
by wall clock or, with HEADRACE_CPU=1, of the process's CPUs, which a busy machine disturbs less. The worst lines come
first; `--rounds 3` is enough to look around.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from harness import Line, against_peers, main, pass_seconds
from peers import tensorflow

import headrace as hr

Build = Callable[[], Iterable[Any]]
D = hr.Dataset
RNG = np.random.default_rng(0)
SIZE = 32


@dataclass(frozen=True)
class Source:
    """The same rows for every side."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    rows: Callable[[], Any] | None = None
    """Something that can be indexed, or a generator function, for PyTorch."""


@dataclass(frozen=True)
class Operation:
    """What is done to a dataset, on each side; `each` to a row, where PyTorch's loader can do it."""

    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]
    each: Callable[[Any], Any] | None = None
    shuffled: bool = False


def tf() -> Any:
    return tensorflow()


def slices(data: Any) -> Source:
    rows = data if isinstance(data, np.ndarray) else None
    return Source(
        lambda: D.from_tensor_slices(data),
        lambda: tf().data.Dataset.from_tensor_slices(data),
        None if rows is None else lambda: rows,
    )


def generated(make: Callable[[], Iterator[Any]], shape: tuple[int, ...], dtype: Any) -> Source:
    return Source(
        lambda: D.from_generator(make, output_signature=hr.TensorSpec(shape, dtype)),
        lambda: tf().data.Dataset.from_generator(make, output_signature=tf().TensorSpec(shape, dtype)),
        lambda: make,
    )


def integers() -> Iterator[int]:
    yield from range(5_000)


def vectors() -> Iterator[Any]:
    for i in range(1_000):
        yield np.full(256, i, np.float32)


@cache
def shards(count: int, records: int, size: int) -> list[str]:
    kept = tempfile.TemporaryDirectory(prefix="headrace-hunt-")
    _kept.append(kept)
    names = [str(Path(kept.name, f"{i}.tfrecord")) for i in range(count)]
    for name in names:
        with hr.io.TFRecordWriter(name) as writer:
            for j in range(records):
                writer.write(bytes([j % 251]) * size)
    return names


_kept: list[Any] = []


def records(count: int, each: int, size: int) -> Source:
    return Source(
        lambda: hr.TFRecordDataset(shards(count, each, size)),
        lambda: tf().data.TFRecordDataset(shards(count, each, size)),
    )


NUMBERS = {
    "20,000 numbers": slices(np.arange(20_000)),
    "4,000 vectors of 64": slices(RNG.random((4_000, 64), np.float32)),
    "300 images of 64²": slices(RNG.integers(0, 256, (300, 64, 64, 3), np.uint8)),
    "numbers from a generator": generated(integers, (), np.int64),
    "vectors from a generator": generated(vectors, (256,), np.float32),
}
TEXTS = {
    "5,000 texts": slices(np.array([b"word %d" % i for i in range(5_000)], object)),
    "4,000 records of 100 B": records(4, 1_000, 100),
    "400 records of 50 kB": records(4, 100, 50_000),
    "500 files of 4 records": records(500, 4, 40),
}
TABLES = {
    "a table of 3 columns": slices(
        {"a": RNG.random((4_000, 8), np.float32), "b": np.arange(4_000), "c": RNG.random(4_000)}
    ),
    "a table of 60 columns": slices({f"c{i:02}": np.arange(2_000) for i in range(60)}),
}


def choosy(x: Any) -> Any:
    if x.sum() % 2 > 0:
        return x * 2
    return x


def tf_choosy(x: Any) -> Any:
    t = tf()
    odd = t.reduce_sum(t.cast(x, t.float32)) % 2 > 0
    return t.cond(odd, lambda: x * 2, lambda: x)


def mirrored(x: Any, rng: Any) -> Any:
    return x[::-1] if rng.random() < 0.5 and x.ndim else x


OF_NUMBERS = {
    "as they are": Operation(lambda d: d, lambda d: d, lambda x: x),
    "x + 1": Operation(lambda d: d.map(lambda x: x + 1), lambda d: d.map(lambda x: x + 1), lambda x: x + 1),
    "x + 1, 2 calls": Operation(lambda d: d.map(lambda x: x + 1, 2), lambda d: d.map(lambda x: x + 1, 2)),
    "cast and scaled": Operation(
        lambda d: d.map(lambda x: x.astype(np.float32) / 255),
        lambda d: d.map(lambda x: tf().cast(x, "float32") / 255),
        lambda x: np.asarray(x).astype(np.float32) / 255,
    ),
    "a Python if": Operation(lambda d: d.map(choosy), lambda d: d.map(tf_choosy), lambda x: choosy(np.asarray(x))),
    "a Python if, AUTOTUNE": Operation(
        lambda d: d.map(choosy, hr.AUTOTUNE), lambda d: d.map(tf_choosy, tf().data.AUTOTUNE)
    ),
    "filtered": Operation(
        lambda d: d.filter(lambda x: x.sum() % 3 < 1),
        lambda d: d.filter(lambda x: tf().reduce_sum(tf().cast(x, "float32")) % 3 < 1),
    ),
    "shuffle(1000)": Operation(
        lambda d: d.shuffle(1_000, 1), lambda d: d.shuffle(1_000, 1), lambda x: x, shuffled=True
    ),
    "shuffled, mapped, prefetched": Operation(
        lambda d: d.shuffle(1_000, 1).map(lambda x: x + 1, hr.AUTOTUNE).prefetch(2),
        lambda d: d.shuffle(1_000, 1).map(lambda x: x + 1, tf().data.AUTOTUNE).prefetch(2),
    ),
    "enumerated, every second": Operation(lambda d: d.enumerate().shard(2, 0), lambda d: d.enumerate().shard(2, 0)),
    "repeated twice, 90 %": Operation(
        lambda d: d.repeat(2).skip(50).take(10_000), lambda d: d.repeat(2).skip(50).take(10_000)
    ),
    "zipped with itself": Operation(lambda d: D.zip((d, d)), lambda d: tf().data.Dataset.zip((d, d))),
    "in windows of 5": Operation(
        lambda d: d.window(5, drop_remainder=True).flat_map(lambda w: w.batch(5)),
        lambda d: d.window(5, drop_remainder=True).flat_map(lambda w: w.batch(5)),
    ),
}
OF_TEXTS = {
    "as they are": Operation(lambda d: d, lambda d: d),
    "shuffle(1000)": Operation(lambda d: d.shuffle(1_000, 1), lambda d: d.shuffle(1_000, 1)),
    "shuffled, prefetched": Operation(lambda d: d.shuffle(300, 1).prefetch(2), lambda d: d.shuffle(300, 1).prefetch(2)),
    "every third, repeated": Operation(lambda d: d.shard(3, 1).repeat(3), lambda d: d.shard(3, 1).repeat(3)),
}
OF_TABLES = {
    "as they are": Operation(lambda d: d, lambda d: d),
    "one column made": Operation(
        lambda d: d.map(lambda row: {**row, "new": next(iter(row.values())) * 2}),
        lambda d: d.map(lambda row: {**row, "new": next(iter(row.values())) * 2}),
    ),
    "shuffle(1000)": Operation(lambda d: d.shuffle(1_000, 1), lambda d: d.shuffle(1_000, 1)),
    "cached, second pass": Operation(lambda d: d.cache(), lambda d: d.cache()),
}


class Rows:
    """Rows by number through a function, as PyTorch's loader reads them."""

    def __init__(self, rows: Any, each: Callable[[Any], Any]) -> None:
        self._rows = rows
        self._each = each

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> Any:
        return self._each(self._rows[i])


def shuffled(rows: Iterable[Any], size: int) -> Iterator[Any]:
    """What shuffle(size) gives, as one writes it for PyTorch, which shuffles no streams."""
    draw, rest = random.Random(1), iter(rows)
    held = list(islice(rest, size))
    for row in rest:
        i = draw.randrange(size)
        held[i], given = row, held[i]
        yield given
    draw.shuffle(held)
    yield from held


def loader(source: Source, operation: Operation, size: int | None) -> Iterable[Any]:
    import torch.utils.data as td

    assert source.rows is not None
    assert operation.each is not None
    rows, each = source.rows(), operation.each
    if not callable(rows):
        return td.DataLoader(Rows(rows, each), batch_size=size, shuffle=operation.shuffled)

    class Stream(td.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return map(each, shuffled(rows(), 1_000) if operation.shuffled else rows())

    return td.DataLoader(Stream(), batch_size=size)


class AsNumpy:
    """A dataset of tf.data, each pass of which gives NumPy arrays."""

    def __init__(self, ds: Any) -> None:
        self._ds = ds

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ds.as_numpy_iterator())


def sides(source: Source, operation: Operation, size: int | None) -> dict[str, Build]:
    def ours() -> Any:
        made = operation.ours(source.ours())
        return made if size is None else made.batch(size)

    def theirs() -> Any:
        made = operation.theirs(source.theirs())
        return AsNumpy(made if size is None else made.batch(size))

    made: dict[str, Build] = {"headrace": ours, "tf.data": theirs}
    if operation.each is not None and source.rows is not None:
        made["torch"] = partial(loader, source, operation, size)
    return made


def cases() -> dict[str, Callable[[], dict[str, Build]]]:
    made: dict[str, Callable[[], dict[str, Build]]] = {}
    families: Iterable[tuple[Mapping[str, Source], Mapping[str, Operation]]] = (
        (NUMBERS, OF_NUMBERS),
        (TEXTS, OF_TEXTS),
        (TABLES, OF_TABLES),
    )
    for sources, operations in families:
        for (of, source), (what, operation) in ((s, o) for s in sources.items() for o in operations.items()):
            made[f"{of}, {what}, batch({SIZE})"] = partial(sides, source, operation, SIZE)
    for what in ("as they are", "x + 1", "a Python if", "filtered", "shuffle(1000)"):
        for of in ("20,000 numbers", "4,000 vectors of 64"):
            made[f"{of}, {what}, one by one"] = partial(sides, NUMBERS[of], OF_NUMBERS[what], None)
    made["files in turn, batch(32)"] = in_turn
    made["children of 5 rows, batch(32)"] = children
    made["padded batches"] = padded
    return made


def in_turn() -> dict[str, Build]:
    names = shards(8, 500, 200)
    return {
        "headrace": lambda: D.from_tensor_slices(names).interleave(hr.TFRecordDataset, 4, 16, 2).batch(SIZE),
        "tf.data": lambda: AsNumpy(
            tf().data.Dataset.from_tensor_slices(names).interleave(tf().data.TFRecordDataset, 4, 16, 2).batch(SIZE)
        ),
    }


def children() -> dict[str, Build]:
    rows = np.arange(5_000).reshape(1_000, 5)
    slices_of = tf().data.Dataset.from_tensor_slices
    return {
        "headrace": lambda: D.from_tensor_slices(rows).flat_map(D.from_tensor_slices).batch(SIZE),
        "tf.data": lambda: AsNumpy(slices_of(rows).flat_map(slices_of).batch(SIZE)),
        "torch": lambda: loader(
            Source(list, list, lambda: lambda: chain.from_iterable(rows)), OF_NUMBERS["as they are"], SIZE
        ),
    }


def padded() -> dict[str, Build]:
    def ragged() -> Iterator[Any]:
        for i in range(3_000):
            yield np.arange(i % 40)

    source = generated(ragged, (None,), np.int64)  # type: ignore[arg-type]
    return {
        "headrace": lambda: source.ours().padded_batch(SIZE),
        "tf.data": lambda: AsNumpy(source.theirs().padded_batch(SIZE)),
    }


@dataclass(frozen=True)
class Hunted:
    """One pipeline against the faster of its peers."""

    name: str

    def run(self, rounds: int) -> Iterator[Line]:
        built = {side: build() for side, build in CASES[self.name]().items()}
        for ds in built.values():
            pass_seconds(ds)
        took: dict[str, list[float]] = {side: [] for side in built}
        for _ in range(rounds):
            for side, ds in built.items():
                took[side].append(pass_seconds(ds))
        best = min(took.keys() - {"headrace"}, key=lambda side: statistics.median(took[side]))
        yield from against_peers(self.name, took, [best])


CASES = cases()

if __name__ == "__main__":
    sys.exit(
        main("headrace: small pipelines where a peer may win", [*map(Hunted, CASES)], description=__doc__, worst=True)
    )
