"""Examples from files to batches, against tf.data: the pipelines that people have.

The files are written to a temporary folder and read from the page cache. The sides take turns in one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness import Bound, Case, batches, main
from peers import forms, numpy_batches, ours, tensorflow

import headrace as hr
from headrace import _native
from headrace.columns.refs import RecordRefs
from headrace.formats.shared.files import LocalFile
from headrace.io.parse import plan

CLICKS, DIGITS, TEXTS = 102_400, 60_000, 50_000
SOME = 8_192
WHOLE, REAL = [f"C{i}" for i in range(26)], [f"I{i}" for i in range(13)]
_folder = TemporaryDirectory(prefix="headrace-benchmark-")


def _put(name: str, columns: dict[str, Any]) -> str:
    path = Path(_folder.name, name)
    with hr.io.TFRecordWriter(path) as writer:
        writer.write_all(hr.io.encode_examples(columns))
    return str(path)


# As Criteo's: 26 categories and 13 counts, batched and then parsed


@cache
def clicks() -> str:
    random = np.random.default_rng(0)
    whole = {name: random.integers(0, 1 << 20, CLICKS) for name in WHOLE}
    return _put("clicks", whole | {name: random.random(CLICKS, np.float32) for name in REAL})


def click_features(io: Any, whole: Any, real: Any) -> dict[str, Any]:
    features = {name: io.FixedLenFeature([], whole) for name in WHOLE}
    return features | {name: io.FixedLenFeature([], real) for name in REAL}


def parsed_clicks() -> hr.Dataset:
    features = click_features(hr.io, np.int64, np.float32)
    records = hr.TFRecordDataset(clicks(), index=False)
    return records.batch(1024).map(lambda batch: hr.io.parse_example(batch, features))


def clicks_one_by_one(calls: int | None = None) -> hr.Dataset:
    """Parsed as single records, which headrace does a block at a time, and then batched: the same batches."""
    features = click_features(hr.io, np.int64, np.float32)
    records = hr.TFRecordDataset(clicks(), index=False)
    return records.map(lambda record: hr.io.parse_single_example(record, features), calls).batch(1024)


def every_way() -> dict[str, Any]:
    """Ours in both orders, in one thread and in two."""
    made = {f"batched first, {name}": job for name, job in ours(parsed_clicks).items()}
    return made | {f"parsed first, {name}": job for name, job in on_one_and_two(clicks_one_by_one).items()}


def on_one_and_two(build: Callable[[int | None], hr.Dataset]) -> dict[str, Any]:
    """Ours with one call at a time and with two, as tf.data's sides have it."""
    made = {}
    for calls in (None, 2):
        forms = ours(lambda calls=calls: build(calls))
        made |= {f"{calls or 1} calls, {name}": job for name, job in forms.items()}
    return made


@cache
def placed_clicks() -> RecordRefs:
    file = LocalFile(clicks())
    memory = file.map_memory()
    file.close()
    bounds, _, _ = _native.RecordScan(memory, 0).bounds(0, len(memory.data), CLICKS)
    return RecordRefs([memory], bounds)


def parser_alone(threads: int) -> Callable[[], int]:
    """Records parsed in place, without a pipeline: what this many cores of this machine give."""
    pool = ThreadPoolExecutor(threads)
    parse = plan(click_features(hr.io, np.int64, np.float32), single=True).fixed_columns

    def some(start: int) -> int:
        records = placed_clicks()
        return len(parse(RecordRefs(records.files, records.where[start : start + SOME + 1]))["C0"])

    return lambda: sum(pool.map(some, range(0, CLICKS, SOME)))


def tf_clicks(calls: int | None) -> Any:
    tf = tensorflow()
    features = click_features(tf.io, tf.int64, tf.float32)
    records = tf.data.TFRecordDataset(clicks())
    return records.batch(1024).map(lambda batch: tf.io.parse_example(batch, features), calls)


# As MNIST's: an image of bytes and a label


@cache
def digits() -> str:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (DIGITS, 784), np.uint8)
    return _put("digits", {"image": [row.tobytes() for row in images], "label": random.integers(0, 10, DIGITS)})


DIGIT = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}


