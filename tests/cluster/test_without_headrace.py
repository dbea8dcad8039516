"""Workers of Dask that cannot import headrace: said at once, with the reason."""

import os
import subprocess
import sys
from time import monotonic

import pytest

import headrace as hr

distributed = pytest.importorskip("distributed")

BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "headrace":
            raise ModuleNotFoundError("No module named 'headrace'", name="headrace")

sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def client(tmp_path):
    """A Dask cluster of one worker, to which headrace is not known."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with distributed.LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", protocol="tcp", dashboard_address=None
    ) as cluster:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        more = ["--no-dashboard", "--no-nanny", "--host", "127.0.0.1", "--local-directory", str(tmp_path)]
        worker = subprocess.Popen(
            [*command, *more], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with distributed.Client(cluster.scheduler_address) as made:
                made.wait_for_workers(1, timeout=120)
                yield made
        finally:
            worker.kill()
            worker.wait()


def test_a_worker_that_cannot_import_headrace_fails_at_once(client):
    began = monotonic()
    with hr.cluster.dask(client, patience=600) as cluster:
        with pytest.raises(hr.WorkerError, match="headrace is not installed there, in Python 3"):
            cluster.wait_for(1)
        with pytest.raises(hr.WorkerError, match="headrace is not installed there"):
            list(hr.Dataset.range(10).distribute_over(cluster))
    assert monotonic() - began < 300  # far below the patience
