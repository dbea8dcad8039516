"""A column kind of another package goes through operations, writers and feeds that know nothing of its class."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_feed, check_transformation
from tests.columns.token_rows import TokenRows, from_token_rows

D = hr.Dataset
ROWS, LENGTH = 12, 5
TOKENS = np.arange(ROWS * LENGTH, dtype=np.int32).reshape(ROWS, LENGTH)
MASK = TOKENS % 3 > 0
DENSE = np.stack([TOKENS, MASK.astype(np.int32)], axis=1)


@pytest.fixture
def tokens():
    return from_token_rows(TOKENS, MASK)


def double(rows):
    return rows * 2


PIPELINES = {
    "plain": lambda ds: ds,
    "batch": lambda ds: ds.batch(5),
    "padded_batch": lambda ds: ds.padded_batch(5, padded_shapes=(2, 8)),
    "ragged_batch": lambda ds: ds.ragged_batch(5),
    "unbatch": lambda ds: ds.unbatch(),
    "batch and unbatch": lambda ds: ds.batch(5).unbatch(),
    "rebatch": lambda ds: ds.batch(5).rebatch(3),
    "shuffle": lambda ds: ds.shuffle(5, seed=1).batch(2),
    "shuffle of everything": lambda ds: ds.shuffle(seed=3),
    "traced map": lambda ds: ds.map(lambda row: {"tokens": row[0], "mask": row[1] > 0}).batch(4),
    "eager map": lambda ds: ds.map(lambda row: int(row[0].sum()) if row[1].any() else 0, num_parallel_calls=2),
    "map_batches": lambda ds: ds.map_batches(double, 4),
    "filter": lambda ds: ds.filter(lambda row: row[0, 0] % 2 == 0),
    "failures": lambda ds: ds.map(lambda row: 60 // int(row[0, 0])).ignore_errors(),
    "cache": lambda ds: ds.cache().repeat(2),
    "zip and concatenate": lambda ds: D.zip((ds.concatenate(ds), D.range(20))),
    "window": lambda ds: ds.window(3, shift=2).flat_map(lambda w: w.batch(3)),
    "interleave": lambda ds: D.range(2).interleave(lambda _: ds),
    "unique": lambda ds: ds.map(lambda row: row // 50).unique(),
    "pack": lambda ds: ds.map(lambda row: row[0]).pack(12),
    "batch_by_tokens": lambda ds: ds.map(lambda row: {"row": row}).batch_by_tokens(20, length=lambda x: 5),
    "group_by_window": lambda ds: ds.group_by_window(lambda row: row[0, 0] % 2, lambda _, w: w.batch(3), 3),
    "a dict": lambda ds: ds.map(lambda row: {"row": row, "first": row[0, 0]}).shuffle(4, seed=2).batch(3),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_operations_keep_their_guarantees_over_it(tokens, name):
    check_transformation(PIPELINES[name](tokens))


def test_it_is_stored_in_its_own_layout(tokens, tmp_path):
    tokens.save(tmp_path / "saved")
    for again in (D.load(tmp_path / "saved"), tokens.cache(tmp_path / "cache")):
        np.testing.assert_array_equal(list(again), DENSE)
        for block in again.iterator().blocks():
            assert type(block.columns[0]) is TokenRows


def test_writers_of_files_get_its_rows(tokens, tmp_path):
    named = tokens.map(lambda row: {"row": row})
    np.testing.assert_array_equal(
        [row["row"] for row in hr.ParquetDataset(named.write_parquet(tmp_path / "parquet"))], DENSE
    )
    files = named.map(lambda row: {"row": row["row"][0]}).write_tfrecord(tmp_path / "records")
    features = {"row": hr.io.FixedLenFeature((LENGTH,), np.int64)}
    read = hr.TFRecordDataset(files).map(lambda record: hr.io.parse_single_example(record, features)["row"])
    np.testing.assert_array_equal(list(read), TOKENS)
    assert np.stack([np.stack(row) for row in named.to_pandas()["row"]]).tolist() == DENSE.tolist()


def test_statistics_and_reductions_count_its_rows(tokens):
    assert tokens.reduce(np.int64(0), lambda total, row: total + row[0].sum()) == TOKENS.sum()
    assert tokens.count() == ROWS
    assert tokens.statistics().rows == ROWS
    dense = D.from_tensor_slices(DENSE)
    assert repr(tokens.statistics()) == repr(dense.statistics())
    assert tokens.map(lambda row: {"row": row}).unique().count() == ROWS
    normalizer = hr.preprocessing.Normalization(axis=None).adapt(tokens)
    assert float(normalizer(np.float32(DENSE.mean()))) == pytest.approx(0, abs=1e-6)


def test_worker_processes_exchange_it(tokens):
    np.testing.assert_array_equal(list(tokens.prefetch(2, mode="process")), DENSE)
    doubled = tokens.map(double, mode="process", num_parallel_calls=2)
    np.testing.assert_array_equal(list(doubled), 2 * DENSE)


def test_feeds_convert_and_resume_it(tokens):
    feed = tokens.shuffle(4, seed=1).batch(3).to_torch()
    assert {tuple(batch.shape) for batch in feed} == {(3, 2, LENGTH)}
    check_feed(feed)
