"""The cache of remote files on disk: right bytes, within its bound, whichever process is killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.remote import kept_object
from headrace.remote import objects as remote
from headrace.remote.disk_cache import SUFFIX, TEMPORARY, DiskCache
from headrace.remote.kept_object import KeptObject

LINES = b"".join(b"%9d\n" % i for i in range(40_000))


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(remote, "BLOCK", 1 << 16)
    monkeypatch.setattr(remote, "READ_AHEAD_BYTES", 1 << 14)
    kept_object._warned.clear()


def data_requests(store):
    return sum(request.is_data for request in store.proxy.requests)


def lines(store, url, folder, **changes):
    options = store.patient(remote_cache=str(folder), **changes)
    return [int(x) for x in hr.TextLineDataset(url).with_options(options)]


def test_the_second_pass_comes_from_disk(store, tmp_path):
    url = store.put("large", LINES)
    assert lines(store, url, tmp_path / "c") == list(range(40_000))
    asked = data_requests(store)
    assert lines(store, url, tmp_path / "c") == list(range(40_000))
    assert data_requests(store) == asked


def test_tables_come_from_disk_too(http, tmp_path):
    pq.write_table(pa.table({"x": np.arange(50_000), "y": np.arange(50_000) / 2}), tmp_path / "t", row_group_size=5000)
    url = http.put("t.parquet", (tmp_path / "t").read_bytes())
    ds = hr.ParquetDataset(url).with_options(http.patient(remote_cache=tmp_path / "c"))
    assert sum(int(row["x"]) for row in ds) == sum(range(50_000))
    asked = data_requests(http)
    assert sum(int(row["x"]) for row in ds) == sum(range(50_000))
    assert data_requests(http) - asked <= 2  # the footer, which was looked at outside of any pass


def test_an_object_that_was_replaced_is_read_anew(store, tmp_path):
    url = store.put("file", LINES)
    lines(store, url, tmp_path)
    store.put("file", LINES[:-10] + b"%9d\n" % 7)
    assert lines(store, url, tmp_path) == [*range(39_999), 7]


def test_what_is_damaged_is_fetched_again(http, tmp_path, caplog):
    url = http.put("file", LINES)
    lines(http, url, tmp_path)
    files = sorted(tmp_path.glob(f"*{SUFFIX}"))
    for number, file in enumerate(files[:4]):
        data = file.read_bytes()
        half = len(data) // 2
        file.write_bytes([data[:half], b"", data[:half] + b"?" + data[half + 1 :], b"{}\n" + data][number])
    assert lines(http, url, tmp_path) == list(range(40_000))
    assert caplog.text.count("is damaged") == 4


def test_what_is_damaged_after_it_was_found_whole_is_fetched_again(http, tmp_path, caplog):
    url = http.put("file", LINES)
    lines(http, url, tmp_path)
    files = sorted(tmp_path.glob(f"*{SUFFIX}"))
    for file in files:
        os.utime(file, (1, 1))  # long ago, so that to have been checked counts
    assert lines(http, url, tmp_path) == list(range(40_000))
    for place, file in enumerate(files):
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(data)
    assert lines(http, url, tmp_path) == list(range(40_000))
    assert caplog.text.count("is damaged") == len(files)


def test_ranges_that_are_removed_while_they_are_read_stay_readable(http, tmp_path):
    url = http.put("file", LINES)
    lines(http, url, tmp_path)
    it = iter(hr.TextLineDataset(url).with_options(http.patient(remote_cache=str(tmp_path))))
    got = [int(next(it))]
    for file in tmp_path.glob("*"):
        file.unlink()
    got += [int(x) for x in it]
    assert got == list(range(40_000))


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_range_cut_short_while_it_is_read_is_an_error_that_keeps_the_place(http, tmp_path, left):
    url = http.put("file", LINES)
    lines(http, url, tmp_path)
    it = iter(hr.TextLineDataset(url).with_options(http.patient(remote_cache=str(tmp_path))))
    got = [int(next(it))]
    for file in tmp_path.glob(f"*{SUFFIX}"):
        os.truncate(file, left)
    faults = 0
    while len(got) < 40_000:
        try:
            got.append(int(next(it)))
        except hr.TransportError as error:
            faults += 1
            assert "cut short" in str(error)
            assert faults == 1
    assert got == list(range(40_000))
    assert faults == 1
    assert lines(http, url, tmp_path) == list(range(40_000))


def test_who_looks_at_the_beginning_gets_no_more(http, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "READ_AHEAD_BYTES", 1 << 16)
    url = http.put("file", LINES)
    for _ in range(2):
        with iter(hr.TextLineDataset(url).with_options(http.patient(remote_cache=str(tmp_path)))) as it:
            assert int(next(it)) == 0
    assert data_requests(http) == 1


def test_a_full_disk_or_a_folder_that_cannot_be_is_no_error(http, tmp_path, caplog):
    url = http.put("file", LINES)
    (tmp_path / "file").write_text("in the way")
    assert lines(http, url, tmp_path / "file") == list(range(40_000))
    assert "keeps nothing more" in caplog.text


@pytest.fixture
def small_disk(tmp_path):
    """A disk with room for three ranges and a half."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=240k", "none", folder], check=False)
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_fills_keeps_what_it_has_and_says_so_once(http, small_disk, caplog):
    url = http.put("file", LINES)
    for _ in range(3):
        assert lines(http, url, small_disk / "c") == list(range(40_000))
    assert caplog.text.count("keeps nothing more") == 1
    assert "No space left" in caplog.text
    assert data_requests(http) == 7 + 3 + 3  # three ranges have room, and the last one, which is short
    assert not list(small_disk.rglob(f"*{TEMPORARY}"))
    assert CliRunner().invoke(app, ["cache", "verify", str(small_disk / "c")]).exit_code == 0


