"""All ranks together: what each waited, and which is the straggler."""

import json
from pathlib import Path

import pytest

import headrace as hr
from headrace.observe.ranks import COLUMNS, Ranks

D = hr.Dataset


def process(rank, waited):
    """A process that waited this share of every second, for ten seconds, with a step a second."""
    samples = [
        {"time": 100.0 * rank + i, "delivered": i, "waited_s": waited * i, "computed_s": (1 - waited) * i}
        for i in range(11)
    ]
    scalars = {"delivered": 10.0, "waited_s": waited * 10, "starved_share": waited}
    return {"rank": rank, "host": "node", "scalars": scalars, "samples": samples}


def test_the_straggler_is_the_rank_that_waits_for_data():
    found = Ranks((process(0, 0.1), process(1, 0.7), process(2, 0.0)))
    assert found.straggler == 1
    shares = found.waiting_shares()
    assert [len(row) for row in shares] == [COLUMNS] * 3
    assert [row[5] for row in shares] == [pytest.approx(0.1), pytest.approx(0.7), 0.0]
    assert found.steps == 10
    assert str(found).endswith("the straggler is rank 1")


def test_a_rank_that_waits_for_a_while_does_so_at_the_same_steps_whatever_its_clock():
    late = process(1, 0.0)
    for sample in late["samples"]:
        sample["waited_s"] = 5.0 * max(0, sample["delivered"] - 5)  # five seconds before each step from the fifth on
    shares = Ranks((process(0, 0.0), late)).waiting_shares()[1]
    assert shares[: COLUMNS // 2] == [0.0] * (COLUMNS // 2)
    assert shares[COLUMNS // 2 :] == [pytest.approx(5 / 6)] * (COLUMNS // 2)


def test_ranks_meet_in_a_folder(tmp_path):
    iterators = [iter(D.range(40).distribute(rank, 2, batch_size=4)) for rank in range(2)]
    for it in iterators:
        assert len(list(it)) == 5
        hr.observe.share_rank(it, tmp_path / "new" / "run7")
    found = hr.observe.gather_ranks(tmp_path / "new" / "run7")
    assert [each["scalars"]["delivered"] for each in found.processes] == [5, 5]
    iterators[0].report(tmp_path / "run.json", ranks=tmp_path / "new" / "run7")
    assert json.loads((tmp_path / "run.json").read_text())["ranks"]["names"] == ["rank 0", "rank 1"]


def test_ranks_meet_in_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        hr.observe.share_rank(iter(D.range(4)), "memory://ranks/run", rank=rank)
    assert len(hr.observe.gather_ranks("memory://ranks/run").processes) == 2
    with pytest.raises(ValueError, match="give the URL as a string"):
        hr.observe.share_rank(iter(D.range(4)), Path("memory://ranks/run"), rank=0)
    assert not list(tmp_path.iterdir())


def test_a_rank_must_be_known(tmp_path):
    it = iter(D.range(4))
    with pytest.raises(ValueError, match="needs a rank"):
        hr.observe.share_rank(it, tmp_path)
    with pytest.raises(hr.HeadraceError, match="share_rank"):
        hr.observe.gather_ranks(tmp_path)
    hr.observe.share_rank(it, tmp_path, rank=3)
    assert hr.observe.gather_ranks(tmp_path).straggler == 3
