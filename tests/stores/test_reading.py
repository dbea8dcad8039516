"""Reading from stores when nothing is wrong: the rows, the number of requests, and their options."""

import gzip
import json
import logging
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.remote.objects import BLOCK
from headrace.testing import check_transformation
from tests.framing import framed

D = hr.Dataset
LINES = [f"line {i}" for i in range(1_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
LARGE_FILE = b"".join(b"%9d\n" % i for i in range(BLOCK // 4))
"""Two and a half ranges."""


def table_bytes(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": range(rows), "s": [f"row {i}" for i in range(rows)]}), sink, row_group_size=100)
    return sink.getvalue().to_pybytes()


def arrow_bytes(rows):
    sink = pa.BufferOutputStream()
    table = pa.table({"x": range(rows)})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue().to_pybytes()


READERS = {
    "text": (TEXT, hr.TextLineDataset, LINES),
    "text in gzip": (gzip.compress(TEXT), lambda url, **o: hr.TextLineDataset(url, "GZIP", **o), LINES),
    "TFRecords": (framed([b"a", b"b"]), hr.TFRecordDataset, [b"a", b"b"]),
    "records of one length": (b"aabb", lambda url, **o: hr.FixedLengthRecordDataset(url, 2, **o), [b"aa", b"bb"]),
    "CSV": (b"1,a\n2,b\n", lambda url, **o: hr.CsvDataset(url, [0, ""], **o), [(1, "a"), (2, "b")]),
    "CSV with a header": (b"x\n1\n2\n", D.from_csv, [{"x": 1}, {"x": 2}]),
    "JSON lines": (b'{"x": 1}\n{"x": 2}\n', hr.JsonLinesDataset, [{"x": 1}, {"x": 2}]),
    "Parquet": (table_bytes(250), hr.ParquetDataset, [{"x": i, "s": f"row {i}"} for i in range(250)]),
    "Arrow": (arrow_bytes(250), hr.ArrowDataset, [{"x": i} for i in range(250)]),
}


@pytest.mark.parametrize(("data", "reader", "rows"), READERS.values(), ids=READERS)
def test_every_reader(store, data, reader, rows):
    ds = reader(store.put("file", data), storage_options=store.options)
    assert list(ds) == rows


def test_nothing_at_all(store):
    if store.protocol == "gs":
        pytest.skip("the emulator has no empty files")
    assert list(hr.TextLineDataset(store.put("empty", b""), storage_options=store.options)) == []


def test_files_of_several_ranges(store):
    urls = [store.put(f"{i}.txt", LARGE_FILE) for i in range(2)]
    ds = hr.TextLineDataset(urls, storage_options=store.options)
    assert [int(x) for x in ds] == 2 * list(range(BLOCK // 4))
    with iter(ds.skip(BLOCK // 4 - 5)) as it:
        next(it)
        state = json.loads(json.dumps(it.state()))
    with ds.skip(BLOCK // 4 - 5).iterator(state=state) as it:
        assert [int(next(it)) for _ in range(5)] == [BLOCK // 4 - 4 + i for i in range(4)] + [0]


class TestRequests:
    def test_one_for_what_a_file_is(self, store):
        urls = [store.put(f"{i}.txt", TEXT) for i in range(3)]
        ds = hr.TextLineDataset(urls).with_options(store.patient())
        it = iter(ds)
        assert len([next(it) for _ in range(2500)]) == 2500
        it.state()
        # of S3 and Google's store the first request says what the file is
        want = {"s3": [5, 2], "gs": [5, 2], "http": [6, 3]}[store.protocol]
        assert [len(store.proxy.requests), store.proxy.asked("GET", "HEAD")] == want
        assert len(list(it)) == 500
        it.state()
        str(ds), repr(it.stats()), ds.explain()
        assert len(store.proxy.requests) == want[0]

    def test_a_state_asks_for_those_that_were_not_opened(self, store):
        urls = [store.put(f"{i}.txt", TEXT) for i in range(20)]
        ds = hr.TextLineDataset(urls).with_options(store.patient())
        with iter(ds) as it:
            next(it)
            state = it.state()
            it.state()
        asked = store.proxy.asked("GET", "HEAD")
        assert 19 <= asked <= 60  # those that come next are asked about anyway, at the same time perhaps
        with ds.iterator(state=state) as it:
            assert next(it) == "line 1"
        assert store.proxy.asked("GET", "HEAD") <= 2 * asked + 40

    def test_each_range_once(self, s3):
        url = s3.put("large", LARGE_FILE)
        assert hr.TextLineDataset(url, storage_options=s3.options).count() == BLOCK // 4
        asked = [r.range for r in s3.proxy.requests if r.is_data]
        ranges = [f"bytes={a}-{min(len(LARGE_FILE), a + BLOCK) - 1}" for a in range(0, len(LARGE_FILE), BLOCK)]
        assert asked[0] == ranges[0] and sorted(asked) == sorted(ranges)  # the others are under way at the same time

    def test_who_looks_at_the_beginning_gets_no_more(self, s3):
        url = s3.put("large", LARGE_FILE)
        with iter(hr.TextLineDataset(url, storage_options=s3.options)) as it:
            next(it)
        assert len([r for r in s3.proxy.requests if r.is_data]) == 1

    def test_the_columns_of_parquet_that_are_asked_for(self, s3):
        sink = pa.BufferOutputStream()
        wide = {name: np.random.default_rng(0).integers(0, 2**60, 100_000) for name in "abcdefgh"}
        pq.write_table(pa.table(wide), sink, compression="none")
        data = sink.getvalue().to_pybytes()
        url = s3.put("t.parquet", data)
        assert sum(1 for _ in hr.ParquetDataset(url, ["c"], storage_options=s3.options)) == 100_000
        asked = [r.range.removeprefix("bytes=").split("-") for r in s3.proxy.requests if r.is_data]
        assert sum(int(stop) - int(start) for start, stop in asked) < len(data) / 3


def test_by_number(store):
    url = store.put("r", framed([b"%d" % i for i in range(60)]))
    ds = hr.TFRecordDataset(url, index=True, storage_options=store.options)
    before = store.proxy.asked("GET", "HEAD")
    assert sorted(ds.shuffle()) == sorted(b"%d" % i for i in range(60))
    assert store.proxy.asked("GET", "HEAD") == before + 1
    assert [ds[3], ds[-1]] == [b"3", b"59"]


def test_patterns(store):
    if store.protocol == "http":
        pytest.skip("there are no listings by HTTP")
    urls = [store.put(f"data/{name}.txt", name.encode()) for name in "ab"]
    store.put("data/c.csv", b"c")
    assert list(D.list_files(store.url("data/*.txt"), shuffle=False, storage_options=store.options)) == urls
    store.put("data/d.txt", b"d")
    names = D.list_files(store.url("data/*.txt"), shuffle=False, storage_options=store.options)
    assert len(list(names)) == 3
    assert list(hr.TextLineDataset(names).with_options(store.patient())) == ["a", "b", "d"]
    with pytest.raises(FileNotFoundError, match="no files match"):
        D.list_files(store.url("data/*.none"), storage_options=store.options)


def test_a_file_that_is_not_there_is_one_error(store):
    ds = hr.TextLineDataset([store.url("none"), store.put("a", b"a\n")], storage_options=store.options)
    it = iter(ds)
    with pytest.raises(hr.ElementError, match="No such file"):
        next(it)
    assert list(it) == ["a"]


class TestOptions:
    def test_by_protocol_prefix_or_reader(self, s3):
        url = s3.put("a.txt", TEXT)
        right, wrong = s3.options, {**s3.options, "endpoint_url": "http://127.0.0.1:9"}
        ds = hr.TextLineDataset(url)
        for storage in (
            {"s3": right},
            {"s3": wrong, s3.prefix: right},
            {"gs": wrong, "s3": right},
            {"s3": {**wrong, "anon": False}, f"{s3.prefix}/a": {"endpoint_url": right["endpoint_url"]}},
        ):
            assert len(list(ds.with_options(hr.Options(storage_options=storage)))) == 1000
        own = hr.TextLineDataset(url, storage_options={"endpoint_url": right["endpoint_url"]})
        assert len(list(own.with_options(hr.Options(storage_options={"s3": wrong})))) == 1000

    def test_add_up(self, s3):
        first = hr.TextLineDataset(s3.put("a.txt", b"a\n")).with_options(hr.Options(storage_options={"gs": {"x": 1}}))
        ds = first.with_options(hr.Options(storage_options={"s3": s3.options}))
        assert set(ds.options().storage_options) == {"gs", "s3"}
        assert list(ds) == ["a"]

    def test_reach_readers_that_a_function_makes(self, s3):
        urls = [s3.put(f"{i}", b"%d\n" % i) for i in range(3)]
        ds = D.from_tensor_slices(urls).interleave(hr.TextLineDataset, 3, num_parallel_calls=2)
        assert sorted(ds.with_options(s3.patient())) == ["0", "1", "2"]
        assert sorted(D.from_tensor_slices(urls).flat_map(hr.TextLineDataset).with_options(s3.patient())) == [
            "0",
            "1",
            "2",
        ]

    def test_reach_another_process(self, s3):
        ds = hr.TextLineDataset(s3.put("a.txt", TEXT), storage_options=s3.options)
        assert list(ds.prefetch(2, mode="process")) == LINES

    def test_are_not_changed_by_their_use(self, s3):
        options = {"s3": dict(s3.options)}
        url = s3.put("a.txt", b"a\n")
        assert list(hr.TextLineDataset(url, storage_options={**options, "anon": False})) == ["a"]
        assert options == {"s3": s3.options}

    @pytest.mark.parametrize("wrong", [{"retries": -1}, {"timeout": 0}, {"storage_options": {"s3": 3}}])
    def test_that_make_no_sense(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            hr.Options(**wrong)


class TestSecrets:
    def test_show_nowhere(self, s3, caplog):
        caplog.set_level(logging.DEBUG, "headrace")
        url = s3.put("a.txt", TEXT)
        ds = hr.TextLineDataset(url, storage_options=s3.options).with_options(s3.patient(retries=1))
        it = iter(ds)
        next(it)
        said = [repr(ds), ds.explain(), json.dumps(it.state()), str(it.stats()), repr(ds.options()), repr(ds._node)]
        s3.proxy.fault = lambda request: "503"
        with pytest.raises(hr.TransportError) as caught:
            next(iter(ds))
        said += [str(caught.value), repr(caught.value.__cause__), caplog.text]
        for text in said:
            assert s3.options["secret"] not in text and s3.options["key"] not in text
        assert "503" in str(caught.value) or "Unavailable" in str(caught.value)

    def test_in_a_url_show_nowhere(self, http, caplog, tmp_path):
        caplog.set_level(logging.DEBUG, "headrace")
        http.put("a.csv", b"x\n1\n\xff\xff,\n")
        url = http.url("a.csv").replace("//", "//me:sesame@") + "?sig=opensesame&part=1"
        said = []
        ds = hr.CsvDataset(url, [str], header=True)
        for policy in ("raise", "skip", hr.Quarantine(tmp_path / "bad")):
            ds = hr.CsvDataset(url, [str], header=True, on_error=policy)
            it = iter(ds)
            next(it)
            try:
                next(it)
            except (hr.ElementError, StopIteration) as error:
                said.append(str(error))
            said += [repr(ds), ds.explain(), json.dumps(it.state())]
        for address in (url.replace("a.csv", "none"), url):
            http.proxy.fault = lambda request: "500" if "a.csv" in request.path else None
            with pytest.raises((hr.ElementError, hr.TransportError)) as caught:
                next(iter(hr.TextLineDataset(address).with_options(hr.Options(retries=0))))
            said.append(str(caught.value))
            with pytest.raises((FileNotFoundError, hr.TransportError)) as caught:
                D.from_csv(address)
            said.append(str(caught.value))
        said += [caplog.text, (tmp_path / "bad" / "manifest.jsonl").read_text()]
        for text in said:
            assert "sesame" not in text


def test_chained_urls(s3, tmp_path):
    url = s3.put("a.txt", TEXT)
    for chain in ("blockcache", "filecache", "simplecache"):
        options = {"s3": s3.options, chain: {"cache_storage": str(tmp_path / chain)}}
        ds = hr.TextLineDataset(f"{chain}::{url}", storage_options=options)
        assert list(ds) == LINES
        assert list(ds.with_options(hr.Options())) == LINES
        it = iter(ds)
        assert [next(it) for _ in range(10)] == LINES[:10]
        assert list(ds.iterator(state=it.state())) == LINES[10:]
        names = D.list_files(f"{chain}::{s3.prefix}/*.txt", storage_options=options)
        assert list(names) == [f"{chain}::{url}"]
        by_options = hr.TextLineDataset(names).with_options(hr.Options(storage_options=options))
        assert list(by_options) == LINES


def test_conformance(store):
    urls = [store.put(f"{i}.txt", b"".join(b"%d\n" % j for j in range(10 * i, 10 * i + 7))) for i in range(4)]
    check_transformation(hr.TextLineDataset(urls, num_parallel_reads=2, storage_options=store.options), cuts=4)


def test_no_thread_stays(store):
    urls = [store.put(f"{i}", LARGE_FILE) for i in range(2)]
    ds = hr.TextLineDataset(urls, num_parallel_reads=2, storage_options=store.options)
    next(iter(ds))
    before = threads_of_readers()
    for _ in range(3):
        with iter(ds) as it:
            next(it)
    assert threads_of_readers() <= before


def threads_of_readers():
    """All but those of the stores, which are served in this process."""
    return {t.name for t in threading.enumerate() if "process_request" not in t.name}
