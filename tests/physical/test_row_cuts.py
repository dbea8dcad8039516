"""Scans of sources that are cut by rows: stored rows, folders, tables in memory, rows by number."""

import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import ElementError, StorageError
from headrace.iterator import Settings
from headrace.physical.lower import scans
from headrace.testing import check_transformation, our_threads, outcomes
from tests.framing import framed
from tests.physical.test_scan import SERIAL, TINY, passing, plan_of

ROWS = 50


def numbers():
    return hr.Dataset.from_tensor_slices({"x": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)]})


def table():
    columns = {"x": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)], "v": [[i] * (i % 3) for i in range(ROWS)]}
    return pa.table(columns)


def read_through(ds):
    for _ in ds:
        pass
    return ds


def saved(folder):
    numbers().save(folder / "saved")
    return hr.Dataset.load(folder / "saved")


def saved_in_shards(folder):
    numbers().save(folder / "shards", shard_func=lambda row: row["x"] % 3)
    return hr.Dataset.load(folder / "shards")


def cache_in_files(folder):
    return read_through(numbers().map(lambda row: row["x"] * 2).cache(str(folder / "cache")))


def cache_in_memory(folder):
    return read_through(numbers().filter(lambda row: row["x"] % 3 > 0).cache())


def cache_of_calls(folder):
    calls = []
    called = numbers().map(lambda row: (calls.append(1), row["x"])[1], output_signature=hr.TensorSpec((), np.int64))
    ds = read_through(called.cache(str(folder / "calls")))
    assert len(calls) == ROWS
    return ds


def snapshot(folder):
    return read_through(numbers().snapshot(folder / "snapshot"))


def tfds(folder, file_format):
    rows = hr.Dataset.from_tensor_slices({"x": np.arange(5 * ROWS), "y": np.ones((5 * ROWS, 2), np.float32)})
    rows.write_tfds(folder, "numbers", shards=4, progress=False, file_format=file_format)
    return hr.tfds.load("numbers", split="train", data_dir=folder)


