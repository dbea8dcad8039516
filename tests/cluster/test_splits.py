"""How a plan is cut: what every split gives, and in which order they come together."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.framing import framed

import headrace as hr
from headrace.cluster.splits import find_cut, split_plan
from headrace.dataset import Dataset
from headrace.testing import check_transformation, same

D = hr.Dataset


def double(x):
    return int(x) * 2


def draw(x, rng):
    return x, rng.random()


def splits_of(ds, count):
    cut = find_cut(ds._node, count)
    return cut, [Dataset(split_plan(ds._node, cut, count, i)) for i in range(count)]


def texts(folder, files=5, lines=7):
    names = []
    for i in range(files):
        path = folder / f"{i}.txt"
        path.write_text("".join(f"{i}:{j}\n" for j in range(lines)))
        names.append(str(path))
    return names


def in_turn(parts, block_length=1):
    rows, parts = [], [iter(part) for part in parts]
    while parts:
        alive = []
        for part in parts:
            taken = [row for _, row in zip(range(block_length), part, strict=False)]
            rows += taken
            if len(taken) == block_length:
                alive.append(part)
        parts = alive
    return rows


def assert_same(got, want):
    assert len(got) == len(want)
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("splits", [2, 3, 7, 40])
@pytest.mark.parametrize(
    "ds",
    [
        D.range(29),
        D.range(29).map(double, mode="eager"),
        D.range(29).map(lambda x: x * 2).batch(4),
        D.range(29).map(double, mode="eager").batch(4).map(lambda b: b.sum(), mode="eager").batch(2),
        D.range(29).map(double, mode="eager").batch(4, drop_remainder=True),
        D.range(29).shuffle(seed=1).map(double, mode="eager").batch(3),
        D.range(29).shuffle(5, seed=1).random_map(draw, seed=2).batch(3),
        D.range(29).repeat(2).random_map(draw, seed=2),
        D.range(40).take(29).enumerate().map(lambda i, x: i + x),
        D.zip(D.range(29), D.range(29).shuffle(seed=3)).batch(5),
    ],
)
def test_rows_that_are_found_by_number_keep_their_order(ds, splits):
    cut, parts = splits_of(ds, splits)
    assert cut.kind == "rows" and cut.keeps_order
    assert_same(in_turn(parts), list(Dataset(ds._node)))  # in its first epoch


def test_a_split_is_described_by_operations_that_are_there():
    ds = D.range(31).map(double, mode="eager")
    _, parts = splits_of(ds.batch(4), 3)
    for i, part in enumerate(parts):
        assert_same(list(part), list(D.range(31).batch(4).shard(3, i).unbatch().map(double, mode="eager").batch(4)))


def test_files_are_dealt_out_whole(tmp_path):
    names = texts(tmp_path)
    cut, parts = splits_of(hr.TextLineDataset(names).map(str.upper, mode="eager"), 2)
    assert cut.parts.operation == "TextLineDataset"
    assert_same(list(parts[0]), list(hr.TextLineDataset(names[0::2]).map(str.upper, mode="eager")))
    assert_same(list(parts[1]), list(hr.TextLineDataset(names[1::2]).map(str.upper, mode="eager")))


def test_indexed_files_and_row_groups_are_cut_into_ranges(tmp_path):
    record = tmp_path / "x.tfrecord"
    record.write_bytes(framed([b"%d" % i for i in range(23)]))
    table = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(23)}), table, row_group_size=4)
    for ds in (hr.TFRecordDataset(str(record), index=True), hr.ParquetDataset(str(table))):
        cut, parts = splits_of(ds.batch(2), 3)
        assert cut.kind == "ranges" and not cut.keeps_order
        rows = [row for part in parts for row in part]
        assert_same(rows, list(ds.batch(2)))
        assert [len(part) for part in parts] == [4, 4, 4]


def test_partitions_of_a_source_are_dealt_out():
    class Squares(hr.BatchSource):
        schema = pa.schema({"x": pa.int64()})
        parts = 5

        def open(self, part, mark):
            yield pa.record_batch({"x": np.arange(10 * part + mark, 10 * part + 4)})

    cut, parts = splits_of(D.from_batches(Squares()), 2)
    assert cut.parts is not None
    assert [int(row["x"]) for row in parts[1]] == [10, 11, 12, 13, 30, 31, 32, 33]


@pytest.mark.parametrize(
    "after",
    [
        lambda d: d.filter(lambda x: x % 3 > 0),
        lambda d: d.filter(lambda x: x % 3 > 0).shuffle(5, seed=1).batch(4),
        lambda d: d.flat_map(lambda x: D.range(x % 4)),
        lambda d: d.filter(lambda x: x > 2).repeat(2),
        lambda d: d.batch(4).unbatch().filter(lambda x: x > 3),
    ],
)
def test_every_element_is_in_one_split(after):
    ds = after(D.range(30))
    cut, parts = splits_of(ds, 4)
    assert cut.kind == "rows" and not cut.keeps_order
    flat = lambda rows: sorted(np.concatenate([np.atleast_1d(row) for row in rows]).tolist())  # noqa: E731
    assert flat([row for part in parts for row in part]) == flat(list(ds))


def test_draws_are_those_of_one_process_whatever_the_splits(tmp_path):
    names = texts(tmp_path)
    for ds in (
        D.range(30).filter(lambda x: x > 3).random_map(draw, seed=2),
        hr.TextLineDataset(names).random_map(draw),
    ):
        want = sorted(map(repr, ds))
        for splits in (2, 5):
            assert sorted(repr(row) for part in splits_of(ds, splits)[1] for row in part) == want


def test_splits_are_shuffled_each_in_its_own_way():
    _, parts = splits_of(D.range(64).filter(lambda x: x >= 0).shuffle(16, seed=1), 2)
    first, second = ([int(x) // 2 for x in part] for part in parts)
    assert sorted(first) == sorted(second) and first != second


def test_what_counts_all_rows_is_read_by_every_split(tmp_path):
    ds = hr.TextLineDataset(texts(tmp_path)).filter(lambda s: s[-1] != "3").take(11)
    with pytest.raises(ValueError, match="Put it after distribute_over"):
        find_cut(ds._node, 3)
    traced = hr.TextLineDataset(texts(tmp_path)).take(11).map(lambda s: hr.text.upper(s))
    cut, parts = splits_of(traced, 3)
    assert cut.kind == "elements"
    assert_same(in_turn(parts), list(traced))


def test_a_generator_is_refused_unless_it_runs_once():
    ds = D.from_generator(lambda: iter(range(9)), output_signature=hr.TensorSpec((), "int64"))
    with pytest.raises(ValueError, match=r"cannot split from_generator.*save\(\) it"):
        find_cut(ds._node, 2)
    assert find_cut(ds._node, 1).kind == "whole"


@pytest.mark.parametrize("lot", [1, 3])
@pytest.mark.parametrize("index", [0, 2])
def test_the_rows_of_a_split_keep_every_promise(lot, index, tmp_path):
    from headrace.distribute.deal_out import DealOut

    lines = hr.TextLineDataset(texts(tmp_path, 2))
    for ds in (D.range(31), D.range(31).shuffle(7, seed=1), D.range(31).map(lambda x: x * 2), lines, D.range(0)):
        check_transformation(Dataset(DealOut(ds._node, 4, index, lot)), cuts=8)
