"""The code of docs/observe.md runs, with the steps and sizes of a small run in place of those of a large one."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import headrace as hr

PAGE = Path(__file__).parents[2] / "docs/observe.md"
SMALLER = {"48_213": "3", "10_000": "100", "batch(256)": "batch(4)", "step=1234, row=7": "step=3, row=1"}


def blocks(tmp_path):
    text = PAGE.read_text()
    for large, small in SMALLER.items():
        assert large in text
        text = text.replace(large, small)
    text = text.replace("/shared/run7", str(tmp_path / "run7"))
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def negative(x):
    if x == 2:
        raise ValueError("two")
    return -x


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = hr.Dataset.range(64).map(lambda i: {"x": i}).write_tfrecord(tmp_path / "train", shards=2)
    features = {"x": hr.io.FixedLenFeature([], np.int64)}
    names = {
        "hr": hr,
        "files": files,
        "parse": lambda record: hr.io.parse_single_example(record, features),
        "train_step": lambda batch: float(batch["x"].mean()),
    }
    trace, leave_out, debug, record, metrics, ranks = blocks(tmp_path)

    exec(trace, names)
    shown = capsys.readouterr().out
    assert "epoch 2, step 3: 4 records" in shown
    assert "train-0000" in shown
    whole = names["ds"]
    names["it"] = iter(whole)
    exec(leave_out, names)
    assert len(list(names["ds"])) == len(list(names["it"])) == 15

    failing = hr.Dataset.range(3).map(negative, mode="eager")
    names["it"] = iter(failing)
    assert [next(names["it"]) for _ in range(2)] == [0, -1]
    with pytest.raises(ValueError, match="two"):  # the call that failed, once more
        exec(debug, names)

    exec(record, names)
    assert {"run.html", "run.json", "run.trace.json"} <= {path.name for path in tmp_path.iterdir()}
    names["it"] = iter(whole)
    written = []
    names["writer"] = SimpleNamespace(add_scalar=lambda *scalar: written.append(scalar))
    exec(metrics, names)
    assert ("headrace/delivered", 1.0, 0) in written
    names["it"] = iter(whole.distribute(0, 2))
    next(names["it"])
    exec(ranks, names)
    assert "rank" in capsys.readouterr().out