def test_a_disk_that_cannot_be_written_to_is_read_from(http, small_disk, caplog):
    url = http.put("file", LINES[:200_000])
    assert lines(http, url, small_disk / "c") == list(range(20_000))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    asked = data_requests(http)
    assert lines(http, url, small_disk / "c") == list(range(20_000))
    assert data_requests(http) - asked <= 1  # the last range had no room
    other = http.put("other", LINES)
    assert lines(http, other, small_disk / "c") == list(range(40_000))
    assert "keeps nothing more" in caplog.text


def test_a_folder_that_is_removed_during_a_pass_is_made_anew(http, tmp_path):
    url = http.put("file", LINES)
    lines(http, url, tmp_path / "c")
    it = iter(hr.TextLineDataset(url).with_options(http.patient(remote_cache=str(tmp_path / "c"))))
    got = [int(next(it)) for _ in range(10)]
    shutil.rmtree(tmp_path / "c")
    assert got + [int(x) for x in it] == list(range(40_000))
    assert lines(http, url, tmp_path / "c") == list(range(40_000))
    asked = data_requests(http)
    assert lines(http, url, tmp_path / "c") == list(range(40_000))
    assert data_requests(http) == asked


def test_who_waits_for_a_lock_that_is_removed_takes_the_one_that_is_there(tmp_path):
    cache = DiskCache(str(tmp_path), 100_000)
    waits = threading.Thread(target=cache.add, args=(tmp_path / f"b{SUFFIX}", bytes(50_000)))
    with cache._locked():
        waits.start()
        while not is_waited_for(tmp_path / "used"):
            pass
        (tmp_path / "used").unlink()
        DiskCache(str(tmp_path), 100_000).add(tmp_path / f"a{SUFFIX}", bytes(60_000))
    waits.join()
    assert size_of(tmp_path) <= 100_000


def is_waited_for(path):
    """Whether a process waits for a lock of this file, according to the kernel."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_each_keeps_to_a_bound_of_its_own(tmp_path):
    large, small = (KeptObject(DiskCache(str(tmp_path), bound), "f", "1") for bound in (100_000, 40_000))
    for i in range(30):
        (small if i % 10 == 9 else large).put(i, i + 9000, bytes(9000))
        assert size_of(tmp_path) <= (40_000 if i % 10 == 9 else 100_000)


LATE_HANDLER = """
import faulthandler, os, sys
from pathlib import Path
import headrace as hr
from headrace.remote import objects
objects.BLOCK, objects.READ_AHEAD_BYTES = 1 << 16, 1 << 14
url, folder = sys.argv[1:]
read = lambda: iter(hr.TextLineDataset(url).with_options(hr.Options(remote_cache=folder)))
list(read())
for file in Path(folder).glob("*.range"):
    os.utime(file, (1, 1))  # long ago, so that to have been checked counts
list(read())
it = read()
got = [int(next(it))]
faulthandler.enable()
for file in Path(folder).glob("*.range"):
    os.truncate(file, 0)
while len(got) < 40_000:
    try:
        got.append(int(next(it)))
    except hr.TransportError as error:
        assert "cut short" in str(error)
