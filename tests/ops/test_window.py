"""window: datasets of consecutive elements."""

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
