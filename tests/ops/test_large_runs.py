"""States of large runs go on in another process, with another number of processes, as the reference executor says."""

import json
import random
import subprocess
import sys

import pytest
from tests.ops.large_runs import PIPELINES, plain

from headrace.testing import reference_outcomes

CUTS = 5


@pytest.fixture(scope="module")
def resumed():
    """For each pipeline and cut: how many elements came before it, and what another process gave after it."""
    draw, jobs, given = random.Random(7), [], []
    for name, pipeline in PIPELINES.items():
        for _ in range(CUTS):
            world_size, steps = draw.choice([1, 2, 3]), draw.randrange(12)
            rank = draw.randrange(world_size)
            it = pipeline().distribute(rank, world_size).iterator()
            for _ in range(steps):
                next(it)
            jobs.append((name, draw.choice([1, 2, 3]), it.state()))
            given.append(world_size * steps)
    program = [sys.executable, "-m", "tests.ops.large_runs"]
    done = subprocess.run(program, input=json.dumps(jobs), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = zip(jobs, given, json.loads(done.stdout), strict=True)
    return [(name, world_size, before, rest) for (name, world_size, _), before, rest in found]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_state_goes_on_elsewhere_as_the_reference_says(name, resumed):
    want = [plain(element) for _, element in reference_outcomes(PIPELINES[name]())]
    mine = [entry for entry in resumed if entry[0] == name]
    assert len(mine) == CUTS
    for _, world_size, before, rest in mine:
        left = want[before:]
        assert rest == left[: len(left) // world_size * world_size]
