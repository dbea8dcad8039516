"""`distribute_over(shared=True)` with trainers that are processes, one of which is killed in the middle."""

import json
import subprocess
import sys
from contextlib import ExitStack
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

        def start(rank, stop_after):
            told = [str(rank), str(stop_after), token, str(tmp_path / f"rank{rank}"), str(tmp_path / "calls"), *where]
            command = [sys.executable, shared_trainer.__file__, *told]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            trainer = ending.enter_context(subprocess.Popen(command, cwd=Path(__file__).parents[2], **pipes))
            ending.callback(trainer.kill)
            return trainer

        with ExitStack() as ending:
            first, second = start(0, 40), start(1, 40)
            assert first.stdout.readline() == second.stdout.readline() == b"stopped\n"
            second.kill()
            second.wait()
            assert len(rows_of(tmp_path / "rank1")) == 40
            again = start(1, 1)  # the other one has not ended yet: else there was no trainer to share rows with
            assert again.stdout.readline() == b"stopped\n"
            for trainer in (first, again):
                trainer.communicate(b"go on\n", timeout=600)
                assert trainer.returncode == 0
        for rank in range(2):
            assert rows_of(tmp_path / f"rank{rank}") == want[: len(want) // 2 * 2][rank::2]
        made = (tmp_path / "calls").stat().st_size
        assert made < 2 * shared_trainer.ROWS, f"{made} calls: rows were made for each trainer by itself"
