"""map: a function of every element."""

import dataclasses
import threading
from typing import NamedTuple

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


class Point(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass
class Sample:
    image: np.ndarray
    label: int


def test_tuples_arrive_as_arguments_and_dicts_as_one(run):
    pairs = D.from_tensor_slices(([1, 2], [10, 20]))
    assert run(pairs.map(lambda a, b: a + b)) == [11, 22]
    assert run(D.from_tensor_slices({"a": [1, 2]}).map(lambda d: d["a"] * 2)) == [2, 4]


def test_a_namedtuple_arrives_whole_and_leaves_whole(run):
    points = run(D.from_tensor_slices(Point([1.0], [2.0])).map(lambda p: Point(p.y, p.x)))
    assert points == [Point(2.0, 1.0)]
    assert type(points[0]) is Point


def test_a_dataclass_is_a_structure(run):
    (sample,) = run(D.range(1).map(lambda x: Sample(np.zeros(2), x)))
    assert isinstance(sample, Sample)
    assert sample.image.shape == (2,)


def test_a_returned_list_is_a_tuple_and_none_is_legal(run):
    assert run(D.range(1).map(lambda x: [x, None])) == [(0, None)]
    assert run(D.range(1).map(lambda x: {"x": x, "y": None})) == [{"x": 0, "y": None}]
    assert run(D.range(1).map(lambda x: (None,))) == [(None,)]
    assert run(D.range(1).map(lambda x: ())) == [()]


def test_python_numbers_become_numpy_scalars_and_text_stays_text(run):
    (value,) = run(D.range(1).map(lambda x: (1, 2.5, True, "a", b"b")))
    assert [type(v) for v in value] == [np.int64, np.float64, np.bool_, str, bytes]


def test_rows_of_different_dtype_and_shape_keep_them(run):
    got = run(D.range(3).map(lambda x: np.arange(x) if x != 1 else 2.5))
    assert [np.asarray(v).shape for v in got] == [(0,), (), (2,)]
    assert got[1].dtype == np.float64


def test_the_function_owns_its_arrays(run):
    source = np.ones((2, 3))

    def spoil(row):
        row += 41
        return row

    assert np.array_equal(run(D.from_tensor_slices(source).map(spoil)), np.full((2, 3), 42))
    assert (source == 1).all()


def test_an_error_belongs_to_one_element():
    def picky(x):
        if x == 1:
            raise ValueError("no ones")
        return x

    it = iter(D.range(4).map(picky))
    assert next(it) == 0
    with pytest.raises(hr.ElementError) as caught:
        next(it)
    assert next(it) == 2
    error = caught.value
    assert (error.operation, error.ordinal) == ("map", 1)
    assert isinstance(error.__cause__, ValueError)
    assert error.__cause__.__traceback__ is not None
    assert "test_map.py:" in error.site
    assert "no ones" in str(error)


def test_stop_iteration_in_a_function_is_an_error_not_the_end():
    def stop(x):
        if x == 1:
            raise StopIteration
        return x

    it = iter(D.range(3).map(stop))
    assert next(it) == 0
    with pytest.raises(hr.ElementError):
        next(it)
    assert next(it) == 2


@pytest.mark.parametrize("calls", [1, 3, hr.AUTOTUNE])
def test_parallel_calls_keep_the_order(calls):
    waits = [0.02, 0.0, 0.01, 0.0] * 5

    def slow(x):
        threading.Event().wait(waits[x])
        return x

    assert list(D.range(20).map(slow, num_parallel_calls=calls)) == list(range(20))


def test_parallel_calls_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=300)

    def meet(x):
        meeting.wait()
        return x

    assert list(D.range(9).map(meet, num_parallel_calls=3)) == list(range(9))


def test_without_determinism_the_fast_overtake_the_slow():
    gate = threading.Event()

    def wait_for_others(x):
        if x == 0:
            assert gate.wait(300)
        return x

    it = iter(D.range(6).map(wait_for_others, num_parallel_calls=3, deterministic=False))
    first = next(it)
    gate.set()
    assert first != 0
    assert sorted([int(first), *map(int, it)]) == list(range(6))


def test_calls_happen_one_by_one_as_elements_are_asked_for():
    calls = []
    it = iter(D.range(5).map(lambda x: calls.append(int(x)) or x))
    next(it)
    next(it)
    assert calls == [0, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: D.range(3).map(3), "function"),
        (lambda: D.range(3).map(lambda a, b: a), "2 positional|missing|component"),
        (lambda: D.from_tensors((1, 2)).map(lambda a: a), "2 components"),
    ],
)
def test_what_cannot_be_called_with_an_element_is_refused_at_once(make, said):
    with pytest.raises(TypeError, match=said):
        make()


def test_a_bad_number_of_calls_is_refused():
    with pytest.raises(ValueError, match="num_parallel_calls"):
        D.range(3).map(lambda x: x, num_parallel_calls=0)


