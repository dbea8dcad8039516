"""Workers that write to a store: the files of one process, to the byte, and nothing beside them."""

import os
import signal
import threading

import pytest
from tests.stores import servers

import headrace as hr
from headrace.formats.shared.files import remote

D = hr.Dataset


@pytest.fixture(scope="module")
def bucket():
    """A bucket that this process and its workers reach by what the environment says."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with servers.moto() as url, servers.s3(url) as store, pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_PROFILE", raising=False)
        known = {"AWS_ACCESS_KEY_ID": store.options["key"], "AWS_SECRET_ACCESS_KEY": store.options["secret"]}
        for name, value in {**known, "AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": "eu-west-1"}.items():
            patch.setenv(name, value)
        yield store.prefix


@pytest.fixture(scope="module")
def writers(bucket):
    """Workers that were started where the bucket is known."""
    with hr.cluster.local(2, timeout=30) as cluster:
        cluster.wait_for(2)
        yield cluster


def example(x):
    return {"x": int(x), "name": f"row {int(x)}"}


def contents(url):
    system, name = remote(url)
    system.invalidate_cache()
    return {path.rpartition("/")[2]: system.cat_file(path) for path in system.find(name)}


WRITERS = {
    "records": lambda ds, url, **how: ds.write_tfrecord(url, shards=3, **how),
    "parquet": lambda ds, url, **how: ds.write_parquet(url, shards=3, **how),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_files_in_a_store_are_the_same_to_the_byte(write, bucket, writers, request):
    ds = D.range(300).shuffle(seed=2).map(example, mode="eager")
    name = request.node.callspec.id
    here = write(hr.Dataset(ds._node), f"{bucket}/{name}-here/a")
    there = write(hr.Dataset(ds._node), f"{bucket}/{name}-there/a", cluster=writers)
    assert len(here) == len(there) == 3
    found = contents(f"{bucket}/{name}-there")
    assert found == contents(f"{bucket}/{name}-here") and len(found) == 3


def test_a_worker_that_is_killed_leaves_nothing_in_a_store(bucket, writers):
    ds = D.range(3000).map(example, mode="eager")
    ds.write_tfrecord(f"{bucket}/whole/a", shards=8)
    killed = threading.Event()

    def kill():
        os.kill(writers.members()[0].status()["pid"], signal.SIGKILL)
        killed.set()

    threading.Timer(0.2, kill).start()
    hr.Dataset(ds._node).write_tfrecord(f"{bucket}/killed/a", shards=8, cluster=writers)
    assert killed.wait(300)
    assert contents(f"{bucket}/killed") == contents(f"{bucket}/whole")


def test_an_element_that_fails_leaves_nothing_in_a_store(bucket, writers):
    def fail(x):
        if x == 200:
            raise ValueError("bad")
        return example(x)

    with pytest.raises(hr.ElementError, match="bad"):
        D.range(300).map(fail, mode="eager").write_tfrecord(f"{bucket}/failed/a", shards=3, cluster=writers)
    assert contents(f"{bucket}/failed") == {}


def test_rows_whose_place_is_not_known_are_not_written_to_a_store(bucket, writers):
    ds = D.range(50).filter(lambda x: x % 2 == 0).map(example, mode="eager")
    with pytest.raises(ValueError, match="leave out cluster="):
        ds.write_tfrecord(f"{bucket}/filtered/a", shards=3, cluster=writers)
