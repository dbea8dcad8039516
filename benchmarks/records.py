"""Records and Examples, without the pipeline around them: checksums, parsing, writing.

Speeds against TensorFlow are ratios of sides that took turns in one run; the others are bounds on one core.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from harness import Bound, Case, main
from peers import tensorflow

import headrace as hr
from headrace import _native
from headrace.cli.scan import scan_records as scan_file
from headrace.formats.shared.index import index_file
from headrace.formats.shared.sidecar import beside_path
from headrace.formats.tfrecord.format import TFRecords

RECORDS, RECORD_BYTES = 100_000, 880
EXAMPLES, BATCH = 20_480, 1024
WRITTEN = 2_000
WHOLE, REAL = [f"C{i}" for i in range(26)], [f"I{i}" for i in range(13)]


@cache
def framed() -> np.ndarray:
    values = np.random.default_rng(0).integers(0, 256, RECORDS * RECORD_BYTES, np.uint8)
    return _native.frame(values, np.arange(RECORDS + 1) * RECORD_BYTES)


@cache
def columns(rows: int) -> dict[str, np.ndarray]:
    """As Criteo's: 26 categories and 13 counts."""
    random = np.random.default_rng(1)
    whole = {name: random.integers(0, 1 << 20, rows) for name in WHOLE}
    return whole | {name: random.random(rows, np.float32) for name in REAL}


@cache
def batches() -> list[Any]:
    records = hr.io.encode_examples(columns(EXAMPLES))
    return [records[i : i + BATCH] for i in range(0, EXAMPLES, BATCH)]


def described(io: Any, whole: Any, real: Any) -> dict[str, Any]:
    features = {name: io.FixedLenFeature([], whole) for name in WHOLE}
    return features | {name: io.FixedLenFeature([], real) for name in REAL}


def parse() -> int:
    features = described(hr.io, np.int64, np.float32)
    return sum(len(hr.io.parse_example(batch, features)["C0"]) for batch in batches())


@cache
def tensors() -> list[Any]:
    return [tensorflow().constant(batch.to_pylist()) for batch in batches()]


def parse_with_tensorflow() -> int:
    tf = tensorflow()
    features = described(tf.io, tf.int64, tf.float32)
    return sum(len(tf.io.parse_example(batch, features)["C0"]) for batch in tensors())


@cache
def folder() -> Any:
    return tempfile.TemporaryDirectory()


@cache
def rows() -> list[dict[str, Any]]:
    taken = columns(EXAMPLES)
    return [{name: column[i].item() for name, column in taken.items()} for i in range(WRITTEN)]


def write_columns() -> int:
    with hr.io.TFRecordWriter(Path(folder().name, "columns.tfrecord")) as writer:
        writer.write_all(hr.io.encode_examples({name: column[:WRITTEN] for name, column in columns(EXAMPLES).items()}))
    return WRITTEN


def write_dataset() -> int:
    taken = {name: column[:WRITTEN] for name, column in columns(EXAMPLES).items()}
    hr.Dataset.from_tensor_slices(taken).write_tfrecord(Path(folder().name, "dataset"), overwrite=True)
    return WRITTEN


def write_dicts() -> int:
    with hr.io.TFRecordWriter(Path(folder().name, "dicts.tfrecord")) as writer:
        for row in rows():
            writer.write(row)
    return WRITTEN


def write_with_tensorflow() -> int:
    tf = tensorflow()
    with tf.io.TFRecordWriter(str(Path(folder().name, "tf.tfrecord"))) as writer:
        for row in rows():
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
                if type(value) is int
                else tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for name, value in row.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return WRITTEN


def seconds(job: Callable[[], Any], per: float) -> Callable[[int], Sequence[float]]:
    """The best of a few runs a round, in seconds for each of `per`."""

    def once() -> float:
        started = perf_counter()
        job()
        return (perf_counter() - started) / per

    return lambda rounds: [min(once() for _ in range(5)) for _ in range(rounds)]


GIGABYTES = RECORDS * (RECORD_BYTES + 16) / 1e9


def scan() -> None:
    _native.scan_records(framed(), 0, RECORDS)


@cache
def file() -> Path:
    path = Path(folder().name, "records.tfrecord")
    path.write_bytes(framed())
    return path


def verify_file() -> None:
    assert scan_file(str(file()), "").records == RECORDS


def index_of_file() -> None:
    Path(beside_path(str(file()))).unlink(missing_ok=True)
    assert index_file(str(file()), TFRecords(), beside=True).count == RECORDS


CASES = [
    Bound("verify records of 880 B", 0.5, "s/GB", seconds(scan, GIGABYTES)),
    Bound("headrace verify of a file", 0.5, "s/GB", seconds(verify_file, GIGABYTES)),
    Bound("index of a file", 0.5, "s/GB", seconds(index_of_file, GIGABYTES)),
    Bound("verify, the checksum by tables", None, "s/GB", seconds(lambda: _native.crc32c(framed(), True), GIGABYTES)),
    Bound("parse Criteo-like Examples", 1 / 1.5, "µs", seconds(parse, EXAMPLES / 1e6)),
    Case("parse Criteo-like Examples", {}, {"headrace": parse, "tf.io, all cores": parse_with_tensorflow}, EXAMPLES),
    *(
        Case(
            f"write Examples from {what}",
            {"TensorFlow": 10},
            {"headrace": job, "TensorFlow": write_with_tensorflow},
            WRITTEN,
        )
        for what, job in {"columns": write_columns, "dicts": write_dicts, "a dataset": write_dataset}.items()
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: records", CASES, description=__doc__))
