"""Feature columns against tf.feature_column, from files of Examples to ids, and hashing alone.

As Criteo's: 13 numbers in buckets, 26 categories hashed to 100,000 ids, 3 crosses of two categories; batches of 1024.
The files are written to a temporary folder and read from the page cache. The sides take turns in one run.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, main
from peers import numpy_batches, ours, tensorflow, untuned

import headrace as hr
from headrace import _native

ROWS, STRINGS = 122_880, 1_000_000
NUMBERS, CATEGORIES = [f"I{i}" for i in range(13)], [f"C{i}" for i in range(26)]
CROSSES = [("C0", "C1"), ("C2", "C3"), ("C4", "C5")]
BOUNDARIES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
_folder = TemporaryDirectory(prefix="headrace-benchmark-")


@cache
def clicks() -> str:
    """Categories are eight hexadecimal digits, as in Criteo's files."""
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {name: random.random(ROWS, np.float32) for name in NUMBERS}
    for name in CATEGORIES:
        columns[name] = np.array([b"%08x" % n for n in random.integers(0, 1 << 20, ROWS)], object)
    path = Path(_folder.name, "clicks")
    with hr.io.TFRecordWriter(path) as writer:
        writer.write_all(hr.io.encode_examples(columns))
    return str(path)


def columns(library: Any) -> list[Any]:
    made = [library.bucketized_column(library.numeric_column(name), BOUNDARIES) for name in NUMBERS]
    made += [library.categorical_column_with_hash_bucket(name, 100_000) for name in CATEGORIES]
    return made + [library.crossed_column(list(pair), 100_000) for pair in CROSSES]


def features(io: Any, real: Any, text: Any) -> dict[str, Any]:
    made = {name: io.FixedLenFeature([], real) for name in NUMBERS}
    return made | {name: io.FixedLenFeature([], text) for name in CATEGORIES}


def layer() -> hr.feature_column.DenseFeatures:
    fc = hr.feature_column
    buckets = len(NUMBERS)
    made = columns(fc)
    return fc.DenseFeatures([*made[:buckets], *(fc.embedding_column(column, 8) for column in made[buckets:])])


def our_rows(calls: int | None = None) -> hr.Dataset:
    """Parsed and made ids row by row, as it reads; it runs on blocks."""
    asked, ids = features(hr.io, np.float32, bytes), layer().ids
    records = hr.TFRecordDataset(clicks(), index=False)
    return records.map(lambda record: ids(hr.io.parse_single_example(record, asked)), calls).batch(1024)


def our_batches(calls: int | None) -> hr.Dataset:
    """As the other side: batches of records first."""
    asked, ids = features(hr.io, np.float32, bytes), layer().ids
    records = hr.TFRecordDataset(clicks(), index=False)
    return records.batch(1024).map(lambda batch: ids(hr.io.parse_example(batch, asked)), calls)


def every_way() -> dict[str, Any]:
    made = {f"rows, {name}": job for name, job in ours(our_rows).items()}
    made |= {f"rows, 2 calls, {name}": job for name, job in ours(lambda: our_rows(2)).items()}
    return made | {f"batches, 2 calls, {name}": job for name, job in ours(lambda: our_batches(2)).items()}


def tf_function() -> Any:
    """From parsed features to ids."""
    tf = tensorflow()
    from tensorflow.python.feature_column import feature_column_v2 as v2

    tf.get_logger().setLevel("ERROR")
    made = columns(tf.feature_column)

    def ids(parsed: Any) -> Any:
        raw = v2.FeatureTransformationCache(parsed)
        return {column.name: column.get_sparse_tensors(raw, None).id_tensor.values for column in made}

    return ids


def tf_ids(calls: int | None) -> Any:
    tf = tensorflow()
    asked, ids = features(tf.io, tf.float32, tf.string), tf_function()
    records = tf.data.TFRecordDataset(clicks()).batch(1024)
    return records.map(lambda batch: ids(tf.io.parse_example(batch, asked)), calls)


@cache
def parsed() -> dict[str, Any]:
    """The columns of all records, a batch a line."""
    asked = features(hr.io, np.float32, bytes)
    records = hr.TFRecordDataset(clicks(), index=False).batch(ROWS).get_single_element()
    return {name: column.reshape(-1, 1024) for name, column in hr.io.parse_example(records, asked).items()}


def in_memory(calls: int | None) -> tuple[Any, Any]:
    """Batches that are parsed already, through both."""

    def theirs() -> Any:
        # a column of bytes objects has to become a tensor once, before the clock runs
        return untuned(tensorflow().data.Dataset.from_tensor_slices(parsed()).map(tf_function(), calls))

    def mine() -> hr.Dataset:
        return hr.Dataset.from_tensor_slices(parsed()).map(layer().ids, calls)

    return ours(mine)["as written"], numpy_batches(theirs)


def tf_forms() -> dict[str, Any]:
    """In two threads, and in as many as it likes."""
    return {
        "2 calls": numpy_batches(lambda: untuned(tf_ids(2))),
        "2 calls, prefetch": numpy_batches(lambda: untuned(tf_ids(2).prefetch(2))),
        "AUTOTUNE": numpy_batches(lambda: tf_ids(tensorflow().data.AUTOTUNE)),
    }


def our_thread() -> Any:
    return ours(our_rows)["as written"]


def tf_thread() -> Any:
    def build() -> Any:
        options = tensorflow().data.Options()
        options.autotune.enabled = False
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        return tf_ids(None).with_options(options)

    return numpy_batches(build)


@cache
def strings() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(0).integers(0, 1 << 32, STRINGS)
    joined = _native.join_bytes([b"%08x" % n for n in numbers])
    assert joined is not None
    return joined


def nanoseconds_to_hash(rounds: int) -> list[float]:
    """Nanoseconds a string on one core: fingerprint and bucket."""
    found, salt, (values, offsets) = [], np.empty(0, np.uint64), strings()
    for _ in range(rounds):
        started = perf_counter()
        hashes, ids = np.empty(STRINGS, np.uint64), np.empty(STRINGS, np.int64)
        _native.hash_text(values, offsets, salt, hashes)
        _native.hash_buckets(hashes, 100_000, 0, ids)
        found.append((perf_counter() - started) / STRINGS * 1e9)
    return found


PARSED = in_memory(2)
CASES: list[Case | Bound] = [
    Case("Examples to ids of 42 columns", {"tf.data": 8.0}, {"headrace": every_way(), "tf.data": tf_forms()}, ROWS),
    Case("the same, one thread each", {}, {"headrace": our_thread(), "tf.data": tf_thread()}, ROWS),
    Case("parsed batches to ids", {}, {"headrace": PARSED[0], "tf.data": PARSED[1]}, ROWS),
    Bound("hashing a string of 8 bytes to an id, one core (15 M/s)", 1000 / 15, "ns", nanoseconds_to_hash),
]


if __name__ == "__main__":
    sys.exit(main("headrace: feature columns", CASES, description=__doc__))