def test_the_spec_comes_from_the_signature_or_from_the_first_element():
    said = D.range(3).map(np.zeros, output_signature=hr.TensorSpec([None], "float64"))
    assert said.element_spec == hr.TensorSpec([None], "float64")
    seen = D.range(3).map(lambda x: (np.zeros(5), "a"), mode="eager")
    assert seen.element_spec == (hr.TensorSpec([None], "float64"), hr.TensorSpec([], str))
    assert seen.batch(2).element_spec[0] == hr.TensorSpec([None, None], "float64")


def test_a_closure_has_the_values_of_the_moment_map_was_called(run):
    made = [D.range(1).map(lambda x: x + i) for i in range(3)]  # noqa: B023
    assert [run(ds) for ds in made] == [[0], [1], [2]]


def test_a_closure_that_is_written_to_stays_alive():
    count = 0

    def tally(x):
        nonlocal count
        count += 1
        return x

    list(D.range(5).map(tally))
    assert count == 5


def test_a_function_that_calls_itself_still_can():
    def factorial(n):
        return 1 if n == 0 else int(n) * factorial(n - 1)

    assert list(D.range(5).map(factorial)) == [1, 1, 2, 6, 24]


def test_a_result_that_was_not_promised_is_an_error_that_names_both():
    ds = D.range(3).map(lambda n: np.zeros(int(n)), output_signature=hr.TensorSpec([1], "float64"))
    it = iter(ds)
    with pytest.raises(hr.ElementError, match=r"float64\[0\] where float64\[1\] was promised"):
        next(it)
    assert next(it).shape == (1,)
    with pytest.raises(hr.ElementError, match="output_signature"):
        next(it)
    with pytest.raises(hr.ElementError, match=r"\(int64, int64\) where int64 was promised"):
        next(iter(D.range(3).map(lambda n: (n, n), output_signature=hr.TensorSpec([], "int64"))))


def forgets(x):
    x + 1


def forgets_sometimes(x):  # noqa: RET503
    if x != 2:
        return x
    print(end="")


def forgets_beside(x, rng):
    x + rng.random()


@pytest.mark.parametrize(
    "ds",
    [
        lambda fn: D.range(5).map(fn),
        lambda fn: D.range(5).map(fn, num_parallel_calls=2).batch(2),
        lambda fn: D.range(5).map(fn, mode="eager").prefetch(1),
        lambda fn: D.range(5).map(fn, 1, mode="process"),
        lambda fn: D.range(5).map_batches(fn, 2),
    ],
)
def test_a_forgotten_return_is_an_error_that_asks_for_it(ds):
    with pytest.raises(hr.ElementError, match=r"element 0: TypeError: forgets returned None.*return"):
        next(iter(ds(forgets)))


def test_a_return_forgotten_for_one_element_is_its_error(run):
    assert run(D.range(4).map(forgets_sometimes).ignore_errors()) == [0, 1, 3]
    with pytest.raises(hr.ElementError, match="element 2: TypeError: forgets_sometimes returned None"):
        run(D.range(4).map(forgets_sometimes))
    with pytest.raises(hr.ElementError, match="forgets_beside returned None"):
        run(D.range(4).random_map(forgets_beside))


def test_what_is_no_function_of_map_may_give_none():
    assert list(D.from_tensors(None)) == [None]
    assert list(D.range(2).scan(0, lambda n, x: (n, None))) == [None, None]


def test_a_function_without_a_return_cannot_be_vectorised():
    with pytest.raises(TypeError, match=r"forgets cannot be vectorised: returns None$"):
        D.range(5).map(forgets, mode="vectorized")


ROWS = {"user": [1, 2, 3], "price": [0.5, 1.5, 2.5]}


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.map(lambda r: r["usr"]),
        lambda d: d.map(lambda r: r["usr"], num_parallel_calls=2),
        lambda d: d.filter(lambda r: r["usr"] > 1),
        lambda d: d.enumerate().map(lambda i, r: r["usr"]),
        lambda d: d.group_by_window(lambda r: r["usr"], lambda key, w: w.batch(2), 2),
    ],
)
def test_a_key_that_elements_do_not_have_is_told_with_those_they_have(run, make):
    with pytest.raises(
        hr.ElementError, match=r"KeyError: 'usr' \(in an element, did you mean 'user'\? there are 'user', "
    ):
        run(make(D.from_tensor_slices(ROWS)))


def test_other_keys_are_ignored(run):
    with pytest.raises(hr.ElementError, match="KeyError: 5\n"):
        run(D.range(3).map(lambda x: {}[5]))
    with pytest.raises(hr.ElementError, match="KeyError: 'user'\n"):
        run(D.from_tensor_slices(ROWS).map(lambda r: {}["user"]))
