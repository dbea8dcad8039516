"""Downloads from a server with faults: the right file, or a clear error and nothing that looks like the file."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import headrace as hr
from headrace.catalogue.sources import SourceFile, fetch_source, fetch_sources
from headrace.remote import transport
from tests.stores.faults import Answer, running

DATA = np.random.default_rng(0).bytes(3_000_000)
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(transport.ALONE, "timeout", 10.0)
    for name in ("HEADRACE_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with running() as made:
        made.put("data.bin", DATA)
        yield made


def source(server, **changes):
    return SourceFile(**{"url": f"{server.url}/data.bin", "sha256": SUM, "size": len(DATA), **changes})


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("fault", ["503", "429", "500", "reset", "truncated"])
@pytest.mark.parametrize("known", [True, False])
def test_faults_that_pass_are_met_by_asking_again(server, tmp_path, fault, known):
    server.fault = lambda request: fault if request.number < 3 else None
    wanted = source(server) if known else source(server, sha256=None, size=None)
    assert fetch_source(wanted, tmp_path).read_bytes() == DATA
    assert server.counts[fault] == 3
    assert names(tmp_path) == ["data.bin"]


def test_a_broken_connection_is_resumed_where_it_ended(server, tmp_path):
    own = server.own

    def half_at_first(handler):
        answer = own(handler)
        if len(server.requests) == 1:
            answer.headers.append(("Content-Length", str(len(DATA))))
            answer.body = DATA[: len(DATA) // 2]
            handler.close_connection = True
        return answer

    server.own = half_at_first
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA
    assert [request.range for request in server.requests] == [None, f"bytes={len(DATA) // 2}-"]


def test_a_server_without_ranges_gives_the_whole_again(server, tmp_path):
    server.ranges = False
    server.fault = lambda request: "truncated" if request.number == 0 else None
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA


def test_a_server_that_tells_no_length(server, tmp_path):
    server.lengths = False
    assert fetch_source(source(server, size=None), tmp_path).read_bytes() == DATA


def test_a_file_that_is_replaced_while_it_is_fetched_is_fetched_anew(server, tmp_path):
    other = DATA[::-1]

    def fault(request):
        if request.number == 0:
            return "truncated"
        if request.number == 1:
            server.put("data.bin", other)
        return None

    server.fault = fault
    server.before = lambda request: None
    wanted = source(server, sha256=hashlib.sha256(other).hexdigest())
    assert fetch_source(wanted, tmp_path).read_bytes() == other


@pytest.mark.parametrize("fault", ["short", "long"])
def test_a_file_of_another_length_is_refused(server, tmp_path, fault):
    server.fault = lambda request: fault
    with pytest.raises(
        hr.StorageError, match=r"data\.bin \(3\.0 MB\) cannot be downloaded: http.*bytes, not 3,000,000"
    ):
        fetch_source(source(server), tmp_path)
    assert names(tmp_path) == []


def test_a_wrong_checksum_does_not_stay_and_the_next_try_succeeds(server, tmp_path):
    server.put("data.bin", b"x" + DATA[1:])
    with pytest.raises(hr.StorageError, match=rf"checksum mismatch: its SHA-256 is .*{SUM} was expected.*Put it at"):
        fetch_source(source(server), tmp_path)
    assert names(tmp_path) == []
    server.put("data.bin", DATA)
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA


def test_an_existing_wrong_file_is_fetched_again(server, tmp_path, monkeypatch):
    (tmp_path / "data.bin").write_bytes(b"half")
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    with pytest.raises(hr.StorageError, match=r"it has 4 bytes, but 3,000,000 were promised"):
        fetch_source(source(server), tmp_path)
    monkeypatch.delenv("HEADRACE_OFFLINE")
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA
    asked = len(server.requests)
    fetch_source(source(server), tmp_path)
    assert len(server.requests) == asked


def test_errors_name_the_url_the_size_and_where_to_put_the_file(server, tmp_path, monkeypatch):
    gone = source(server, url=f"{server.url}/gone.bin", note="ask the authors")
    with pytest.raises(hr.StorageError) as caught:
        fetch_source(gone, tmp_path)
    said = str(caught.value)
    for part in (
        "gone.bin (3.0 MB)",
        f"{server.url}/gone.bin",
        "no such file",
        f"Put it at {tmp_path}/gone.bin",
        "ask",
    ):
        assert part in said
    monkeypatch.setenv("HEADRACE_OFFLINE", "1")
    with pytest.raises(hr.StorageError, match=rf"HEADRACE_OFFLINE is set.*{server.url}/data\.bin at {tmp_path}/data"):
        fetch_source(source(server), tmp_path)
    assert names(tmp_path) == []


def test_a_login_page_is_not_taken_for_the_file(server, tmp_path):
    server.own = lambda handler: Answer(200, [("Content-Type", "text/html; charset=utf-8")], b"<html>Sign in</html>")
    with pytest.raises(hr.StorageError, match=r"answers with a web page, perhaps a login.*Put it at"):
        fetch_source(source(server, sha256=None, size=None), tmp_path)
    assert names(tmp_path) == []


def test_mirrors_are_tried_in_order(server, tmp_path):
    server.put("bad.bin", b"y" + DATA[1:])
    urls = [f"{server.url}/{name}" for name in ("missing.bin", "bad.bin", "data.bin")]
    wanted = source(server, url=urls[0], mirrors=tuple(urls[1:]), filename="data.bin")
    assert fetch_source(wanted, tmp_path).read_bytes() == DATA
    assert [request.path for request in server.requests] == ["/missing.bin", "/bad.bin", "/data.bin"]
    with pytest.raises(hr.StorageError, match=r"missing\.bin: there is no such file.*bad\.bin: checksum mismatch"):
        fetch_source(source(server, url=urls[0], mirrors=(urls[1],), filename="other"), tmp_path)


def test_several_files_come_at_a_time_and_one_that_fails_stops_the_others(server, tmp_path):
    together = threading.Barrier(3, timeout=300)
    server.before = lambda request: together.wait()
    found = fetch_sources({n: source(server, filename=n) for n in "abc"}, tmp_path, title="three")
    assert [path.read_bytes() == DATA for path in found.values()] == [True] * 3
    server.before = lambda request: None
    with pytest.raises(hr.StorageError, match=r"gone"):
        fetch_sources({"a": source(server, url=f"{server.url}/gone", filename=""), "b": source(server)}, tmp_path / "x")


def test_one_download_at_a_time(server, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fetch_source(source(server), tmp_path), range(4)))
    assert set(found) == {tmp_path / "data.bin"}
    assert len(server.requests) == 1
    assert names(tmp_path) == ["data.bin"]


KILLED = """
import sys
from pathlib import Path
from headrace.catalogue.sources import SourceFile, fetch_source

