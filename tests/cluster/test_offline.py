"""Files, counts and statistics by way of a cluster: the same as by one process, to the byte."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.cluster.test_splits import texts

import headrace as hr
from headrace.cluster.distribute_over import in_order_over
from headrace.testing import check_transformation, same

D = hr.Dataset


def example(x):
    return {"x": int(x), "name": f"row {int(x)}", "v": np.arange(int(x) % 3)}


def rows(n=400):
    return D.range(n).shuffle(seed=1).filter(lambda x: x % 7 > 0).map(example, mode="eager")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "write",
    [
        lambda ds, folder, **how: ds.write_tfrecord(folder / "a", shards=3, index=False, **how),
        lambda ds, folder, **how: ds.write_parquet(folder / "a", **how),
        lambda ds, folder, **how: ds.write_tfds(folder, "a", features=FEATURES, **how),
    ],
)
def test_files_are_the_same_to_the_byte(write, workers, tmp_path):
    for name, how in (("here", {}), ("there", {"cluster": workers})):
        (tmp_path / name).mkdir()
        write(rows(), tmp_path / name, **how)
    here, there = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert here == there and here


FEATURES = {"x": np.int64, "name": hr.tfds.features.Text(), "v": hr.tfds.features.Sequence(np.int64)}


def test_a_worker_that_is_killed_while_files_are_written_changes_nothing(tmp_path):
    def slow(x):
        row = example(x)
        sum(range(20_000))
        return row

    ds = D.range(600).map(slow, mode="eager")
    ds.write_tfrecord(tmp_path / "here", shards=2, index=False)
    with hr.cluster.local(1, patience=300) as cluster:
        cluster.wait_for(1)
        os.kill(cluster.members()[0].handle, signal.SIGKILL)
        ds.write_tfrecord(tmp_path / "there", shards=2, index=False, cluster=cluster)
    for i in range(2):
        name = f"-0000{i}-of-00002.tfrecord"
        assert (tmp_path / f"here{name}").read_bytes() == (tmp_path / f"there{name}").read_bytes()


def test_elements_in_the_order_of_one_process_keep_every_promise(workers, tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path, 9))
    for ds in (rows(60), lines.map(str.upper, mode="eager")):
        made = in_order_over(ds, workers)
        got, want = list(made), list(ds)
        assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))
    check_transformation(in_order_over(D.range(50).map(lambda x: x * 2).batch(3), workers), cuts=4, epochs=1)
    check_transformation(in_order_over(lines, workers), cuts=4, epochs=1)


def test_what_looks_beyond_a_range_is_refused(workers, tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path))
    for ds, what in ((lines.shuffle(3), "shuffle"), (lines.filter(bool).batch(3), "filter"), (lines.take(3), "take")):
        with pytest.raises(ValueError, match=rf"{what} .*leave out cluster="):
            in_order_over(ds, workers)


def test_counts_and_statistics_are_those_of_one_process(workers, tmp_path):
    lines = hr.TextLineDataset(texts(tmp_path))
    for ds in (D.range(100), D.range(100).filter(lambda x: x % 7 > 0), lines.flat_map(lambda s: D.range(3))):
        assert ds.count(cluster=workers) == ds.count()
    plain = rows().map(lambda row: (row["x"], row["name"]), mode="eager")
    assert repr(plain.statistics(cluster=workers, progress=False)) == repr(plain.statistics(progress=False))
    words = lines.map(lambda s: s[:1], mode="eager")
    assert hr.text.Vocabulary.adapt(words.distribute_over(workers)).tokens == hr.text.Vocabulary.adapt(words).tokens