def image_folder(folder):
    for i in range(12):
        (folder / "images" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        image = hr.image.encode_png(np.full((4, 3 + i % 2, 3), i, np.uint8))
        (folder / "images" / "ab"[i % 2] / f"{i}.png").write_bytes(image)
    return hr.Dataset.from_image_folder(folder / "images", (2, 2))


def text_folder(folder):
    for i in range(20):
        (folder / "texts" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (folder / "texts" / "ab"[i % 2] / f"{i}.txt").write_text(f"text {i}")
    return hr.Dataset.from_text_folder(folder / "texts")


def huggingface(folder, chosen=slice(None)):
    datasets = pytest.importorskip("datasets")
    return hr.Dataset.from_huggingface(datasets.Dataset(table()).select(range(ROWS)[chosen]))


def polars(folder):
    return hr.Dataset.from_polars(pytest.importorskip("polars").from_arrow(table()))


def indexed(folder):
    for i in range(3):
        (folder / f"{i}.tfrecord").write_bytes(framed([b"%d %d" % (i, j) for j in range(ROWS)]))
    return hr.TFRecordDataset(sorted(map(str, folder.glob("*.tfrecord"))), index=True)


def database(folder, **how):
    with closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
        connection.execute("create table numbers (x integer primary key, s text)")
        connection.executemany("insert into numbers values (?, ?)", [(i, f"row {i}") for i in range(ROWS)])
    return hr.Dataset.from_sql(f"sqlite:///{folder}/rows.db", "SELECT * FROM numbers", key="x", **how)


class Squares(hr.BatchSource):
    schema = pa.schema({"x": pa.int64()})
    parts = 3
    turns = 2

    def open(self, part, mark):
        for x in range(mark, 10 * part + 5, 4):
            yield pa.record_batch({"x": range(x, min(x + 4, 10 * part + 5))})


SOURCES = {
    "saved": saved,
    "saved in shards": saved_in_shards,
    "cache in files": cache_in_files,
    "cache in memory": cache_in_memory,
    "cache of calls": cache_of_calls,
    "snapshot": snapshot,
    "tfds tfrecord": lambda folder: tfds(folder, "tfrecord"),
    "tfds parquet": lambda folder: tfds(folder, "parquet"),
    "tfds array_record": lambda folder: pytest.importorskip("array_record") and tfds(folder, "array_record"),
    "image folder": image_folder,
    "text folder": text_folder,
    "list_files": lambda folder: text_folder(folder) and hr.Dataset.list_files(f"{folder}/texts/*/*", shuffle=False),
    "huggingface": huggingface,
    "huggingface, chosen rows": lambda folder: huggingface(folder, slice(None, None, -2)),
    "arrow": lambda folder: hr.Dataset.from_arrow(table()),
    "pandas": lambda folder: hr.Dataset.from_pandas(table().to_pandas().drop(columns="v")),
    "polars": polars,
    "range": lambda folder: hr.Dataset.range(ROWS),
    "zip": lambda folder: hr.Dataset.zip(hr.Dataset.range(ROWS), numbers().map(lambda row: row["x"] + 1)),
    "slice": lambda folder: numbers()[40:3:-2],
    "elements": lambda folder: numbers()[[3, 1, 4, 1, 5, 9, 2, 6]],
    "shuffle of memory": lambda folder: numbers().shuffle(seed=1),
    "shuffle of a map": lambda folder: numbers().map(lambda row: row["x"] + 1).shuffle(seed=1),
    "shuffle of saved rows": lambda folder: saved(folder).shuffle(seed=1),
    "shuffle with a buffer": lambda folder: numbers().shuffle(7, seed=1),
    "sql with a key": database,
    "sql by number": lambda folder: database(folder, index=True),
    "sql in partitions": lambda folder: database(folder, partitions=3),
    "batches in turn": lambda folder: hr.Dataset.from_batches(Squares()),
    "shuffle of indexed records": lambda folder: indexed(folder).shuffle(seed=1),
}


@pytest.fixture(params=SOURCES)
def source(request, tmp_path):
    return SOURCES[request.param](tmp_path)


def first_leaf(*row):
    return row[0] if not isinstance(row[0], dict) else next(iter(row[0].values()))


def with_draws(ds):
    return ds.map(first_leaf).random_map(lambda x, rng: (x, rng.integers(0, 1000)), seed=3)


def test_what_follows_a_source_runs_in_its_cuts(source):
    ds = with_draws(source)
    (scan,) = scans(plan_of(ds))
    assert scan.input.operation == "random_map"
    check_transformation(ds, cuts=4)


def test_states_of_serial_and_parallel_passes_are_exchanged(source):
    ds = with_draws(source).filter(lambda x, draw: draw % 5 > 0).batch(4)
    whole = outcomes(passing(ds, SERIAL))
    for first, second in [(SERIAL, TINY), (TINY, SERIAL), (TINY, TINY)]:
        it = passing(ds, first)
        taken = outcomes(it, 2)
        state = json.loads(json.dumps(it.state()))
        it.close()
        assert str(taken + outcomes(passing(ds, second, state))) == str(whole)


def test_many_threads_give_the_same_rows_and_leave_nothing_open(source):
    open_files = Path("/proc/self/fd")
    ds = with_draws(source).batch(3)
    whole = str(outcomes(passing(ds, SERIAL)))
    before = len(list(open_files.iterdir())) if open_files.is_dir() else 0
    many = ds.with_options(hr.Options(cpu_budget=16))
    assert str(outcomes(passing(many))) == whole
    it = passing(many)
    next(it)
    it.close()
    assert our_threads() == []
    assert (len(list(open_files.iterdir())) if open_files.is_dir() else 0) <= before


def test_a_global_shuffle_is_fetched_by_the_pool_unless_it_only_copies(tmp_path):
    ds = indexed(tmp_path).shuffle(seed=1).batch(7)
    assert len(scans(plan_of(ds))) == 1
    check_transformation(ds, cuts=5)
    assert scans(plan_of(numbers().shuffle(seed=1).batch(7))) == []


def test_a_shuffle_of_groups_is_fetched_in_lots_and_explain_says_so(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=7)
    ds = hr.ParquetDataset(str(tmp_path / "a.parquet")).shuffle(seed=1).map(lambda row: row["x"] + 1)
    assert scans(plan_of(ds)) == []
    assert "parallel_scan" not in str(ds.explain())


def test_what_is_far_away_is_not_cut(tmp_path):
    names = [f"http://localhost:1/{i}.txt" for i in range(3)]
    from headrace.formats.shared.file_names import NAME, FileNames

    remote = hr.Dataset(FileNames(NAME, len(names), names)).map(lambda name: name + "!")
    rows = database(tmp_path, index=True)[10:20].map(lambda row: row["x"] + 1)
    for ds in (remote, rows):
        assert scans(plan_of(ds)) == []


def test_explain_names_what_is_cut(tmp_path):
    ds = numbers().shuffle(seed=1).map(lambda row: row["x"] + 1).with_options(hr.Options(cpu_budget=2))
    assert "parallel_scan at shuffle:" in str(ds.explain())


def test_a_cache_is_filled_in_order_and_cut_once_it_is_complete(tmp_path):
    calls = []
    signature = hr.TensorSpec((), np.int64)
    called = hr.Dataset.range(ROWS).map(lambda x: (calls.append(int(x)), x)[1], output_signature=signature)
    ds = called.cache(str(tmp_path / "c")).map(lambda x: -x)
    with passing(ds) as it:
        assert [int(next(it)) for _ in range(5)] == [0, -1, -2, -3, -4]
        assert calls == list(range(5))
        assert not it._run.pooled
        assert [int(x) for x in it] == [-x for x in range(5, ROWS)]
    with passing(ds) as it:
        first = [int(next(it)) for _ in range(5)]
        assert it._run.pooled
        assert first + [int(x) for x in it] == [-x for x in range(ROWS)]
    assert calls == list(range(ROWS))


def test_generators_and_calls_are_not_cut():
    def rows():
        yield from range(ROWS)

    generated = hr.Dataset.from_generator(rows, output_signature=hr.TensorSpec((), np.int64)).map(lambda x: x + 1)
    called = hr.Dataset.range(ROWS).map(lambda x: (print(end=""), x)[1]).map(lambda x: x + 1)
    zipped = hr.Dataset.zip(hr.Dataset.range(ROWS), generated).map(lambda x, y: x + y)
    for ds in (generated, called, zipped):
        assert scans(plan_of(ds)) == []


def test_a_row_that_fails_is_an_error_in_its_place(tmp_path):
    ds = text_folder(tmp_path).map(lambda text, label: (int(text[5:]), label))
    (tmp_path / "texts" / "a" / "18.txt").write_text("text no number")
    for settings in (SERIAL, TINY):
        with passing(ds, settings) as it:
            found = outcomes(it)
        assert [kind for kind, _ in found].count("error") == 1
        failed = next(i for i, (kind, _) in enumerate(found) if kind == "error")
        with passing(ds, settings) as it, pytest.raises(ElementError, match=f"element {failed}"):
            list(it)


def test_a_row_of_a_strand_that_fails_is_an_error_in_its_place(tmp_path):
    texts = hr.Dataset.from_tensor_slices([str(i) if i % 9 else "none" for i in range(ROWS)]).shuffle(5, seed=1)
    kept = texts.filter(lambda text: hr.text.length(text) < 9).map(lambda text: hr.text.to_number(text, np.int64))
    ds = kept.filter(lambda x: x % 4 > 0)
    assert len(scans(plan_of(ds))) == 1
    whole = outcomes(passing(ds, SERIAL))
    assert [kind for kind, _ in whole].count("error") == 6
    assert str(outcomes(passing(ds))) == str(whole)
    check_transformation(ds, cuts=10)


def test_explain_says_that_a_strand_is_read_in_order(tmp_path):
    ds = database(tmp_path).map(lambda row: row["x"] + 1).with_options(hr.Options(cpu_budget=2))
    assert "parallel_scan at from_sql: works on rows of the source as they come" in str(ds.explain())


def test_a_file_of_a_folder_that_is_gone_is_an_error_in_its_place(tmp_path):
    ds = image_folder(tmp_path)
    (tmp_path / "images" / "a" / "4.png").unlink()
    whole = outcomes(passing(ds, SERIAL))
    assert [kind for kind, _ in whole].count("error") == 1
    assert str(outcomes(passing(ds))) == str(whole)


def test_damage_to_saved_rows_is_met_by_every_pass(tmp_path):
    ds = saved(tmp_path).map(lambda row: row["x"] + 1)
    (part,) = (tmp_path / "saved").rglob("*.arrow")
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 255
    part.write_bytes(content)
    for settings in (SERIAL, TINY):
        with passing(ds, settings) as it, pytest.raises(StorageError, match="checksum"):
            list(it)


def test_saved_rows_that_were_read_can_be_sent_to_another_process(tmp_path):
    ds = saved(tmp_path)
    rows = list(ds)
    again = hr.Dataset(pickle.loads(pickle.dumps(ds._node)))
    assert list(again) == rows


def test_a_scan_with_fixed_blocks_gives_the_same_rows(tmp_path):
    ds = with_draws(saved(tmp_path))
    assert str(outcomes(passing(ds, Settings(tiny_cuts=True, block_rows=1)))) == str(outcomes(passing(ds, SERIAL)))


def test_the_functions_of_a_chain_are_traced_once_for_all_cuts():
    traced = []

    def double(x):
        traced.append(not isinstance(x, np.generic))
        return x * 2

    chain = hr.Dataset.range(ROWS).map(lambda x: x + 1).map(double)
    assert [int(x) for x in passing(chain)] == [2 * (x + 1) for x in range(ROWS)]
    assert sum(traced) < 5