def parse_digit(record: bytes) -> tuple[Any, Any]:
    found = hr.io.parse_single_example(record, DIGIT)
    image = hr.io.decode_raw(found["image"], np.uint8)
    return image.reshape(28, 28).astype(np.float32) / 255, found["label"]


def shuffled_digits(calls: int | None = None) -> hr.Dataset:
    return hr.TFRecordDataset(digits(), index=False).shuffle(10_000).map(parse_digit, calls).batch(128)


def tf_digit_features() -> dict[str, Any]:
    tf = tensorflow()
    return {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def tf_digits(calls: int | None) -> Any:
    tf = tensorflow()
    features = tf_digit_features()

    def parse(record: Any) -> Any:
        found = tf.io.parse_single_example(record, features)
        image = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), (28, 28))
        return tf.cast(image, tf.float32) / 255, found["label"]

    return tf.data.TFRecordDataset(digits()).shuffle(10_000).map(parse, calls).batch(128)


def tf_digits_by_hand(calls: int | None) -> Any:
    """Batched before it is parsed, which is tf.data's advice and another program."""
    tf = tensorflow()
    features = tf_digit_features()

    def parse(records: Any) -> Any:
        found = tf.io.parse_example(records, features)
        images = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), (-1, 28, 28))
        return tf.cast(images, tf.float32) / 255, found["label"]

    return tf.data.TFRecordDataset(digits()).shuffle(10_000).batch(128).map(parse, calls)


# Ids of any number


@cache
def texts() -> str:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 100, TEXTS)
    ids = random.integers(0, 30_000, int(lengths.sum()))
    return _put("texts", {"ids": hr.Ragged(ids, np.concatenate([[0], np.cumsum(lengths)]))})


def padded_texts() -> hr.Dataset:
    features = {"ids": hr.io.RaggedFeature(np.int64)}
    records = hr.TFRecordDataset(texts(), index=False)
    return records.map(lambda record: hr.io.parse_single_example(record, features)["ids"]).padded_batch(64)


def tf_texts(calls: int | None) -> Any:
    tf = tensorflow()
    features = {"ids": tf.io.RaggedFeature(tf.int64)}
    records = tf.data.TFRecordDataset(texts())
    return records.map(lambda record: tf.io.parse_single_example(record, features)["ids"], calls).padded_batch(64)


def with_calls(build: Callable[[int | None], Any]) -> dict[str, Any]:
    """tf.data's forms with every way to run a map."""
    return forms({name: lambda n=n: build(n) for name, n in {"in order": None, "2 calls": 2, "AUTOTUNE": -1}.items()})


CASES: list[Case | Bound] = [
    Case(
        "Criteo-like Examples, batch(1024), parsed",
        {"tf.data": 10},
        {"headrace": every_way(), "tf.data": with_calls(tf_clicks)},
        CLICKS,
    ),
    Case(
        "batch(1024).map(parse_example), as written",
        {"tf.data, as written": 8, "headrace, parsed first": 0.9},
        {
            "headrace": batches(parsed_clicks),
            "tf.data, as written": numpy_batches(lambda: tf_clicks(None)),
            "headrace, parsed first": batches(clicks_one_by_one),
        },
        CLICKS,
    ),
    Case(
        "Criteo-like, parsed on 2 threads",
        {"headrace, on one": 1.7},
        {
            "headrace": batches(lambda: clicks_one_by_one(2)),
            "headrace, on one": batches(lambda: clicks_one_by_one(None)),
        },
        CLICKS,
    ),
    Case(
        "Criteo-like, the parser alone on 2 threads",
        {},
        {"headrace": parser_alone(2), "headrace, on one": parser_alone(1)},
        CLICKS,
    ),
    Case(
        "MNIST-like: shuffle, parse, decode, scale, batch(128)",
        {"tf.data": 8, "tf.data, batched manually": 7},
        {
            "headrace": on_one_and_two(shuffled_digits),
            "tf.data": with_calls(tf_digits),
            "tf.data, batched manually": with_calls(tf_digits_by_hand),
        },
        DIGITS,
    ),
    Case(
        "variable-length ids, parsed, padded_batch(64)",
        {"tf.data": 20},
        {"headrace": ours(padded_texts), "tf.data": with_calls(tf_texts)},
        TEXTS,
    ),
]

if __name__ == "__main__":
    sys.exit(main("headrace: Examples", CASES, description=__doc__))
