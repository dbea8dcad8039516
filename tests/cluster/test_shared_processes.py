"""`distribute_over(shared=True)` with trainers that are processes, one of which is killed in the middle."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cluster import shared_trainer

import headrace as hr
from headrace.testing import reference_outcomes


def rows_of(path):
    return [json.loads(line)[0] for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.slow
def test_a_trainer_that_is_killed_and_starts_again_disturbs_no_other(tmp_path):
    with hr.cluster.local(2) as workers:
        workers.wait_for(2)
        token, where = workers._launcher._token, [member.name for member in workers.members()]
        want = reference_outcomes(shared_trainer.dataset(workers, str(tmp_path / "others")))
        want = [int(value) for _, value in want]

        def start(rank):
            told = [str(rank), token, str(tmp_path / f"rank{rank}"), str(tmp_path / "calls"), *where]
            return subprocess.Popen([sys.executable, shared_trainer.__file__, *told], cwd=Path(__file__).parents[2])

        trainers = [start(0), start(1)]
        try:
            log, until = tmp_path / "rank1", time.monotonic() + 120
            while not log.exists() or len(log.read_text().splitlines()) < 40:
                assert trainers[1].poll() is None and time.monotonic() < until
                time.sleep(0.05)
            trainers[1].send_signal(signal.SIGKILL)
            trainers[1].wait()
            assert len(rows_of(log)) < len(want) // 2
            trainers[1] = start(1)
            assert [trainer.wait(240) for trainer in trainers] == [0, 0]
        finally:
            for trainer in trainers:
                trainer.kill()
                trainer.wait()
        for rank in range(2):
            assert rows_of(tmp_path / f"rank{rank}") == want[: len(want) // 2 * 2][rank::2]
        made = (tmp_path / "calls").stat().st_size
        assert made < 2 * shared_trainer.ROWS, f"{made} calls: rows were made for each trainer by itself"
