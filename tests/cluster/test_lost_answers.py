"""Answers that are lost on the way, at every place: the connection breaks, the worker lives and is asked again."""

import contextlib
import json
import threading

import pytest
from tests.pipelines import Sometimes

import headrace as hr
from headrace.cluster.members import ClusterWorker, Gone
from headrace.cluster.serve import stop_server
from headrace.cluster.server import start_server
from headrace.cluster.session import Session, SplitStart
from headrace.cluster.split_turns import DistributeOverStream
from headrace.testing import difference, outcomes, reference_outcomes

D = hr.Dataset


class LostLabel:
    """Breaks the connection once, when the answers to all have given this many labels."""

    def __init__(self, number):
        self.number = number
        self.seen = 0
        self._poll = ClusterWorker.poll

    def poll(self, member, request):
        with contextlib.closing(self._poll(member, request)) as answer:
            for label, data in answer:
                self.seen += 1
                if self.seen == self.number:
                    raise Gone("cut")
                yield label, data


@pytest.fixture(scope="module")
def one_worker():
    """A single worker: what is lost must come from the one that has given it out already."""
    server = start_server(token="secret")
    with hr.cluster.addresses([f"127.0.0.1:{server.port}"], token="secret") as cluster:
        yield cluster
    stop_server(server)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("splits", [1, 3])
def test_whatever_is_lost_on_the_way_is_asked_for_again(one_worker, monkeypatch, splits):
    ds = D.range(4).map(Sometimes(3), mode="eager").distribute_over(one_worker, splits)
    want = reference_outcomes(ds)
    number, lost = 1, True
    while lost:
        chance = LostLabel(number)
        monkeypatch.setattr(ClusterWorker, "poll", lambda member, request, chance=chance: chance.poll(member, request))
        with ds.iterator() as it:
            assert difference(outcomes(it), want) is None, f"label {number} was lost"
        lost = chance.seen >= number
        number += 1
    assert number > len(want) + splits, "rows and ends were lost"


def test_a_split_that_begins_elsewhere_than_expected_gets_nothing_of_what_was_asked_for_before(one_worker, monkeypatch):
    ds = D.range(40).map(Sometimes(50), mode="eager").distribute_over(one_worker, splits=2)
    want = reference_outcomes(ds)
    with ds.iterator() as it:
        got = outcomes(it, 7)
        state = json.loads(json.dumps(it.state()))
    begun, poll = [threading.Event(), threading.Event()], ClusterWorker.poll

    def expect_the_start(self, session, starts, upcoming):
        for number in range(2):
            session.expect(number, SplitStart({}, 0))
        begun[1].set()  # all wait for split 0 alone

    def begin(self, number, start, begin=Session.begin):
        begin(self, number, start)
        begun[number].set()

    def late_answer(member, request):
        with contextlib.closing(poll(member, request)) as answer:
            for label, data in answer:
                assert begun[label.split].wait(300)
                yield label, data

    monkeypatch.setattr(DistributeOverStream, "_expect", expect_the_start)
    monkeypatch.setattr(Session, "begin", begin)
    monkeypatch.setattr(ClusterWorker, "poll", late_answer)
    with ds.iterator(state=state) as it:
        assert difference(got + outcomes(it), want) is None