def advance(more):
    print(more, flush=True)

fetch_source(SourceFile(sys.argv[1], sha256=sys.argv[2], size=int(sys.argv[3])), Path(sys.argv[4]), advance)
"""


def test_a_download_that_is_killed_is_resumed_by_the_next_process(server, tmp_path):
    # The server holds back the second half until the client is gone.
    half, gone = len(DATA) // 2, threading.Event()
    own = server.own

    def slowly(handler):
        answer = own(handler)
        if not gone.is_set():
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(DATA)))
            handler.end_headers()
            handler.wfile.write(DATA[:half])
            handler.wfile.flush()
            gone.wait(300)
        return answer

    server.own = slowly
    arguments = [f"{server.url}/data.bin", SUM, str(len(DATA)), str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", KILLED, *arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        got = 0
        while got < half:
            got += int(child.stdout.readline())
        assert not (tmp_path / "data.bin").exists()
        os.kill(child.pid, signal.SIGKILL)
    gone.set()
    assert names(tmp_path) == [".data.bin.part"]
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA
    assert int(server.requests[-1].range.removeprefix("bytes=").rstrip("-")) >= got
    assert names(tmp_path) == ["data.bin"]


def test_a_part_of_another_file_is_of_no_use(server, tmp_path):
    (tmp_path / ".data.bin.part").write_bytes(b"z" * 1000)
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA
    (tmp_path / "data.bin").unlink()
    (tmp_path / ".data.bin.part").write_bytes(b"z" * 4_000_000)
    assert fetch_source(source(server), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(("known", "left"), [(True, [".data.bin.part"]), (False, [])])
def test_a_part_stays_only_if_it_can_be_resumed(server, tmp_path, known, left):
    own = server.own

    def half_and_then_nothing(handler):
        answer = own(handler)
        if len(server.requests) > 1:
            return Answer(404)
        answer.headers.append(("Content-Length", str(len(DATA))))
        answer.body = DATA[: len(DATA) // 2]
        handler.close_connection = True
        return answer

    server.own = half_and_then_nothing
    with pytest.raises(hr.StorageError, match="no such file"):
        fetch_source(source(server) if known else source(server, sha256=None), tmp_path)
    assert names(tmp_path) == left


def test_proxies_are_those_of_the_environment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.files["http://far.example/data.bin"] = server.files["/data.bin"]
    server.own = lambda handler, own=server.own: (setattr(handler, "path", "/data.bin"), own(handler))[1]
    assert fetch_source(source(server, url="http://far.example/data.bin"), tmp_path).read_bytes() == DATA
    assert server.requests[0].path == "http://far.example/data.bin"


def test_a_dataset_is_built_of_downloaded_files(server, tmp_path):
    @hr.dataset("bytes", version="1.0.0", features={"x": np.int64}, sources={"data": source(server)})
    def rows(split, sources):
        yield from ({"x": byte} for byte in sources["data"].read_bytes()[:10])

    server.fault = lambda request: "truncated" if request.number == 0 else None
    built = rows.build(tmp_path)
    assert [int(r["x"]) for r in built.as_dataset("train")] != []
    assert built.info.download_checksums == {f"{server.url}/data.bin": SUM}
    assert built.info.download_size == len(DATA)
