"""A minute of chaos, the same in every run; `make chaos` has half an hour of another one each time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = {
    "killed readers": 10,
    "disk": 12,
    "writers": 6,
    "workers": 2,
    "changed files": 15,
    "stores": 5,
    "interrupts": 10,
    "forks": 10,
    "threads": 8,
    "functions": 4,
    "clusters": 2,
}
"""How many of each kind, of seeds that are always the same."""


@pytest.mark.parametrize("kind", RUNS)
def test_whatever_happens_the_exact_rest_comes_or_an_error(kind):
    command = [sys.executable, "-m", "tests.chaos.run", "--seed", "20260", "--kind", kind, "--count", str(RUNS[kind])]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    runs, wrong = map(int, re.search(r"(\d+) runs, (\d+) of them wrong", done.stdout).groups())
    assert (runs, wrong) == (RUNS[kind], 0)
