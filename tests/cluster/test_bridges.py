"""Datasets given to Ray and Dask, and read back: the same elements in the same order."""

import os

import numpy as np
import pytest

import headrace as hr
from headrace.errors import SpecError
from headrace.testing import same

D = hr.Dataset


def element(x):
    x = int(x)
    draws = np.random.default_rng(x)
    return {
        "image": draws.integers(0, 255, (4, 5, 3)).astype(np.uint8),
        "text": f"wé{x % 13}",
        "bytes": bytes([x % 256, 0]),
        "ragged": np.arange(x % 4, dtype=np.float32),
        "words": np.array(["a", "bb"][: x % 3], object),
        "number": np.uint8(x % 200),
        "missing": np.nan if x % 5 == 0 else x / 3,
        "day": np.datetime64(x, "D"),
        "inner/flag": x > 3,
    }


def nested(x):
    row = element(x)
    row["inner"] = {"flag": row.pop("inner/flag")}
    return row


def failing(x):
    if x == 77:
        raise ValueError("no such thing")
    return {"x": x}


def exact(made, want):
    made = list(made)
    return len(made) == len(want) and all(same(a, b) for a, b in zip(made, want, strict=True))


WANT = list(D.range(150).map(element, mode="eager"))
ROWS = D.range(150).map(nested, mode="eager")


def test_a_frame_of_dask_is_the_dataset():
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    frame = ROWS.to_dask(partitions=4)
    assert frame.npartitions == 4
    assert exact(D.from_dask(frame), WANT)
    assert exact(D.from_dask(frame.partitions[1]), WANT[37:75])
    some = D.range(90).filter(lambda x: x > 80).map(element, mode="eager")
    assert exact(D.from_dask(some.to_dask(partitions=5)), WANT[81:90])


def test_partitions_of_dask_are_made_when_they_are_computed():
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    made = []

    def note(x):
        made.append(int(x))
        return {"x": x}

    frame = D.range(1000).map(note, mode="eager").to_dask(partitions=10)
    assert max(made) < 64
    made.clear()
    assert frame.get_partition(7).compute(scheduler="sync")["x"].tolist() == list(range(700, 800))


def test_a_bag_of_dask_holds_whatever_elements_are():
    pytest.importorskip("dask.bag", reason="dask is not installed")
    pairs = D.range(10).map(lambda x: (x, {"y": x * 2}))
    assert exact(pairs.to_dask(partitions=3, collection="bag").compute(scheduler="sync"), list(pairs))
    streamed = D.range(10).filter(lambda x: x % 2 == 0).batch(2)  # which has no ranges
    assert exact(streamed.to_dask(collection="bag").compute(scheduler="sync"), list(streamed))


def test_what_has_no_column_is_refused():
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    with pytest.raises(TypeError, match="give them names first"):
        D.range(3).to_dask()
    with pytest.raises(SpecError, match=r"'image' has arrays of different shapes.*pad, resize or encode"):
        D.range(3).map(lambda x: {"image": np.ones((int(x) + 1, 2))}, mode="eager").to_dask()
    later = D.range(100).map(lambda x: {"image": np.ones((1 + int(x) // 80, 2))}, mode="eager")
    with pytest.raises(SpecError, match=r"'image' has arrays of different shapes, \(1, 2\) in the first rows"):
        later.to_dask(partitions=2).compute(scheduler="sync")
    with pytest.raises(ValueError, match="infinite"):
        D.range(3).repeat().map(lambda x: {"x": x}).to_dask()
    with pytest.raises(ValueError, match="no elements"):
        D.range(0).map(lambda x: {"x": x}).to_dask()


def test_an_error_says_in_which_partition_it_was_raised():
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    with pytest.raises(hr.ElementError, match="no such thing") as caught:
        D.range(100).map(failing, mode="eager").to_dask(partitions=3).compute(scheduler="sync")
    assert f"in partition 2 of 3, by process {os.getpid()}" in "".join(caught.value.__notes__)


@pytest.mark.slow
def test_what_dask_cannot_cut_goes_to_its_workers_as_it_is_made():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    how = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**how, processes=False) as engine, distributed.Client(engine):
        ds = D.range(90).filter(lambda x: x > 80).map(element, mode="eager").shuffle(3, seed=1)
        assert exact(D.from_dask(ds.to_dask()), list(ds))
        assert exact(D.from_dask(ROWS.to_dask(partitions=4)), WANT)


@pytest.mark.slow
def test_a_dataset_of_ray_is_the_dataset(monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    monkeypatch.setitem(os.environ, "RAY_AUTH_MODE", "disabled")
    with pytest.raises(hr.WorkerError, match=r"ray\.init"):
        ROWS.to_ray()
    how = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr("warnings.showwarning", lambda *a, **k: None)
        ray.init(num_cpus=1, object_store_memory=100 << 20, **how)
    try:
        made = ROWS.to_ray(partitions=3)
        assert exact(D.from_ray(made), WANT)
        batch = made.take_batch(8)
        assert batch["image"].shape == (8, 4, 5, 3) and batch["image"].dtype == np.uint8
        streamed = D.range(90).filter(lambda x: x > 80).map(element, mode="eager").shuffle(3, seed=1)
        assert exact(D.from_ray(streamed.to_ray()), list(streamed))
        with pytest.raises(hr.ElementError, match="no such thing") as caught:
            D.range(100).map(failing, mode="eager").to_ray(2).materialize()
        assert "in partition 1 of 2, by process" in "".join(caught.value.__notes__)
    finally:
        ray.shutdown()
