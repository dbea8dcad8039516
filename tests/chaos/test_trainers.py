"""Two kills of every trainer; `make chaos` has twenty."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def table(*arguments, **environment):
    """The table that the command prints, as rows of cells."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.trainers", "--kills", "2", "--table", *arguments],
        cwd=ROOT,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", **environment},  # which take longer than the steps
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(r" {2,}", line) for line in done.stdout.splitlines()[2:] if line]
    return {name.strip(): cells for name, *cells in rows}


def needs(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked from a process that has imported the frameworks")
def test_trainers_see_the_same_batches_after_kills_and_with_other_processes():
    needs("torch", "accelerate", "lightning", "transformers", "orbax", "jax")
    rows = table()
    assert len(rows) == 10
    assert {cells[0] for cells in rows.values()} == {cells[1] for cells in rows.values()} == {"exact"}
    elastic = {name: cells[2] for name, cells in rows.items() if cells[2] != "exact"}
    assert elastic == {"huggingface_map": "warned of", "huggingface_iterable": "refused"}


@pytest.mark.parametrize("backend", ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def test_keras_sees_the_same_batches_after_kills(backend):
    needs("keras", backend)
    assert table("--keras", KERAS_BACKEND=backend) == {f"keras_{backend}": ["exact", "exact", "one process"]}
