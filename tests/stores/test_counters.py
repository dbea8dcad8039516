"""`it.stats()["store"]`: what a pass has asked of stores."""

from urllib.request import urlopen

import pytest

import headrace as hr
from headrace.remote import objects as remote
from headrace.remote.counters import BUCKETS, StoreCounters
from tests.stores.faults import FAULTS
from tests.stores.test_faults import COUNT, LARGE_FILE, Now

D = hr.Dataset


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(remote, "BLOCK", 1 << 16)


def counted(ds):
    """What a pass over these lines has asked of their store, and its iterator."""
    it = iter(ds)
    assert [int(x) for x in it] == list(range(COUNT))
    return it.stats()["store"], it


def test_requests_bytes_and_retries_are_counted(store):
    assert "503" in FAULTS
    ds = hr.TextLineDataset(store.put("large", LARGE_FILE)).with_options(store.patient(timeout=30.0, retries=5))
    store.proxy.fault = Now("503")
    found, it = counted(ds)
    assert found["bytes"] == len(LARGE_FILE)
    assert found["retries"] >= (0 if store.protocol == "gs" else 1)  # gcsfs asks again by itself
    assert found["requests"] >= len(LARGE_FILE) / (1 << 16)
    assert sum(count for _, count in found["latency"]) == found["requests"] and 0 < found["mean_s"] <= found["max_s"]
    assert hr.observe.scalars(it)["headrace/store/retries"] == found["retries"]
    with hr.observe.serve_metrics() as server:
        text = urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    assert f'headrace_store_bytes_total{{pass="{it._serial}"}} {len(LARGE_FILE)}\n' in text


def test_hits_of_the_cache_on_disk_are_counted(http, tmp_path):
    ds = hr.TextLineDataset(http.put("large", LARGE_FILE)).with_options(http.patient(remote_cache=str(tmp_path)))
    first, _ = counted(ds)
    second, _ = counted(ds)
    ranges = -(-len(LARGE_FILE) // (1 << 16))
    assert (first["cache_hits"], first["bytes"]) == (0, len(LARGE_FILE))
    assert (second["cache_hits"], second["cache_misses"], second["bytes"]) == (ranges, 0, 0)


def test_local_files_have_no_store(tmp_path):
    (tmp_path / "a.txt").write_bytes(LARGE_FILE)
    it = iter(hr.TextLineDataset(tmp_path / "a.txt"))
    next(it)
    assert "store" not in it.stats()


def test_each_bucket_holds_answers_up_to_its_end():
    found = StoreCounters()
    for seconds in (0.0005, 0.0015, 0.003, 0.9, 1000.0):
        found.add(int(seconds * 1e9), 10)
    report = found.report()
    assert [stop for stop, count in report["latency"] if count] == [0.001, 0.002, 0.004, 1.024, 131.072]
    assert len(report["latency"]) == BUCKETS and report["bytes"] == 50 and report["max_s"] == 1000.0
