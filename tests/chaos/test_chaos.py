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


@pytest.fixture(scope="module")
def said():
    """What one process prints of all runs."""
    kinds = [argument for kind, count in RUNS.items() for argument in ("--kind", f"{kind}={count}")]
    command = [sys.executable, "-m", "tests.chaos.run", "--seed", "20260", *kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", RUNS)
def test_whatever_happens_the_exact_rest_comes_or_an_error(said, kind):
    assert f"({kind}):" not in said, said
    assert re.search(rf"[(,] ?{RUNS[kind]} {kind}[,)]", said), said


@pytest.mark.parametrize("kind", ["http", "s3", "gs"])
def test_reads_that_fail_are_counted_and_every_row_comes_once(kind):
    said = said_by("requests", "--reads", "60", "--on", kind, "--seed", "20")
    if "not tried" in said:
        pytest.skip(said)
    reads, faults = (
        int(re.search(rf"all: .*?([\d,]+) {what}", said)[1].replace(",", "")) for what in ("reads", "faults")
    )
    assert reads >= 60
    assert faults > 0


@pytest.mark.parametrize("how", [(), ("--meddle",)])
def test_a_cache_keeps_to_its_bound_and_gives_right_rows_whichever_process_is_killed(how):
    said = said_by("cache", "--reads", "60", "--kills", "2", "--processes", "2", "--seed", "20", *how)
    assert "2 kills" in said
    assert "nothing went wrong" in said


@pytest.mark.parametrize(
    ("kind", "how"),
    [("postgresql", "--faults"), ("mysql", "--faults"), ("sqlite", "--kills"), ("duckdb", "--kills")],
)
def test_databases_that_die_lose_no_row_and_leave_no_half_of_a_table(kind, how):
    said = said_by("databases", "--on", kind, how, "3", "--seed", "20")
    if "not tried" in said:
        pytest.skip(said)
    assert "nothing went wrong" in said


def said_by(module, *arguments):
    """What a command of this folder prints that must succeed."""
    command = [sys.executable, "-m", f"tests.chaos.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
