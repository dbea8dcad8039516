"""Trainers that take shares of one order: each is sent its own rows alone, and gets what it would of all of them."""

import contextlib
import json
import os
import time
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cluster.few_examples import few_examples, ways
from tests.pipelines import Sometimes

import headrace as hr
from headrace.cluster import split_turns
from headrace.cluster.members import ClusterWorker
from headrace.cluster.split_share import SplitShare, TurnsAhead
from headrace.execute.state import first_unseeded
from headrace.ops.shared.rest import Rest
from headrace.ops.shared.row_share import RowShare
from headrace.ops.shared.turns import Turns
from headrace.plan.spec import Spec
from headrace.testing import check_transformation, difference, our_threads, outcomes, reference_outcomes

D = hr.Dataset


@few_examples
@given(
    **ways,
    block_length=st.sampled_from([None, 3]),
    world=st.integers(2, 3),
    batch_size=st.sampled_from([None, 2]),
    uneven=st.sampled_from(["drop", "pad", "wrap", "shard"]),
    patient=st.booleans(),
    data=st.data(),
)
def test_the_share_of_any_pipeline_on_a_cluster_keeps_every_promise(
    workers, ds, splits, cycle_length, block_length, mode, shared, world, batch_size, uneven, patient, data
):
    assume(first_unseeded(ds._node) is None)
    how = {"cycle_length": cycle_length, "block_length": block_length, "shared": shared}
    try:
        made = ds.distribute_over(workers, splits, mode, **how)
    except ValueError:
        assume(False)
    spec = Spec.of_signature(ds.element_spec)  # which comes from the first element, if functions have no spec
    assume(not any(kind == "value" and spec.refusal(value) for kind, value in reference_outcomes(ds, 0, 41)))
    rank = data.draw(st.integers(0, world - 1))
    share = made.shard(world, rank) if uneven == "shard" else made.distribute(rank, world, batch_size, uneven)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(split_turns, "WORTH_SECONDS", 0.0 if patient else 60.0)
        check_transformation(share, cuts=3, limit=20, epochs=1)
    assert our_threads() == []


@pytest.fixture
def received(monkeypatch):
    """How many rows have come, by the session that asked for them."""
    rows, poll = {}, ClusterWorker.poll

    def counted(member, request):
        with contextlib.closing(poll(member, request)) as answer:
            for label, data in answer:
                rows[request.session] = rows.get(request.session, 0) + (0 if data is None else data.num_rows)
                yield label, data

    monkeypatch.setattr(ClusterWorker, "poll", counted)
    return rows


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("splits", "cycle_length"), [(4, None), (7, 3)])
def test_a_trainer_is_sent_its_own_rows_alone_where_the_plan_tells_which(
    workers, received, splits, cycle_length, shared
):
    made = D.range(301).map(lambda x: x * 3).batch(3)
    ds = made.distribute_over(workers, splits, cycle_length=cycle_length, shared=shared)
    want = list(D.range(301).map(lambda x: x * 3).batch(3).distribute_over(workers, splits, cycle_length=cycle_length))
    received.clear()
    for rank in range(3):
        got = list(ds.distribute(rank, 3))
        assert all(map(np.array_equal, got, want[rank::3])) and len(got) == len(want) // 3 == 33
    assert [33 <= rows <= 34 for rows in received.values()] == [True] * 3  # one of the step that is left out


@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_others_are_left_out_behind_a_filter_until_a_split_ends(workers, received, shared):
    ds = D.range(3000).filter(lambda x: x % 7 > 0).distribute_over(workers, splits=5, shared=shared)
    want = reference_outcomes(ds)
    received.clear()
    for rank in range(4):
        assert difference(outcomes(iter(ds.distribute(rank, 4))), want[rank::4][: len(want) // 4]) is None
    assert sum(received.values()) < 1.5 * len(want)


class Slow:
    """A function that takes a while, and writes down each of its calls, wherever it runs."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, x):
        time.sleep(0.002)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)
        return x


def test_rows_that_can_be_passed_over_are_made_for_one_trainer_alone(workers, tmp_path):
    rows = 400
    ds = D.range(rows).map(Slow(tmp_path / "calls"), mode="eager").distribute_over(workers, splits=4)
    for rank in range(2):
        assert list(ds.distribute(rank, 2)) == list(range(rank, rows, 2))
    assert rows <= (tmp_path / "calls").stat().st_size < 1.3 * rows


@pytest.mark.parametrize("worth_seconds", [0.0, 60.0])
def test_a_split_that_ends_unexpectedly_changes_nothing(workers, monkeypatch, worth_seconds):
    monkeypatch.setattr(split_turns, "WORTH_SECONDS", worth_seconds)
    ds = D.range(90).filter(lambda x: x < 40 or x % 3 == 1).distribute_over(workers, splits=6, cycle_length=4)
    check_transformation(ds.distribute(1, 3), cuts=8, epochs=1)
    check_transformation(ds.distribute(2, 3, batch_size=2, uneven="pad"), cuts=8, epochs=1)


def of_world(ds, world, state=None):
    return [ds.distribute(rank, world, batch_size=2).iterator(state) for rank in range(world)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_trainers_at_different_steps_go_on_as_another_number_of_them(workers, shared, filtered):
    rows = D.range(240).map(Sometimes(50), mode="eager")
    rows = rows.filter(lambda x: x % 5 > 0) if filtered else rows
    ds = rows.distribute_over(workers, splits=6, shared=shared)
    want = reference_outcomes(ds)
    two = of_world(ds, 2)
    shares = [outcomes(it, steps) for it, steps in zip(two, (5, 7), strict=True)]
    merged = hr.merge_states([json.loads(json.dumps(it.state())) for it in two])
    four = of_world(ds, 4, merged)
    for it in four:
        shares.append(outcomes(it))
    for it in (*two, *four):
        it.close()
    got = sorted(int(x) for share in shares for kind, batch in share if kind == "value" for x in batch)
    values = sorted(int(x) for kind, x in want if kind == "value")
    assert set(got) <= set(values) and len(got) == len(set(got))
    failed = sum(kind != "value" for share in shares for kind, _ in share)
    assert len(values) - len(got) <= 2 * failed + 8


lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@given(lengths=lengths, cycle=st.integers(1, 4), block=st.integers(1, 3))
def test_turns_ahead_are_those_of_an_interleave(lengths, cycle, block):
    ahead = TurnsAhead(cycle, block, len(lengths), lengths).expected(0)
    everything = RowShare(1, 0, 1)
    split, row = Turns(np.array(lengths), cycle, block).find(np.arange(sum(lengths)))
    for number, (i, k) in enumerate(zip(split.tolist(), row.tolist(), strict=True)):
        share = SplitShare(everything, block, ahead[i], origin=100)
        assert share.numbers(100 + k, 1).tolist() == [number]


ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=4)


@given(start=st.integers(0, 20), done=ranges)
def test_places_are_found_of_numbers(start, done):
    rest = Rest(start, [(a, a + n) for a, n in done])
    numbers = rest.numbers(np.arange(60))
    assert rest.places(numbers).tolist() == list(range(60))
    others = np.setdiff1d(np.arange(60), numbers)
    assert (rest.places(others) == -1).all()


def test_a_row_that_was_left_out_is_never_given_out(workers, monkeypatch):
    """Were a share to look at a row that it did not announce, that would be an error, not another row."""
    monkeypatch.setattr(RowShare, "mask", lambda self, ordinals: ordinals % 2 == 0)
    with pytest.raises(hr.HeadraceError, match="that of another trainer"):
        list(D.range(20).distribute_over(workers, splits=2).distribute(0, 3))
