"""Busy workers are distinguished from silent ones, and losses that a split may have caused from others."""

import contextlib
import select
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.cluster.test_hostile_clients import certificate

import headrace as hr
from headrace.cluster import on_ray
from headrace.cluster.members import ClusterWorker, Gone
from headrace.cluster.pulse import BEATS, Greeting, Probe, Pulse, WorkerPulse
from headrace.cluster.serve import stop_server
from headrace.cluster.server import start_server
from headrace.cluster.session import MAX_FATAL_LOSSES, MAX_LOST_WORKERS

D = hr.Dataset
HOLDS_THE_GIL = """
import ctypes
from headrace.cluster.server import start_server
server = start_server()
print(server.port, flush=True)
input()
print("now", flush=True)
ctypes.PyDLL(None).pause()
"""


def greets(location):
    with contextlib.closing(Greeting(location)) as greeting:
        while not greeting.heard():
            select.select([greeting._socket], [], [])
    return True


def test_a_worker_whose_gil_is_held_greets():
    with subprocess.Popen([sys.executable, "-c", HOLDS_THE_GIL], stdin=-1, stdout=-1, text=True) as worker:
        port = int(worker.stdout.readline())
        worker.stdin.write("\n")
        worker.stdin.flush()
        worker.stdout.readline()
        try:
            assert greets(f"grpc://127.0.0.1:{port}")
        finally:
            worker.kill()
    with pytest.raises(ConnectionError):
        greets(f"grpc://127.0.0.1:{port}")


def test_a_worker_with_tls_greets_whatever_its_certificate(tmp_path):
    cert, key = certificate(tmp_path, "expired", -30, 1)
    server = start_server(tls=(cert.read_bytes(), key.read_bytes()))
    assert greets(f"grpc+tls://127.0.0.1:{server.port}")
    stop_server(server)


class QuietMember:
    """A worker that listens, and has been asked. It is silent unless a test makes it answer or greet."""

    is_waiting, heard, timeout = True, 0, 8.0

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.location = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self.given_up = []

    def greet(self):
        with self._listener.accept()[0] as connection:
            connection.sendall(b"settings")

    def give_up(self, reason):
        self.given_up.append(reason)

    def close(self):
        self._listener.close()


@pytest.fixture
def member():
    made = QuietMember()
    yield made
    made.close()


@pytest.fixture
def pulse(member):
    made = WorkerPulse(member)
    yield made
    made.close()


def test_a_silent_worker_is_given_up_after_its_checks(member):
    with hr.cluster.addresses([]) as cluster:
        pulse = Pulse(cluster)
        for _ in range(BEATS - 1):
            pulse.check([member])
        assert member.given_up == []
        pulse.check([member])
        assert len(member.given_up) == 1 and "8 seconds" in member.given_up[0]
        pulse.check([])


@pytest.mark.parametrize("sign", ["an answer", "a greeting", "no call"])
def test_any_sign_of_life_begins_the_count_anew(member, pulse, sign):
    missed = [pulse.check() for _ in range(BEATS - 1)]
    if sign == "an answer":
        member.heard += 1
    elif sign == "a greeting":
        member.greet()
        select.select(
            [pulse._probe._greeting._socket], [], []
        )  # as if this process had not been scheduled: it has come
    else:
        member.is_waiting = False
    assert all(missed) and pulse.check()
    member.is_waiting = True
    assert [pulse.check() for _ in range(BEATS)] == [True] * (BEATS - 1) + [False]


def test_a_name_with_several_addresses_is_tried_at_each(member, monkeypatch):
    unused, there = ("127.0.0.1", 9), ("127.0.0.1", int(member.location.rpartition(":")[2]))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 0, "", unused), (2, 1, 0, "", there)])
    probe = Probe(member.location)
    assert not probe.greeted() and not probe.greeted()
    member.greet()
    select.select([probe._greeting._socket], [], [])
    assert probe.greeted()


@pytest.fixture
def server():
    made = start_server(token="secret")
    yield made
    stop_server(made)


@pytest.fixture
def one_worker(server):
    with hr.cluster.addresses([f"127.0.0.1:{server.port}"], token="secret") as cluster:
        yield cluster


def lose(monkeypatch, times, *, silent, opened):
    """Let a worker be lost as often, before or after it has opened a split, and be found again."""
    poll, left = ClusterWorker.poll, [times]

    def losing(member, request):
        for label, data in poll(member, request):
            if left[0] > 0 and (label.what == "opened" or not opened):
                left[0] -= 1
                if opened:
                    yield label, data
                raise Gone("lost", silent=silent)
            yield label, data

    monkeypatch.setattr(ClusterWorker, "poll", losing)


@pytest.mark.parametrize(
    ("silent", "opened", "most"),
    [(False, True, MAX_FATAL_LOSSES), (True, True, MAX_LOST_WORKERS), (False, False, MAX_LOST_WORKERS)],
)
def test_what_a_split_did_not_cause_hardly_counts_against_it(one_worker, monkeypatch, silent, opened, most):
    ds = D.range(5).distribute_over(one_worker, splits=1)
    lose(monkeypatch, most - 1, silent=silent, opened=opened)
    assert list(ds) == list(range(5))
    monkeypatch.undo()
    lose(monkeypatch, most, silent=silent, opened=opened)
    with pytest.raises(hr.WorkerError, match=f"was lost with {most} workers at its row 0.*lost; "):
        list(ds)


def test_a_worker_that_is_given_up_ends_its_calls_and_is_taken_again(server, one_worker, monkeypatch):
    held, begun, poll = threading.Event(), threading.Event(), server.work.poll

    def halted(request):
        monkeypatch.setattr(server.work, "poll", poll)
        begun.set()
        held.wait()
        yield from ()

    monkeypatch.setattr(server.work, "poll", halted)
    ds = D.range(3).distribute_over(one_worker, splits=1)
    one_worker.wait_for(1)
    (member,) = one_worker.members()
    with ThreadPoolExecutor(1) as pool:
        rows = pool.submit(list, ds)
        begun.wait()
        member.give_up("silent")
        assert rows.result() == [0, 1, 2] and one_worker.status()["lost"] == 1
        held.set()


class Losing:
    """A cluster that records which head it has lost."""

    lost = None

    def lose_head(self, address):
        self.lost = address


def test_a_head_of_ray_that_no_longer_greets_is_lost(monkeypatch):
    monkeypatch.setattr(on_ray, "HEAD_CHECK_SECONDS", 0.001)
    known, answers, ended = Losing(), threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        watcher = threading.Thread(target=on_ray._watch_head, args=(weakref.ref(known), address, answers, ended))
        watcher.start()
        connection, _ = head.accept()
        assert known.lost is None
        with connection:
            connection.send(b"greeting")
            answers.wait()
    watcher.join()
    assert known.lost == address


def test_a_head_of_ray_that_never_greeted_is_not_missed(monkeypatch):
    monkeypatch.setattr(on_ray, "HEAD_CHECK_SECONDS", 0.001)
    known, ended, checks = Losing(), threading.Event(), []

    def refused(_probe):
        checks.append(False)
        if len(checks) > 2 * on_ray.MAX_MISSED_HEAD_CHECKS:
            ended.set()
        return False

    monkeypatch.setattr(Probe, "greeted", refused)
    on_ray._watch_head(weakref.ref(known), "127.0.0.1:1", threading.Event(), ended)
    assert len(checks) > 2 * on_ray.MAX_MISSED_HEAD_CHECKS and known.lost is None
