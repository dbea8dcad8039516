"""`distribute_over(shared=True)`: elements made once for several trainers, each of which is as exact as alone."""

import json
import os

import numpy as np
import pytest
from tests.pipelines import Sometimes

import headrace as hr
from headrace.cluster import shared_split
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset
ROWS = 60


class Counted:
    """A function that writes down each of its calls, wherever it runs."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, x):
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)
        return Sometimes(7)(x)


def counted_rows(path):
    return D.range(ROWS).shuffle(20, seed=3).map(Counted(path), mode="eager")


def test_two_trainers_in_step_get_the_same_elements_made_once(workers, tmp_path):
    ds = counted_rows(tmp_path / "calls").distribute_over(workers, splits=4, shared=True)
    want = reference_outcomes(counted_rows(tmp_path / "others").distribute_over(workers, splits=4))
    first = iter(ds)
    its, got = [first, ds.iterator(state=first.state())], [[], []]
    while len(got[0]) < len(want):
        for it, rows in zip(its, got, strict=True):
            rows.extend(outcomes(it, 3))
    for it, rows in zip(its, got, strict=True):
        assert difference(rows + outcomes(it), want) is None
        it.close()
    assert (tmp_path / "calls").stat().st_size == ROWS


def test_shared_elements_keep_every_promise(workers):
    ds = D.range(30).map(Sometimes(7), mode="eager").filter(lambda x: x % 4 != 1).batch(2)
    check_transformation(ds.distribute_over(workers, splits=3, shared=True), cuts=8, epochs=1)


def test_a_trainer_that_falls_behind_gets_rows_made_anew_and_stops_no_other(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_split, "WINDOW_PARCELS", 2)
    ds = counted_rows(tmp_path / "calls").distribute_over(workers, splits=2, shared=True)
    want = reference_outcomes(ds)
    with ds.iterator() as slow, ds.iterator(state=slow.state()) as quick:
        first = outcomes(slow, 2)
        assert difference(outcomes(quick), want) is None
        assert difference(first + outcomes(slow), want) is None


def test_a_trainer_that_starts_again_joins_the_others_in_the_middle(workers, tmp_path):
    ds = counted_rows(tmp_path / "calls").distribute_over(workers, splits=3, shared=True)
    want = reference_outcomes(counted_rows(tmp_path / "others").distribute_over(workers, splits=3))
    other = iter(ds)
    start = other.state()
    got = outcomes(other, 10)
    with ds.iterator(state=start) as it:
        mine = outcomes(it, 10)
        state = json.loads(json.dumps(it.state()))
    with ds.iterator(state=state) as it:
        assert difference(mine + outcomes(it), want) is None
    assert difference(got + outcomes(other), want) is None
    other.close()
    assert (tmp_path / "calls").stat().st_size == ROWS


def test_a_worker_holds_nothing_once_all_have_left(workers):
    ds = D.range(20).distribute_over(workers, splits=2, shared=True)
    with ds.iterator() as it:
        next(it)
    for member in workers.members():
        assert member.status()["sessions"] == []
        assert member.status()["shared_splits"] == 0


def test_shared_elements_need_seeds(workers):
    with pytest.raises(ValueError, match="several trainers share these elements, so shuffle needs a seed"):
        D.range(9).shuffle(3).distribute_over(workers, shared=True)


@pytest.fixture
def global_seed():
    hr.set_random_seed(1)
    yield
    hr.set_random_seed(None)


@pytest.mark.usefixtures("global_seed")
def test_all_trainers_get_like_lengths_in_a_step(workers):
    world, size = 2, 3
    lines = D.range(400).map(lambda x: np.arange(x * 7 % 50))
    ds = lines.group_by_window(
        lambda line: np.int64(len(line) // 10),
        lambda bucket, window: window.padded_batch(size * world, drop_remainder=True).rebatch(size),
        size * world,
    )
    shared = ds.distribute_over(workers, splits=3, block_length=world, shared=True)
    ranks = [list(shared.distribute(rank, world)) for rank in range(world)]
    assert len(ranks[0]) > 50 and len({batch.shape[1] for batch in ranks[0]}) > 5
    assert [batch.shape for batch in ranks[0]] == [batch.shape for batch in ranks[1]]
