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
PROGRAMS = {
    "csv_sklearn": ("sklearn", [r"from_csv\(iris\.csv", r"'species'|'setosa'", r"test accuracy (0\.[89]|1\.0)"]),
    "tfrecord_torch": (
        "torch",
        [r"epoch 3: loss 0\.1", "stopped at step 97 and resumed, the weights are the same: True"],
    ),
    "text_vocabulary": (
        "numpy",
        ["20 words of 29", r"\(3, 10\)", r"\[\[8, 10, 10\], \[8, 15\]\]", "and back: the mill", "in buckets: "],
    ),
    "text_torch": ("torch", ["words and pairs, counted in", "lengths", r"test accuracy (0\.9|1\.0)"]),
    "keras_fit": ("keras", [r"test accuracy 0\.[89]", "of the points are taken to lie in the ring"]),
    "tabular": (
        "keras",
        [
            r"4 +age_bucketized_X_job|age_bucketized_X_job_embedding",
            r"torch: test accuracy 0\.[89]",
            "torch: stopped and resumed, the weights are the same: True",
            r"keras: test accuracy 0\.[89]",
            "keras: stopped and resumed, the weights are the same: True",
            "with one's weights both predict the same: True",
        ],
    ),
    "image_folder": (
        "torch",
        [r"classes: \['disc', 'square', 'stripes'\]", r"batch\(…\) of \(float32", r"test accuracy (0\.[89]|1\.0)"],
    ),
    "imagenet_torch": (
        "torch",
        [r"augmented by NumPy: .* waited for data \d+%", r"augmented on \w+ in batches: .* waited for data \d+%"],
    ),
    "parquet_groups": ("pyarrow", [r"ParquetDataset\(orders-00000-of-00002", r"\{0: \d+, .*6: \d+\}", r"Ragged\(\[\["]),
    "slow_functions": ("numpy", ["8 threads .* elements/s", "2 processes .* elements/s", "AUTOTUNE finds .* threads"]),
    "demo": (
        "sklearn",
        ["times as fast", "prefetch.buffer_size=AUTOTUNE", "damaged.tfrecord, record 224", "never killed: True"],
    ),
}
"""What each program that a newcomer might write needs, and must print."""


@pytest.fixture
def in_process(tmp_path, monkeypatch):
    """What an example defines, run here with its shards in a folder of the test."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits_data", raising=False)
    monkeypatch.setattr(sys, "argv", ["example", "--data", str(tmp_path)])
    return lambda name: runpy.run_path(str(EXAMPLES / name))


def printed(program, *packages):
    """What a program prints, run as people run it."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{program}.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("example", NEEDS)
def test_an_example_learns(example):
    said = printed(f"digits{example}", "sklearn", NEEDS[example])
    accuracies = re.findall(r"test accuracy (\S+)", said)
    assert len(accuracies) == {"": 8, "_ddp": 2}.get(example, 1), said
    assert float(accuracies[-1]) > 0.89, said


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_first_program_does_what_it_says(program):
    package, wanted = PROGRAMS[program]
    said = printed(program, package)
    for pattern in wanted:
        assert re.search(pattern, said), said


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
    elsewhere = {"bigquery.py"}  # tests/databases/test_bigquery.py has the server that it needs
    names = {
        "digits_data.py",
        *elsewhere,
        *(f"digits{name}.py" for name in NEEDS),
        *(f"{name}.py" for name in PROGRAMS),
    }
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
