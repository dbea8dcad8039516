"""Elements that are ragged themselves, batched as tf.data batches them: with one rank more."""

import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")

ROWS = [[[1], [2, 3]], [[4]], [[], [5]], [], [[6, 7, 8]]]


def ours(rows):
    inner = hr.Ragged.from_rows([row for each in rows for row in each], "int64")
    offsets = [0]
    for each in rows:
        offsets.append(offsets[-1] + len(each))
    return hr.Dataset.from_tensor_slices(hr.Ragged(inner, offsets))


def theirs(rows):
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant(rows, dtype=tf.int64, ragged_rank=2))


PIPELINES = {
    "elements": lambda ds: ds,
    "batch": lambda ds: ds.batch(2),
    "batch, dropping": lambda ds: ds.batch(2, drop_remainder=True),
    "batch of batches": lambda ds: ds.batch(2).batch(2, drop_remainder=True),
    "unbatched again": lambda ds: ds.batch(3).unbatch(),
    "shuffled": lambda ds: ds.batch(5).unbatch().skip(1).batch(4),
    "ragged_batch": lambda ds: ds.ragged_batch(2),
    "repeated": lambda ds: ds.repeat(2).batch(4).take(2),
    "cached": lambda ds: ds.cache().batch(2),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_ragged_elements(pipeline):
    got = [each.to_list() for each in PIPELINES[pipeline](ours(ROWS))]
    want = [each.to_list() for each in PIPELINES[pipeline](theirs(ROWS))]
    assert got == want


def test_rows_of_a_ragged_batch_again():
    rows = [[1], [2, 3], [4, 5, 6], []]
    dataset = hr.Dataset.from_tensor_slices(hr.Ragged.from_rows(rows)).ragged_batch(2)
    other = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(rows, dtype=tf.int64)).ragged_batch(2)
    for deeper in (lambda ds: ds, lambda ds: ds.batch(2), lambda ds: ds.ragged_batch(1)):
        assert [e.to_list() for e in deeper(dataset)] == [e.to_list() for e in deeper(other)]
