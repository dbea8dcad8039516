"""The examples run, and the README's code does what it says."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NEEDS = {"": "sklearn", "_torch": "torch", "_jax": "jax", "_keras": "keras", "_ddp": "torch", "_resume": "torch"}


@pytest.fixture
def in_process(tmp_path, monkeypatch):
    """What an example defines, run here with its shards in a folder of the test."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits_data", raising=False)
    monkeypatch.setattr(sys, "argv", ["example", "--data", str(tmp_path)])
    return lambda name: runpy.run_path(str(EXAMPLES / name))


@pytest.mark.parametrize("example", NEEDS)
def test_an_example_learns(example):
    for package in ("sklearn", NEEDS[example]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"digits{example}.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = re.findall(r"test accuracy (\S+)", done.stdout)
    assert len(accuracies) == {"": 8, "_ddp": 2}.get(example, 1), done.stdout
    assert float(accuracies[-1]) > 0.89, done.stdout


def test_digits_are_written_once_and_read_from_shards(tmp_path, in_process):
    module = in_process("digits_data.py")
    train, test = module["digits"]()
    shards = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.tfrecord")}
    assert len(shards) == 8
    module["write_digits"].cache_clear()
    module["digits"]()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.tfrecord")} == shards
    assert (len(train), len(test)) == (1347, 450)
    images = np.stack([image for image, _ in test])
    assert images.dtype == np.float32
    known = {row.tobytes() for row in (module["load_digits"]().data / 16).astype(np.float32)}
    assert {row.tobytes() for row in images} <= known
    one, two = list(train), list(train)
    assert sorted(label for _, label in one) == sorted(label for _, label in two)
    assert not {image.tobytes() for image, _ in one} & {image.tobytes() for image, _ in two}


def test_every_example_is_tested():
    names = {"digits_data.py", *(f"digits{name}.py" for name in NEEDS)}
    assert {path.name for path in EXAMPLES.glob("*.py")} == names


def test_training_goes_on_exactly_where_it_stopped(tmp_path, in_process):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    resume = in_process("digits_resume.py")
    resume["Trainer"].steps.__globals__["EPOCHS"] = 2
    whole = list(resume["Trainer"]().steps())
    epoch = len(whole) // 2
    for stop in (1, epoch - 1, epoch, epoch + 7):
        before, after, _ = resume["interrupted"](stop, tmp_path / "checkpoint.pt")
        assert len(before) == stop
        assert before + after == whole
    assert len(set(whole)) > epoch
    torch.set_num_threads(threads)


def test_the_readme_runs_from_top_to_bottom(capsys):
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 4
    assert "map failed on element 2" in capsys.readouterr().out
