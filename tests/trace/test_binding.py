"""What a function reads from outside is what it was when the function was given to an operation."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings

import cloudpickle
import numpy as np
import pytest

import headrace as hr
from headrace.plan.bound import original_of

D = hr.Dataset

LOCK = threading.Lock()
FACTOR = 2
OFFSETS = np.arange(3)


def scaled(x):
    with LOCK:
        return x * FACTOR


def scaled_later(x):
    return scaled(x) + 1


def notebook(code, **names):
    """Run code as the top level of a module and return its names."""
    scope = {"__name__": "__main__", "D": D, "np": np, "hr": hr, **names}
    exec(compile(code, "notebook.py", "exec"), scope)
    return scope


LOOPS = {
    "a number": """
parts = []
for i in range(3):
    parts.append(D.range(2).map(lambda x: x + 10 * i))
""",
    "a number, used by a helper": """
def label(x):
    return x + 10 * i
parts = []
for i in range(3):
    parts.append(D.range(2).map(lambda x: label(x)))
""",
    "a helper's argument": """
def label(x, i):
    return x + 10 * i
parts = []
for i in range(3):
    parts.append(D.range(2).map(lambda x: label(x, i)))
""",
    "a tuple": """
parts = []
for pair in [(0, "a"), (10, "b"), (20, "c")]:
    parts.append(D.range(2).map(lambda x: x + pair[0]))
""",
    "an array": """
parts = []
for row in np.array([[0], [10], [20]]):
    parts.append(D.range(2).map(lambda x: x + row[0]))
""",
    "a function": """
parts = []
for f in [lambda x: x, lambda x: x + 10, lambda x: x + 20]:
    parts.append(D.range(2).map(lambda x: f(x)))
""",
    "a function of NumPy's": """
parts = []
for f, k in [(np.add, 0), (np.add, 10), (np.subtract, -20)]:
    parts.append(D.range(2).map(lambda x: f(x, k)))
""",
    "a dataset": """
parts = []
for ds in [D.range(2), D.range(10, 12), D.range(20, 22)]:
    parts.append(D.range(1).flat_map(lambda _: ds))
""",
    "a named function": """
def label(x):
    return x + 10 * i
parts = []
for i in range(3):
    parts.append(D.range(2).map(label))
""",
    "a function that is redefined": """
parts = []
for i in range(3):
    def label(x):
        return x + 10 * i
    parts.append(D.range(2).map(lambda x: label(x)))
""",
    "an eager function": """
parts = []
for i in range(3):
    parts.append(D.range(2).map(lambda x: x + 10 * i, mode="eager"))
""",
    "a function within the function": """
parts = []
for i in range(3):
    parts.append(D.range(2).flat_map(lambda x: D.range(1).map(lambda y: x + y + 10 * i)))
""",
    "a helper of a closure": """
def build():
    parts = []
    for i in range(3):
        def label(x):
            return x + 10 * i
        parts.append(D.range(2).map(lambda x: label(x)))
    return parts
parts = build()
""",
    "a function with a state": """
parts = []
for i in range(3):
    parts.append(D.range(2).scan(0, lambda _, x: (0, x + 10 * i)))
""",
    "the reduction of a window": """
parts = []
for i in range(3):
    parts.append(D.range(2).group_by_window(lambda x: 0, lambda _, ds: ds.map(lambda x: x + 10 * i), 2))
""",
    "the size of a window": """
parts = []
for i in range(1, 4):
    sized = D.range(2).group_by_window(lambda x: 0, lambda _, ds: ds.batch(2), window_size_func=lambda _: i)
    parts.append(sized.flat_map(lambda b: D.from_tensor_slices(b + 10 * (i - 1))))
""",
    "a collate_fn": """
parts = []
for i in range(3):
    parts.append(D.range(2).batch(2, collate_fn=lambda rows: np.array(rows) + 10 * i).unbatch())
""",
    "a method": """
class Label:
    def __init__(self, factor):
        self.factor = factor
    def add(self, x):
        return x + self.factor * i
parts = []
for i in range(3):
    parts.append(D.range(2).map(Label(10).add))
""",
    "a partial": """
from functools import partial
def label(k, x):
    return x + k * i
parts = []
for i in range(3):
    parts.append(D.range(2).map(partial(label, 10)))
""",
}


@pytest.mark.parametrize("what", LOOPS)
def test_a_loop_variable_is_that_of_the_loops_turn(what, run):
    parts = notebook(LOOPS[what])["parts"]
    assert [run(part) for part in parts] == [[0, 1], [10, 11], [20, 21]]


def test_the_reader_of_a_snapshot_is_what_it_was(tmp_path):
    code = """
parts = []
for i in range(3):
    read = lambda shards: shards.flat_map(lambda ds: ds.map(lambda x: x + 10 * i))
    parts.append(D.range(2).snapshot(f"{folder}/{i}", reader_func=read))
"""
    parts = notebook(code, folder=tmp_path)["parts"]
    assert [list(part) for part in parts] == [[0, 1]] * 3  # while they are written
    assert [list(part) for part in parts] == [[0, 1], [10, 11], [20, 21]]


def test_the_key_of_a_split_is_what_it_was():
    code = """
