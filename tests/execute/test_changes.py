"""States that were taken with other functions or data: a warning names them; there is none where nothing changed."""

import json
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def double(x):
    return x * 2


def triple(x):
    return x * 3


def state_of(ds, taken=1):
    with iter(ds) as it:
        for _ in range(taken):
            next(it)
        return json.loads(json.dumps(it.state()))


def resumed(ds, state, **options):
    return [int(x) for x in ds.with_options(hr.Options(**options)).iterator(state)]


def test_a_changed_function_is_named_with_its_line():
    state = state_of(D.range(4).map(double))
    with pytest.warns(hr.ChangeWarning) as caught:
        assert resumed(D.range(4).map(triple), state) == [3, 6, 9]
    line = triple.__code__.co_firstlineno
    assert f"another triple ({__file__}:{line}) in operation 2, map: its code has changed" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_what_a_function_holds_is_part_of_it():
    def by(k):
        return lambda x: x * k

    with pytest.warns(hr.ChangeWarning, match="map: what it holds has changed"):
        resumed(D.range(4).map(by(3)), state_of(D.range(4).map(by(2))))
    with pytest.warns(hr.ChangeWarning, match=r"another triple .*: its code and what it holds has changed|: its code"):
        resumed(D.range(4).map(partial(triple)), state_of(D.range(4).map(partial(double))))


def test_changed_data_are_named_with_their_place():
    state = state_of(D.from_tensor_slices([1, 2, 3]))
    with pytest.warns(
        hr.ChangeWarning, match=r"other data in operation 1, from_tensor_slices \(.*test_changes.py:\d+\)"
    ):
        assert resumed(D.from_tensor_slices([1, 3, 2]), state) == [3, 2]


def test_a_change_is_refused_or_passed_over_where_that_is_asked_for():
    state = state_of(D.range(4).map(double))
    with pytest.raises(hr.StateError, match="another triple"):
        resumed(D.range(4).map(triple), state, on_change="raise")
    assert resumed(D.range(4).map(triple), state, on_change="ignore") == [3, 6, 9]
    quiet = state_of(D.range(4).map(double).with_options(hr.Options(on_change="ignore")))
    assert "functions" not in quiet and resumed(D.range(4).map(triple), quiet) == [3, 6, 9]
    with pytest.raises(ValueError, match='on_change is "warn", "raise" or "ignore", not \'panic\''):
        hr.Options(on_change="panic")


def test_one_warning_for_one_restore():
    state = state_of(D.range(4).map(double).filter(lambda x: x >= 0))
    changed = D.range(4).map(triple).filter(lambda x: x >= 1)
    with iter(changed) as it, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        it.restore(state)
    assert len(caught) == 1 and "; with another <lambda>" in str(caught[0].message)


def test_a_function_that_keeps_count_is_resumed_without_a_warning():
    calls, memo = [], {}

    def note(x):
        calls.append(int(x))
        memo[int(x)] = len(memo)
        return x

    ds = D.range(10).map(note).batch(2)
    with iter(ds) as it:
        next(it), next(it)
        state = it.state()
    assert [b.tolist() for b in ds.iterator(state)] == [[4, 5], [6, 7], [8, 9]]


def test_another_python_is_told_what_it_can_compare():
    state = state_of(D.from_tensor_slices([1, 2, 3]).map(double))
    state["functions"]["python"] = "cpython-999"
    state.pop("crc")
    import zlib

    state["crc"] = zlib.crc32(json.dumps(state, sort_keys=True, separators=(",", ":")).encode())
    assert resumed(D.from_tensor_slices([1, 2, 3]).map(triple), state) == [6, 9]
    with pytest.warns(hr.ChangeWarning, match="other data"):
        resumed(D.from_tensor_slices([3, 2, 1]).map(triple), state)


PROGRAM = """
import json, sys, warnings
import numpy as np
import headrace as hr
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "(?s).* uses rng: ", hr.PipelineWarning)
words = {f"w{i}" for i in range(50)}
vocabulary = {w: len(w) for w in words}
mean = np.arange(5.0)
rng = np.random.default_rng()
class Crop:
    def __init__(self, size): self.size, self.made = size, 0
    def __call__(self, x):
        self.made += 1
        return x[: self.size]
def look(x):
    return len(vocabulary) + len(words) + mean[: x & 3].sum() + 0 * rng.random()
def pipeline():
    ds = hr.Dataset.from_tensor_slices({"x": np.arange(20.0).reshape(10, 2), "s": sorted(words)[:10]})
    ds = ds.map(lambda e: e["x"]).map(Crop(1)).map(lambda x: x + look(int(x[0])))
    ds = ds.shuffle(4, seed=1).flat_map(lambda x: hr.Dataset.from_tensors(x).map(lambda y: y * %s))
    return ds.random_map(lambda x, g: x + g.random(), seed=3).batch(2)
if len(sys.argv) > 1:
    it = pipeline().iterator(json.loads(sys.argv[1]))
    list(it)
else:
    it = iter(pipeline())
    next(it)
    print(json.dumps(it.state()))
"""


def test_another_process_finds_nothing_changed_and_then_what_is():
    def run(factor, *args):
        command = [sys.executable, "-c", PROGRAM % factor, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    state = run(2).stdout
    again = run(2, state)
    assert again.returncode == 0, again.stderr
    assert "ChangeWarning" in run(3, state).stderr


def test_names_of_files_are_no_data(tmp_path):
    """The files identify their contents; a directory may have another name."""
    for name in "ab":
        (tmp_path / name).write_text("1\n2\n3\n")
    state = state_of(hr.TextLineDataset([str(tmp_path / "a")]))
    assert set(state.get("functions", {}).get("digests", {})) == set()


def test_large_data_are_sampled_and_looked_at_once(monkeypatch):
    from headrace import _native

    data = np.zeros((1 << 20, 100), np.uint8)
    ds = D.from_tensor_slices(data).batch(10)
    read, crc32c = [], _native.crc32c
    monkeypatch.setattr(_native, "crc32c", lambda part: read.append(len(part)) or crc32c(part))
    for _ in range(3):
        state_of(ds)
    assert 60 << 20 < sum(read) <= 64 << 20
