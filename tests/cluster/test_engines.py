"""Clusters on Ray and on Dask: the same rows, a worker that dies is replaced, nothing is left."""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

import headrace as hr
from headrace.cluster.members import Gone
from headrace.testing import same

D = hr.Dataset


def square(x):
    return int(x) ** 2


def slowly(x):
    time.sleep(0.001)
    return int(x)


def survives(cluster):
    ds = D.range(300).map(square, mode="eager").filter(lambda x: x % 3 > 0).batch(4)
    made = ds.distribute_over(cluster, splits=5)
    with hr.cluster.local(1) as one:
        want = list(ds.distribute_over(one, splits=5))
    it = iter(made)
    got = [next(it) for _ in range(5)]
    killed = cluster.members()[0]
    os.kill(killed.status()["pid"], signal.SIGKILL)
    got += list(it)
    assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))
    with cluster._changed:  # though no pass asks for it
        assert cluster._changed.wait_for(lambda: killed not in cluster._members, 240)
    cluster.wait_for(2)


def example(x):
    return {"x": int(x), "name": f"row {int(x)}"}


def writes(cluster, folder):
    """Its workers write the files that one process writes, to the byte, though one of them is killed meanwhile."""
    cluster.wait_for(2)
    for name, ds in (("all", D.range(2000)), ("some", D.range(2000).filter(lambda x: x % 7 > 0))):
        rows = ds.map(example, mode="eager")
        rows.write_tfrecord(folder / name / "here" / "a", shards=5)
        os.kill(cluster.members()[-1].status()["pid"], signal.SIGKILL)
        hr.Dataset(rows._node).write_tfrecord(folder / name / "there" / "a", shards=5, cluster=cluster)
        here, there = (
            {path.name: path.read_bytes() for path in (folder / name / side).iterdir() if path.suffix == ".tfrecord"}
            for side in ("here", "there")
        )
        assert here == there and len(here) == 5
        cluster.wait_for(2)


def running(cluster):
    """The processes of its workers; a killed one may be listed until it is next contacted."""
    found = set()
    for member in cluster.members():
        with contextlib.suppress(Gone, psutil.NoSuchProcess):
            found.add(psutil.Process(member.status()["pid"]))
    return found


@pytest.mark.slow
def test_a_cluster_on_dask(tmp_path):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "240s"}),
        distributed.LocalCluster(**how) as engine,
        distributed.Client(engine) as client,
    ):
        with hr.cluster.dask(client, patience=240) as cluster:
            cluster.wait_for(2)
            survives(cluster)
            writes(cluster, tmp_path)
        left = client.run(lambda: len(__import__("headrace.cluster.on_dask").cluster.on_dask._servers))
        assert set(left.values()) == {0}
        with pytest.raises(TypeError, match=r"dask\.distributed\.Client"):
            hr.cluster.dask(engine)
        with hr.cluster.dask(client, patience=2) as cluster:
            cluster.wait_for(2, timeout=120)
            engine.scale(0)
            with pytest.raises(hr.WorkerError, match=r"no workers any more, of up to 2.*lost-worker-timeout"):
                # More rows than two workers make before they are gone.
                list(D.range(10**9).map(slowly, mode="eager").distribute_over(cluster, splits=2))


@contextlib.contextmanager
def dask_processes(folder):
    """A scheduler and a worker in processes of their own: the scheduler's process and a client."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    about = folder / "scheduler.json"
    how = ["--scheduler-file", about, "--no-dashboard"]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *how]
    with contextlib.ExitStack() as stack:
        scheduler = subprocess.Popen(command, **quiet)
        stack.callback(scheduler.wait)
        stack.callback(scheduler.kill)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", *how, "--nthreads", "1", "--no-nanny"]
        worker = subprocess.Popen(command, **quiet)
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        client = distributed.Client(scheduler_file=str(about), timeout=240)
        stack.callback(client.close, timeout=1)
        client.wait_for_workers(1, timeout=240)
        yield scheduler, client


@pytest.mark.slow
def test_a_scheduler_of_dask_that_dies_is_named_and_nothing_waits_for_it(tmp_path):
    with dask_processes(tmp_path) as (scheduler, client):
        with hr.cluster.dask(client, patience=10) as cluster:
            cluster.wait_for(1, timeout=240)
            # A function that its worker need not import.
            it = iter(D.range(10**9).map(lambda x: int(x), mode="eager").distribute_over(cluster, splits=1))
            assert [int(next(it)) for _ in range(3)] == [0, 1, 2]
            scheduler.kill()
            with pytest.raises(hr.WorkerError, match="has lost its scheduler"):
                collections.deque(it, maxlen=0)
        assert client.status == "connecting", "the cluster was closed while the client still looked for its scheduler"


@pytest.mark.slow
def test_a_cluster_on_ray(monkeypatch, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setitem(os.environ, "RAY_AUTH_MODE", "disabled")
    monkeypatch.setitem(os.environ, "RAY_worker_niceness", "0")
    with pytest.raises(hr.WorkerError, match=r"ray\.init"):
        hr.cluster.ray(1)
    how = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr("warnings.showwarning", lambda *a, **k: None)
        ray.init(num_cpus=2, object_store_memory=100 << 20, **how)
    try:
        with hr.cluster.ray(2, patience=240) as cluster:
            cluster.wait_for(2)
            processes = running(cluster)
            survives(cluster)
            writes(cluster, tmp_path)
            processes |= running(cluster)
        assert psutil.wait_procs(processes, timeout=300)[1] == []
    finally:
        ray.shutdown()
