"""docs/checkpoints.md: its code runs as it stands, and its table is the one that the command prints."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/checkpoints.md").read_text()

TORCHTITAN = """
from dataclasses import dataclass
from torch.distributed.checkpoint.stateful import Stateful


class BaseDataLoader(Stateful):
    @dataclass(kw_only=True, slots=True)
    class Config:
        dataset: str = ""

        def build(self, **known):
            return self._owner(config=self, **known)

    def __init_subclass__(cls):
        cls.Config._owner = cls
"""
"""What torchtitan 0.3 asks of a dataloader: its own package requires older versions of others than the tests have."""


def test_the_page_runs(tmp_path):
    for package in ("torch", "lightning", "accelerate", "transformers", "orbax", "keras"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 8
    if importlib.util.find_spec("torchtitan") is None:
        (tmp_path / "torchtitan/components").mkdir(parents=True)
        (tmp_path / "torchtitan/components/dataloader.py").write_text(TORCHTITAN)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:__main__", program],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_trainer_of_the_command_is_on_the_page():
    from tests.chaos import trainer_loops, trainers

    rows = [line for line in PAGE.splitlines() if re.match(r"\| (?!trainer|---)", line)]
    assert len(rows) == 9
    assert all(line.split("|")[2:4] == [" exact ", " exact "] for line in rows)
    elastic = [line.split("|")[4].strip() for line in rows]
    assert elastic.count("exact") == 6
    not_exact = {*trainers.REFUSED, *trainers.NOT_OURS}
    assert len(trainer_loops.FORKED) - len(not_exact) == 6 + 2  # three rows of Accelerate are one
