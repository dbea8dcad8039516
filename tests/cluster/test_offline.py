"""Files, counts and statistics by way of a cluster: the same as by one process, to the byte."""

import os
import signal
import threading
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
from tests.cluster.test_splits import texts

import headrace as hr
from headrace.cluster.ranges import PlanRanges
from headrace.plan.datasets import dataset_of
from headrace.testing import same

D = hr.Dataset


def example(x):
    return {"x": int(x), "name": f"row {int(x)}", "v": np.arange(int(x) % 3)}


def rows(n=400):
    return D.range(n).shuffle(seed=1).filter(lambda x: x % 7 > 0).map(example, mode="eager")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


FEATURES = {"x": np.int64, "name": hr.tfds.features.Text(), "v": hr.tfds.features.Sequence(np.int64)}

WRITERS = {
    "records": lambda ds, folder, **how: ds.write_tfrecord(folder / "a", shards=3, **how),
    "deflated": lambda ds, folder, **how: ds.write_tfrecord(folder / "a", shards=3, compression="GZIP", **how),
    "parquet": lambda ds, folder, **how: ds.write_parquet(folder / "a", **how),
    "in turn": lambda ds, folder, **how: ds.write_parquet(folder / "a", shards=3, **how),
    "samples": lambda ds, folder, **how: ds.map(sample, mode="eager").write_webdataset(folder / "a", **how),
    "tfds": lambda ds, folder, **how: ds.write_tfds(folder, "a", features=FEATURES, shards=2, **how),
    "tfds shuffled": lambda ds, folder, **how: ds.write_tfds(folder, "a", features=FEATURES, shuffle=True, **how),
}


def sample(row):
    return {"__key__": str(row["x"]), "txt": row["name"]}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("ds", [rows(), D.range(300).shuffle(seed=2).map(example, mode="eager")], ids=["some", "all"])
def test_files_are_the_same_to_the_byte(write, ds, workers, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sinks.write_tfrecord.TFRecordEncoding.run_bytes", 1 << 10)
    monkeypatch.setattr(hr.sinks.write_parquet.ParquetEncoding, "run_bytes", 1 << 10)
    for name, how in (("here", {}), ("there", {"cluster": workers})):
        (tmp_path / name).mkdir()
        write(hr.Dataset(ds._node), tmp_path / name, **how)
    here, there = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert here == there and here
    assert not [path for path in tmp_path.rglob(".*") if not path.name.startswith(".headrace")]


def test_an_element_that_fails_leaves_nothing_and_says_where(workers, tmp_path):
    def bad(x):
        if x == 77:
            raise ValueError("no such thing")
        return {"x": x}

    ds = D.range(100).map(bad, mode="eager")
    for write in (ds.write_tfrecord, ds.filter(lambda row: row["x"] >= 0).write_parquet):
        with pytest.raises(hr.ElementError, match="no such thing") as caught:
            write(tmp_path / "a", shards=3, cluster=workers)
        notes = "".join(caught.value.__notes__)
        assert "raised by worker 127.0.0.1" in notes and "in bad" in notes
        assert list(tmp_path.iterdir()) == []


class UnderWay:
    """What jobs that are threads of this process know of one another."""

    entered = threading.Event()
    failed = threading.Event()
    left = False


@pytest.mark.parametrize("where", ["here", "kept here", "store"])
def test_no_worker_writes_any_more_once_the_error_has_come(where, workers, tmp_path):
    def one_fails_while_another_is_at_it(x):
        from tests.cluster.test_offline import UnderWay

        if x == 100:
            UnderWay.entered.wait(300)
            UnderWay.failed.set()
            raise ValueError("no such thing")
        if x == other:
            UnderWay.entered.set()
            UnderWay.failed.wait(300)
            time.sleep(0.5)  # the trainer knows of the error by now
            UnderWay.left = True
        return {"x": x}

    other = 200 if where == "kept here" else 900  # in the second of eight ranges, or of two files
    UnderWay.entered.clear()
    UnderWay.failed.clear()
    UnderWay.left = False
    ds = D.range(1000).map(one_fails_while_another_is_at_it, mode="eager")
    ds = ds.filter(lambda row: row["x"] >= 0) if where == "kept here" else ds
    path = f"memory://{tmp_path.name}/a" if where == "store" else tmp_path / "a"
    with pytest.raises(hr.ElementError, match="no such thing"):
        ds.write_tfrecord(path, shards=2, cluster=workers)
    assert UnderWay.left
    assert list(tmp_path.iterdir()) == []
    assert fsspec.filesystem("memory").glob(f"/{tmp_path.name}/*") == []


@pytest.mark.parametrize("kept", [False, True], ids=["all", "some"])
def test_a_worker_that_is_killed_while_it_writes_changes_nothing(kept, tmp_path):
    def slow(x):
        if x == 50 and not stop.exists():
            stop.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return example(x)

    stop = tmp_path / "stop"
    ds = D.range(300).map(slow, mode="eager")
    ds = ds.filter(lambda row: row["x"] % 3 > 0) if kept else ds
    stop.touch()
    (tmp_path / "here").mkdir()
    ds.write_tfrecord(tmp_path / "here" / "a", shards=4)
    found = ds.statistics(progress=False)
    with hr.cluster.local(2, patience=300) as cluster:
        cluster.wait_for(2)
        stop.unlink()
        ds.write_tfrecord(tmp_path / "there" / "a", shards=4, cluster=cluster)
        stop.unlink()
        assert same_statistics(ds.statistics(progress=False, cluster=cluster), found)
        assert stop.exists()
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def same_statistics(a, b):
    return a.rows == b.rows and {name: a[name] for name in a} == {name: b[name] for name in b}


def test_ranges_one_after_another_are_the_rows_of_one_process(tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path, 9))
    for ds in (rows(60), lines.map(str.upper, mode="eager"), D.range(50).map(lambda x: x * 2).batch(3)):
        got = [row for part in PlanRanges(ds._node).parts(7) for row in dataset_of(part)]
        want = list(dataset_of(ds._node))
        assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))


