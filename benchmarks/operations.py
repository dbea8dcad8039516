"""Operations that group, pad and split, against tf.data.

Both sides get the same rows from memory; speeds are ratios of sides that took turns in one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from harness import Case, batches, elements, main
from peers import tensorflow, untuned

import headrace as hr

ROWS = 20_000
NUMBERS = 100_000
WINDOWED = 5_000


@cache
def sentences() -> hr.Ragged:
    """Rows of 3 to 60 numbers."""
    random = np.random.default_rng(0)
    lengths = random.integers(3, 61, ROWS)
    return hr.Ragged(random.integers(0, 1000, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))


def rows(data: Any) -> Any:
    if data is hr:
        return hr.Dataset.from_tensor_slices(sentences())
    tf = tensorflow()
    ragged = tf.RaggedTensor.from_row_splits(sentences().values, sentences().offsets)
    return tf.data.Dataset.from_tensor_slices(ragged).map(lambda row: row)  # as plain tensors, which padding needs


def tfd() -> Any:
    return tensorflow().data


def length(data: Any) -> Callable[[Any], Any]:
    return len if data is hr else lambda row: tensorflow().shape(row)[0]


def bucketed(data: Any) -> Any:
    return rows(data).bucket_by_sequence_length(length(data), [10, 20, 30, 40, 50], [64] * 6)


def grouped(data: Any) -> Any:
    numbers = data.Dataset.range(NUMBERS)
    return numbers.group_by_window(lambda x: x % 10, lambda _, window: window.batch(100), 100)


def windowed(data: Any) -> Any:
    return data.Dataset.range(WINDOWED).window(5, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(5))


def padded_by_hand() -> Any:
    """Whole batches of a ragged tensor, padded by its own method: another pipeline, and tf.data's fastest."""
    tf = tensorflow()
    ragged = tf.RaggedTensor.from_row_splits(sentences().values, sentences().offsets)
    return untuned(tf.data.Dataset.from_tensor_slices(ragged).batch(64).map(lambda batch: batch.to_tensor()))


def against_tf(
    name: str, asked: float, count: int, job: Callable[[Callable[[], Any]], Any], build: Any, **others: Any
) -> Case:
    forms = {
        "as written": job(lambda: build(tfd())),
        "autotune off": job(lambda: untuned(build(tfd()))),
        "with prefetch": job(lambda: build(tfd()).prefetch(-1)),
    }
    peers = {f"tf.data {how.replace('_', ' ')}": job(other) for how, other in others.items()}
    return Case(name, {"tf.data": asked}, {"headrace": job(lambda: build(hr)), "tf.data": forms, **peers}, count)


CASES = [
    against_tf(
        "padded_batch(64) of ragged rows",
        40,
        ROWS,
        batches,
        lambda data: rows(data).padded_batch(64),
        batch_and_to_tensor=padded_by_hand,
    ),
    against_tf("bucket_by_sequence_length", 20, ROWS, batches, bucketed),
    against_tf("group_by_window", 10, NUMBERS, batches, grouped),
    against_tf("unbatch", 20, NUMBERS, elements, lambda data: data.Dataset.range(NUMBERS).batch(100).unbatch()),
    against_tf("rebatch", 20, NUMBERS, batches, lambda data: data.Dataset.range(NUMBERS).batch(100).rebatch(64)),
    against_tf("window(5).flat_map(batch)", 20, WINDOWED - 4, elements, windowed),
]

if __name__ == "__main__":
    sys.exit(main("headrace: operations", CASES, description=__doc__))
