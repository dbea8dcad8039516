"""headrace rows, replay and state: what the model saw, from the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr

HEADRACE = str(Path(sys.executable).with_name("headrace"))
SCRIPT = """
import headrace as hr

def divide(x):
    return 60 // (int(x) - 9)

ds = hr.Dataset.range(100).shuffle(10, seed=1).batch(4)
bad = hr.Dataset.range(100).map(divide).batch(4)

def unseeded():
    return hr.Dataset.range(100).filter(lambda x: x > 3).shuffle(10).batch(4)

if __name__ == "__main__":
    raise SystemExit("the script itself must not run")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(SCRIPT)
    return path


def run(*args):
    return subprocess.run([HEADRACE, *map(str, args)], capture_output=True, text=True, check=False)


def test_rows_of_a_step(script):
    result = run("rows", f"{script}:ds", "--step", 3, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    want = hr.Dataset.range(100).shuffle(10, seed=1).batch(4)[3]
    assert [row["number"] for row in found["rows"]] == want.tolist()


def test_states_are_moved_shown_and_used(script, tmp_path):
    moved = tmp_path / "moved.json"
    result = run("state", "move", f"{script}:unseeded", "--step", 7, "--epoch", 2, "-o", moved)
    assert result.returncode == 0 and "has no seed" in result.stderr
    shown = run("state", "show", moved).stdout
    assert "epoch 2, 7 elements delivered" in shown
    assert "shuffle(buffer_size=10, seed=drawn): at row" in shown and "the buffer holds 10 rows" in shown
    state = json.loads(moved.read_text())
    ds = hr.Dataset.range(100).filter(lambda x: x > 3).shuffle(10).batch(4)
    first = next(ds.iterator(state=state))
    assert [row.number for row in ds.rows_of(7, state=state)] == first.tolist()


def test_replay_shows_the_element_or_the_error(script):
    fine = run("replay", f"{script}:bad", "--step", 3, "--row", 1)
    assert (fine.returncode, fine.stdout.strip()) == (0, "np.int64(15)")
    failed = run("replay", f"{script}:bad", "--step", 2, "--row", 1)
    assert failed.returncode == 1
    assert "in divide" in failed.stderr and "ZeroDivisionError" in failed.stderr


def test_a_dataset_that_is_not_there(script):
    result = run("rows", f"{script}:dss", "--step", 1)
    assert result.returncode == 2 and "did you mean 'ds'?" in result.stderr