def test_what_looks_beyond_a_range_is_refused(tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path))
    for ds, what in ((lines.shuffle(3), "shuffle"), (lines.filter(bool).batch(3), "filter"), (lines.take(3), "take")):
        with pytest.raises(ValueError, match=rf"{what} .*leave out cluster="):
            PlanRanges(ds._node)


def numbers(x):
    draws = np.random.default_rng(int(x))
    values = draws.normal(size=int(x) % 5) * 10.0 ** draws.integers(-9, 9)
    return {"v": values, "word": f"w{int(x) % 13}", "i": np.uint8(int(x) % 200), "nan": np.nan if x % 3 else 1.0}


def test_counts_statistics_and_vocabularies_are_those_of_one_process(workers, tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path))
    shuffled = D.range(100).filter(lambda x: x % 7 > 0).shuffle(9).interleave(lambda x: D.range(int(x) % 3))
    for ds in (D.range(100), D.range(100).batch(3), shuffled, lines.flat_map(lambda s: D.range(3))):
        assert ds.count(cluster=workers) == ds.count()
    with pytest.raises(ValueError, match="filter"):  # workers would have other batches than one process
        D.range(100).filter(lambda x: x % 7 > 0).batch(3).count(cluster=workers)
    for ds in (rows(), D.range(900).map(numbers, mode="eager"), lines.shuffle(3)):
        assert same_statistics(ds.statistics(cluster=workers, progress=False), ds.statistics(progress=False))
    words = lines.map(lambda s: s[:1], mode="eager")
    assert hr.text.Vocabulary.adapt(words, cluster=workers).tokens == hr.text.Vocabulary.adapt(words).tokens


def test_statistics_that_are_broken_off_go_on(workers, tmp_path):
    state, fail = tmp_path / "state", tmp_path / "fail"

    def maybe(x):
        if x >= 500 and fail.exists():
            raise ValueError("not now")
        return numbers(x)

    ds = D.range(900).map(maybe, mode="eager")
    fail.touch()
    with pytest.raises(hr.ElementError, match="not now"):
        ds.statistics(cluster=workers, progress=False, state=state)
    fail.unlink()
    with pytest.raises(hr.StateError, match="another dataset"):
        D.range(800).map(maybe, mode="eager").statistics(cluster=workers, progress=False, state=state)
    found = ds.statistics(cluster=workers, progress=False, state=state)
    assert same_statistics(found, ds.statistics(progress=False)) and not state.exists()
