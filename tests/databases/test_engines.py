"""Partitions of Dask and blocks of Ray."""

import os

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def xs(ds):
    return [int(row["x"]) for row in ds]


@pytest.fixture
def frame():
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"x": np.arange(100), "s": [f"n{i}" for i in range(100)], "f": np.arange(100) / 2})
    return lambda parts=4: dd.from_pandas(rows, npartitions=parts)


def test_a_dask_frame_is_read_by_partitions(frame):
    ds = D.from_dask(frame())
    assert xs(ds) == list(range(100))
    assert list(ds.skip(3).take(1)) == [{"x": 3, "s": "n3", "f": 1.5}]
    check_transformation(ds.batch(7), cuts=3, epochs=1)


def test_only_the_partition_of_a_state_is_computed(frame):
    computed = []

    def seen(part):
        computed.extend(part["x"].tolist()[:1])
        return part

    ds = D.from_dask(frame().map_partitions(seen, meta=frame()._meta))
    with ds.iterator() as it:
        for _ in range(60):
            next(it)
        state = it.state()
    computed.clear()
    assert xs(ds.iterator(state)) == list(range(60, 100))
    assert set(computed) >= {50, 75} and 0 not in computed  # that of the row before may be read for it


def test_another_partitioning_is_refused(frame):
    with D.from_dask(frame(4)).iterator() as it:
        next(it)
        state = it.state()
    with pytest.raises(hr.StateError):
        list(D.from_dask(frame(5)).iterator(state))
    with pytest.raises(TypeError, match="Dask DataFrame"):
        D.from_dask([1, 2])


def with_tensor(rows):
    return {"x": rows["id"], "t": np.ones((len(rows["id"]), 2, 3))}


@pytest.mark.slow
def test_a_ray_dataset_is_read_by_blocks(monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    monkeypatch.setitem(os.environ, "RAY_AUTH_MODE", "disabled")
    how = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr("warnings.showwarning", lambda *a, **k: None)
        ray.init(num_cpus=1, object_store_memory=100 << 20, **how)
    try:
        blocks = ray.data.range(100, override_num_blocks=4)
        made = blocks.map_batches(with_tensor)
        ds = D.from_ray(made)
        want = list(ds)
        assert sorted(xs(want)) == list(range(100))
        assert want[0]["t"].shape == (2, 3)
        with ds.iterator() as it:
            for _ in range(60):
                next(it)
            state = it.state()
        assert xs(ds.iterator(state)) == xs(want)[60:]
        other = ray.data.range(100, override_num_blocks=3)
        with pytest.raises(hr.StateError):
            list(D.from_ray(other.map_batches(with_tensor)).iterator(state))
    finally:
        ray.shutdown()