parts = []
for i in range(3):
    parts.append(D.range(50).split(0.5, key=lambda x: int(x) // (1 + 9 * i))[0])
"""
    found = [list(part) for part in notebook(code)["parts"]]
    assert found == [list(D.range(50).split(0.5, key=lambda x, by=by: int(x) // by)[0]) for by in (1, 10, 19)]
    assert list(cloudpickle.loads(cloudpickle.dumps(D.range(50).split(0.5, key=scaled)[0])))


def test_a_global_that_changes_between_passes_stays_as_it_was(run):
    scope = notebook("k = 1\nds = D.range(2).map(lambda x: x + k).filter(lambda x: x < k + 5)")
    assert run(scope["ds"]) == [1, 2]
    scope["k"] = 100
    assert run(scope["ds"]) == [1, 2]


def test_globals_that_the_function_assigns_stay_live(run):
    code = "n = 0\ndef count(x):\n    global n\n    n += 1\n    return x + n\nds = D.range(3).map(count)"
    scope = notebook(code)
    assert run(scope["ds"]) == [1, 3, 5]
    assert scope["n"] == 3
    code = "n = 0\ndef count():\n    global n\n    n += 1\ndef f(x):\n    count()\n    return x + n"
    assert run(D.range(3).map(notebook(code)["f"])) == [1, 3, 5]


def test_functions_that_share_an_assigned_variable_go_on_sharing_it(run):
    def build():
        n = 0

        def count():
            nonlocal n
            n += 1

        def f(x):
            count()
            return x + n

        return D.range(3).map(f)

    assert run(build()) == [1, 3, 5]


def test_attributes_of_the_function_stay_its_own():
    scope = notebook("k = 1\ndef f(x):\n    f.calls += k\n    return x\nf.calls = 0\nds = D.range(3).map(f)")
    assert list(scope["ds"]) == [0, 1, 2]
    assert scope["f"].calls == 3


@pytest.mark.parametrize("mode", ["auto", "eager"])
def test_an_object_that_is_assigned_anew_is_named_once(mode):
    scope = notebook("table = {0: 5, 1: 6}\nk = 1\ndef f(x):\n    return x + table[0] * k")
    ds = D.range(2).map(scope["f"], mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(ds) == [5, 6]
        scope["table"][0] = 7  # a change within it is no other object
        assert list(ds) == [7, 8]
    scope["table"], scope["k"] = {0: 9}, 2
    with pytest.warns(hr.ChangeWarning, match=r"the global table, of class dict, .* after map\(f\)") as caught:
        assert list(ds) == [9, 10]
        assert list(ds) == [9, 10]
    assert len(caught) == 1


def test_names_that_are_defined_later_are_found(run):
    scope = notebook("k = 1\nmodel = None\nds = D.range(2).map(lambda x: later(x) + model + k)")
    exec("def later(x): return x * 10\nmodel = 3", scope)
    assert run(scope["ds"]) == [4, 14]


def test_a_function_that_looks_names_up_by_itself_stays_live(run):
    scope = notebook("k = 1\nds = D.range(2).map(lambda x: x + globals()['k'] + k)")
    scope["k"] = 2
    assert run(scope["ds"]) == [4, 5]


def test_datasets_of_functions_that_can_be_imported_are_pickled_as_before():
    ds = D.range(3).map(scaled).map(scaled_later)
    for same in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds), cloudpickle.loads(cloudpickle.dumps(ds))):
        assert list(same) == [1, 5, 9]
    assert ds._node.fn is not scaled_later
    assert pickle.loads(pickle.dumps(ds))._node.fn is scaled_later
    assert list(D.range(3).map(lambda x: scaled_later(x), mode="process", num_parallel_calls=1)) == [1, 3, 5]


def test_a_copy_of_a_dataset_keeps_what_was_bound(monkeypatch):
    ds = D.range(3).map(lambda x: x + OFFSETS[1])
    named = D.range(3).map(scaled)
    assert original_of(named._node.fn) is scaled
    monkeypatch.setitem(globals(), "OFFSETS", OFFSETS + 10)
    monkeypatch.setitem(globals(), "FACTOR", 7)
    assert original_of(named._node.fn) is None
    assert list(copy.deepcopy(ds)) == list(cloudpickle.loads(cloudpickle.dumps(ds))) == [1, 2, 3]
    assert list(copy.deepcopy(named)) == [0, 2, 4]


def test_functions_of_libraries_are_left_alone():
    assert D.range(2).map(os.path.exists, mode="eager")._node.fn is os.path.exists
    fn = eval("lambda x: np.abs(x) + len((1, 2))", {"np": np})
    assert D.range(2).map(fn)._node.fn is fn


def test_functions_made_for_each_row_are_traced_once(monkeypatch):
    from headrace.trace import function as traced

    calls = []
    monkeypatch.setattr(traced, "trace", lambda fn, *args, **options: calls.append(fn) or trace(fn, *args, **options))
    scope = notebook("k = 3\ndef child(x):\n    return D.range(4).map(lambda y: y * k)")
    ds = D.range(20).flat_map(scope["child"])
    trace = sys.modules["headrace.trace.tracing"].trace
    assert list(ds)[:5] == [0, 3, 6, 9, 0]
    assert len(calls) <= 2


SCRIPT = """
import headrace as hr

if __name__ == "__main__":
    parts = []
    for i in range(3):
        parts.append(hr.Dataset.range(2).map(lambda x: x + 10 * i, mode="process", num_parallel_calls=1))
    print([[int(x) for x in part] for part in parts])
"""


def test_worker_processes_get_what_was_bound(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[[0, 1], [10, 11], [20, 21]]"
