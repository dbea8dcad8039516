"""window: datasets of consecutive elements."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def read(windows):
    return [[int(x) for x in w] for w in windows]


def test_windows_are_datasets_that_can_be_read_again(run):
    windows = run(D.range(7).window(3, shift=2, stride=2))
    assert read(windows) == read(windows) == [[0, 2, 4], [2, 4, 6], [4, 6], [6]]
    assert read(run(D.range(7).window(3, shift=2, stride=2, drop_remainder=True))) == [[0, 2, 4], [2, 4, 6]]
    assert read(run(D.range(8).window(2, shift=5))) == [[0, 1], [5, 6]]


def test_a_window_of_structures_is_a_structure_of_datasets(run):
    (first, _) = run(D.from_tensor_slices({"a": [1, 2, 3], "b": ["x", "y", "z"]}).window(2))
    assert [[int(x) for x in first["a"]], list(first["b"])] == [[1, 2], ["x", "y"]]


def test_a_window_ignores_failures_that_its_stride_steps_over():
    ds = D.range(4).map(lambda x: 1 // (x - 1) if int(x) != 1 else int("one")).window(2, shift=4, stride=2)
    assert read(ds) == [[-1, 1]]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda d, f: d.window(0), ValueError, "size"),
        (lambda d, f: d.window(2, shift=0), ValueError, "shift"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make(D.range(4), lambda x: x)


def series():
    return D.from_tensor_slices({"a": np.zeros((6, 2), np.float32), "b": (np.arange(6), np.ones(6, np.int8))})


def batched(window):
    parts = {name: window[name] for name in ("b", "a")}
    return D.zip((parts["a"].batch(3), tuple(part.batch(3) for part in parts["b"])))


def test_windows_of_nested_structures_keep_their_spec():
    rows, numbers = hr.TensorSpec([None, 2], np.float32), hr.TensorSpec([None], np.int64)
    windows = series().window(3, shift=1, drop_remainder=True)
    assert windows.flat_map(batched).element_spec == (rows, (numbers, hr.TensorSpec([None], np.int8)))
    flat = series().map(lambda row: {"a": row["a"], "b": row["b"][0]}).window(3)
    zipped = flat.flat_map(lambda w: D.zip({name: part.batch(3) for name, part in w.items()}))
    assert zipped.element_spec == {"a": rows, "b": numbers}
    assert [row["b"].tolist() for row in zipped] == [[0, 1, 2], [3, 4, 5]]
    pairs = flat.flat_map(lambda w: D.zip(tuple([part.batch(3) for part in w.values()])))
    assert pairs.element_spec == (rows, numbers)


def test_functions_of_windows_whose_calls_show_are_called_for_each_window():
    calls = []
    noted = series().window(3).flat_map(lambda w: D.zip({name: calls.append(name) or w[name] for name in ("a",)}))
    assert len(list(noted)) == 6
    assert calls.count("a") >= 2