assert got == list(range(40_000))
"""


def test_a_foreign_handler_set_during_a_pass_ends_no_process(http, tmp_path):
    url = http.put("file", LINES)
    done = subprocess.run(
        [sys.executable, "-c", LATE_HANDLER, url, str(tmp_path / "c")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def size_of(folder):
    return sum(f.stat().st_size for f in folder.iterdir() if f.name != "used")


def test_the_bound_holds_and_what_was_used_last_stays(tmp_path):
    cache = KeptObject(DiskCache(str(tmp_path), 100_000), "f", "1")
    for i in range(50):
        cache.put(i, i + 9000, bytes(9000))
        assert size_of(tmp_path) <= 100_000
        assert cache.get(0, 9000) == bytes(9000)
        time.sleep(0.002)  # access times show which file was used last
    assert cache.get(49, 9049) is not None
    assert cache.get(1, 9001) is None
    cache.put(0, 200_000, bytes(200_000))
    assert cache.get(0, 200_000) is None


WRITER = """
import random, sys
from headrace.remote.disk_cache import DiskCache
from headrace.remote.kept_object import KeptObject
folder, seed, reads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cache, draw = KeptObject(DiskCache(folder, 2_000_000), "f", "1"), random.Random(seed)
for _ in range(reads):
    start = draw.randrange(200) * 20_000
    want = (b"%d " % start * 20_000)[:20_000]
    got = cache.get(start, start + 20_000)
    assert got in (None, want), start
    if got is None:
        cache.put(start, start + 20_000, want)
"""


def writers(folder, *, processes, reads, kills):
    """So many processes that read and write at random, killed at random and begun anew; the most bytes ever seen."""
    draw, largest = random.Random(1), 0
    begin = lambda seed: subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(seed), str(reads)])  # noqa: E731
    running = [begin(seed) for seed in range(processes)]
    try:
        while running:
            seen = 0
            for file in folder.iterdir() if folder.exists() else ():
                with contextlib.suppress(FileNotFoundError):
                    seen += file.stat().st_size if file.name != "used" else 0
            largest = max(largest, seen)
            if kills and seen and draw.random() < 0.05:
                victim = running.pop(draw.randrange(len(running)))
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                kills -= 1
                running.append(begin(100 + kills))
            for each in [p for p in running if p.poll() is not None]:
                assert each.returncode == 0
                running.remove(each)
    finally:
        for each in running:
            each.kill()
            each.wait()
    return largest, kills


def test_processes_that_are_killed_leave_it_within_its_bound(tmp_path):
    largest, kills = writers(tmp_path / "c", processes=2, reads=400, kills=3)
    assert kills == 0
    assert 1_000_000 < largest <= 2_000_000
    assert DiskCache(str(tmp_path / "c"), 2_000_000).prune(10**9) <= 2_000_000
    assert CliRunner().invoke(app, ["cache", "verify", str(tmp_path / "c")]).exit_code == 0


def test_the_commands(http, tmp_path):
    url = http.put("file", LINES)
    lines(http, url, tmp_path / "c")
    run = CliRunner().invoke
    listed = run(app, ["cache", "ls", str(tmp_path / "c")])
    assert url in listed.output.replace("\n", "")
    next((tmp_path / "c").glob(f"*{SUFFIX}")).write_bytes(b"?")
    checked = run(app, ["cache", "verify", str(tmp_path / "c")])
    assert checked.exit_code == 1
    assert "6 of 7 ranges are whole" in checked.output
    assert run(app, ["cache", "verify", str(tmp_path / "c")]).exit_code == 0
    pruned = run(app, ["cache", "prune", str(tmp_path / "c"), "--to", "200000"])
    assert pruned.exit_code == 0
    assert size_of(tmp_path / "c") <= 200_000
    assert run(app, ["cache", "prune", str(tmp_path / "c"), "--to", "0.1MB"]).exit_code == 0
    assert size_of(tmp_path / "c") <= 100_000
    assert run(app, ["cache", "prune", str(tmp_path / "c")]).exit_code == 0
    assert size_of(tmp_path / "c") == 0
    assert "no number of bytes" in str(run(app, ["cache", "prune", str(tmp_path / "c"), "--to", "much"]).exception)


@pytest.mark.parametrize("command", ["ls", "verify", "prune"])
def test_a_folder_that_is_no_cache_is_left_alone(tmp_path, command):
    (tmp_path / "mine.range").write_bytes(b"no range at all")
    done = CliRunner().invoke(app, ["cache", command, str(tmp_path)])
    assert done.exit_code != 0
    assert "is no cache of remote files" in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.range"]
