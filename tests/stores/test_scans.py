"""Files in stores on many small cuts: the rows, errors and states of a serial pass; no worker waits for a network."""

import gzip
import json
import re
import threading

import fsspec
import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Epochs, Iterator, Settings
from headrace.remote import objects as remote
from headrace.remote.transport import Transport
from headrace.testing import our_threads, outcomes
from tests.framing import framed

SERIAL, TINY = Settings(optimise=False), Settings(tiny_cuts=True)
ROWS = 900


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(remote, "BLOCK", 4096)
    monkeypatch.setattr(remote, "READ_AHEAD_BYTES", 1000)


def passing(ds, settings=TINY, state=None):
    return Iterator(ds._node, Epochs(), settings, state)


def same(ds):
    whole = outcomes(passing(ds, SERIAL))
    assert str(outcomes(passing(ds))) == str(whole)
    for first, second in [(SERIAL, TINY), (TINY, SERIAL), (TINY, TINY)]:
        with passing(ds, first) as it:
            taken = outcomes(it, 250)
            state = json.loads(json.dumps(it.state()))
        assert str(taken + outcomes(passing(ds, second, state))) == str(whole)
    assert our_threads() == []
    return whole


def lines(number):
    return b"".join(b"line %d of %d\n" % (i, number) for i in range(ROWS))


def csv(number):
    return b"".join(b'%d,"%d"\n' % (i, number) if i % 97 else b"bad\n" for i in range(ROWS))


def records(number):
    data = bytearray(framed([b"record %d of %d" % (i, number) for i in range(ROWS)]))
    if number == 1:
        data[len(data) // 2] ^= 255
    return bytes(data)


def test_lines_of_several_files(store):
    names = [store.put(f"{i}.txt", lines(i)) for i in range(3)] + [store.url("none.txt")]
    same(hr.TextLineDataset(names).with_options(store.patient()))


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_compressed_files_with_bad_records_and_damage(http, policy):
    packed = [gzip.compress(csv(i)) for i in range(3)]
    names = [http.put(f"{i}.csv.gz", data) for i, data in enumerate([packed[0], packed[1][:-900], packed[2]])]
    ds = hr.CsvDataset(names, [np.int64, str], compression_type="GZIP", on_error=policy)
    same(ds.with_options(http.patient()))


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_records_behind_a_bad_one(http, policy):
    names = [http.put(f"{i}.tfrecord", records(i)) for i in range(3)]
    same(hr.TFRecordDataset(names, on_error=policy).with_options(http.patient()))


def test_file_systems_that_wait_for_each_read():
    system = fsspec.filesystem("memory")
    for i in range(3):
        system.pipe_file(f"/scans/{i}.txt", lines(i))
    try:
        same(hr.TextLineDataset([f"memory://scans/{i}.txt" for i in range(3)]))
    finally:
        system.rm("/scans", recursive=True)


def test_files_that_are_kept_on_disk(http, tmp_path):
    names = [http.put(f"{i}.txt", lines(i)) for i in range(3)]
    same(hr.TextLineDataset(names).with_options(http.patient(remote_cache=tmp_path / "cache")))


def test_files_of_stores_and_of_this_machine_together(http, tmp_path):
    for i in range(6):
        (tmp_path / f"{i}.txt").write_bytes(lines(i)[: 1000 * i])
    far = [http.put(f"{i}.txt", lines(i)) for i in range(2)]
    near = [str(tmp_path / f"{i}.txt") for i in range(6)]
    same(hr.TextLineDataset([*near[:3], far[0], *near[3:], far[1]]).with_options(http.patient()))


def test_no_worker_of_the_pool_waits_for_a_store(http, monkeypatch):
    waiting = set()
    plain = Transport.wait

    def wait(self, future):
        waiting.add(threading.current_thread().name)
        return plain(self, future)

    monkeypatch.setattr(Transport, "wait", wait)
    names = [http.put(f"{i}.txt", lines(i)) for i in range(4)]
    ds = hr.TextLineDataset(names).with_options(http.patient())
    assert len(list(passing(ds))) == 4 * ROWS
    assert "headrace-fetch" in waiting
    assert not [name for name in waiting if name.startswith("headrace-pool")]


def test_a_pass_is_closed_while_a_store_does_not_answer(http):
    url = http.put("a.txt", lines(0))
    asked, go_on = threading.Event(), threading.Event()
    is_first = re.compile("bytes=0-").match

    def before(request):
        if request.range is not None and not is_first(request.range):
            asked.set()
            go_on.wait(300)

    http.proxy.before = before
    try:
        it = passing(hr.TextLineDataset(url).with_options(http.patient()))
        assert [next(it) for _ in range(20)] == [f"line {i} of 0" for i in range(20)]
        assert asked.wait(300)
        it.close()
        assert our_threads() == []
    finally:
        go_on.set()


@pytest.mark.parametrize("settings", [SERIAL, TINY], ids=["serial", "cuts"])
def test_an_object_that_is_replaced_is_an_error(http, settings):
    url = http.put("a.txt", lines(0))
    replaced = threading.Event()

    def before(request):  # ranges are fetched ahead: those after the first come from the new object
        if request.range is not None and not request.range.startswith("bytes=0-"):
            assert replaced.wait(300)

    http.proxy.before = before
    try:
        with passing(hr.TextLineDataset(url).with_options(http.patient()), settings) as it:
            assert next(it) == "line 0 of 0"
            http.put("a.txt", lines(1))
            replaced.set()
            with pytest.raises(hr.TransportError, match="was replaced"):
                list(it)
            with pytest.raises(hr.StateError, match="has changed"):
                next(it)
    finally:
        replaced.set()
