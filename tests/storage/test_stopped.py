"""Writers and readers that are stopped (SIGSTOP) and go on: a laptop that is closed, a container that is frozen."""

import os
import pickle
import signal

import pytest
from tests.chaos import files as chaos_files
from tests.storage import kills

import headrace as hr
from headrace.remote import identity, range_file

STOPS = 12


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(kills, "ROWS", 60)
    monkeypatch.setattr(kills, "SIZE", 50)
    monkeypatch.setattr(kills, "RECORDS", 500)


def stopped_often(work):
    """What `work` gives in a process of its own that is stopped and continued again and again."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    for _ in range(STOPS):
        os.kill(pid, signal.SIGSTOP)
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        os.kill(pid, signal.SIGCONT)
    else:
        _, status = os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as said:
        made = said.read()
    assert status == 0
    return pickle.loads(made)


@pytest.mark.parametrize("kind", kills.KINDS)
def test_a_writer(kind, tmp_path):
    writer = kills.KINDS[kind](tmp_path)
    writer.prepare()
    stopped_often(lambda: writer.work() and None)
    writer.check()
    assert not kills.left_behind(tmp_path)


@pytest.mark.parametrize("kind", chaos_files.KINDS)
def test_a_reader(kind, tmp_path):
    make, read = chaos_files.KINDS[kind]
    path = tmp_path / "data"
    path.write_bytes(make(range(40)))
    rows = stopped_often(lambda: [chaos_files.number(kind, row) for row in read([str(path)])])
    assert rows == list(range(40))


@pytest.mark.parametrize("how", [{}, {"num_parallel_calls": 2}, {"mode": "process", "num_parallel_calls": 1}], ids=repr)
def test_a_pipeline(how):
    ds = hr.Dataset.range(60).shuffle(20, seed=1).map(lambda x: x + 1, **how).batch(7)
    assert stopped_often(lambda: [batch.tolist() for batch in ds]) == [batch.tolist() for batch in ds]


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
