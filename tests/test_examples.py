"""The examples run, and the README's code does what it says."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NEEDS = {"torch": "torch", "jax": "jax", "keras": "keras", "ddp": "torch", "resume": "torch"}


def test_an_example_with_scikit_learn(capsys):
    pytest.importorskip("sklearn")
    runpy.run_path(str(EXAMPLES / "digits.py"), run_name="__main__")
    assert "accuracy 0.9" in capsys.readouterr().out


@pytest.mark.parametrize("example", NEEDS)
def test_an_example_with_a_framework(example):
    for package in ("sklearn", NEEDS[example]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"digits_{example}.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("accuracy 0.9", done.stdout)) == (2 if example == "ddp" else 1), done.stdout


def test_every_example_is_tested():
    names = {"digits.py", "digits_data.py", *(f"digits_{name}.py" for name in NEEDS)}
    assert {path.name for path in EXAMPLES.glob("*.py")} == names


def test_training_goes_on_exactly_where_it_stopped(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(EXAMPLES)
    resume = runpy.run_path(str(EXAMPLES / "digits_resume.py"))
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
