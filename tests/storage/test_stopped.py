"""Writers and readers that are stopped (SIGSTOP) and go on: a laptop that is closed, a container that is frozen."""

import itertools
import os
import pickle
import signal
import sys

import pytest
from tests.chaos import files as chaos_files
from tests.storage import kills

import headrace as hr
from headrace.remote import identity, range_file
from headrace.storage.files import _NamedFile

FILE_EVENTS = {"fcntl.flock", "open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"}
LEAST_STOPS = 3


def stops():
    """At which events a process is stopped: at each of the first, then ever more rarely, up to the last of many."""
    at, chosen = 1, set()
    while at < 100_000:
        chosen.add(at)
        at += 1 + at // 3
    return chosen


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(kills, "ROWS", 60)
    monkeypatch.setattr(kills, "SIZE", 50)
    monkeypatch.setattr(kills, "RECORDS", 500)


def stopped_often(work):
    """What `work` gives in a process of its own that is stopped and continued again and again, while it is at work.

    `work` gets a function to call at each event; what the process does with files are events, too.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(work(stops_itself())))
        finally:
            os._exit(0)
    os.close(write)
    stopped = -1
    status = None
    while status is None or os.WIFSTOPPED(status):
        _, status = os.waitpid(pid, os.WUNTRACED)
        stopped += 1
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGCONT)
    with os.fdopen(read, "rb") as said:
        made = said.read()
    assert status == 0
    assert stopped >= LEAST_STOPS
    return pickle.loads(made)


def stops_itself():
    """A function to call at each event, at some of which it stops this process; events of files call it."""
    events, chosen, pid = itertools.count(1), stops(), os.getpid()

    def event():
        if next(events) in chosen:
            os.kill(pid, signal.SIGSTOP)

    def audit(name, _):
        if name in FILE_EVENTS:
            event()

    def telling(file, data, plain=_NamedFile.write):
        event()
        return plain(file, data)

    sys.addaudithook(audit)
    _NamedFile.write = telling
    return event


def each(rows, event):
    """The rows, with an event after each of them."""
    for row in rows:
        yield row
        event()


@pytest.mark.parametrize("kind", kills.KINDS)
def test_a_writer(kind, tmp_path):
    writer = kills.KINDS[kind](tmp_path)
    writer.prepare()
    stopped_often(lambda _: writer.work() and None)
    writer.check()
    assert not kills.left_behind(tmp_path)


@pytest.mark.parametrize("kind", chaos_files.KINDS)
def test_a_reader(kind, tmp_path):
    make, read = chaos_files.KINDS[kind]
    path = tmp_path / "data"
    path.write_bytes(make(range(40)))
    rows = stopped_often(lambda event: [chaos_files.number(kind, row) for row in each(read([str(path)]), event)])
    assert rows == list(range(40))


@pytest.mark.parametrize("how", [{}, {"num_parallel_calls": 2}, {"mode": "process", "num_parallel_calls": 1}], ids=repr)
def test_a_pipeline(how):
    ds = hr.Dataset.range(60).shuffle(20, seed=1).map(lambda x: x + 1, **how).batch(7)
    made = stopped_often(lambda event: [batch.tolist() for batch in each(ds, event)])
    assert made == [batch.tolist() for batch in ds]


@pytest.mark.parametrize("kind", chaos_files.KINDS)
def test_a_clock_that_jumps(kind, tmp_path, monkeypatch):
    make, read = chaos_files.KINDS[kind]
    path = tmp_path / "data"
    now = [1e9]

    def jump():
        now[0] += 1e5 if now[0] < 2e9 else -2e9
        return now[0]

    monkeypatch.setattr(identity.time, "time", jump)
    monkeypatch.setattr(range_file.time, "time", jump)
    for generation in range(3):
        path.write_bytes(make(range(100 * generation, 100 * generation + 20)))
        it = iter(read([str(path)]))
        rows = [chaos_files.number(kind, next(it)) for _ in range(5)]
        rest = read([str(path)]).iterator(state=it.state())
        assert rows + [chaos_files.number(kind, row) for row in rest] == list(
            range(100 * generation, 100 * generation + 20)
        )
