"""batch: consecutive elements stacked."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset


def test_the_last_batch_may_be_short(run):
    assert [b.tolist() for b in run(D.range(5).batch(2))] == [[0, 1], [2, 3], [4]]


def test_the_remainder_can_be_dropped(run):
    assert [b.tolist() for b in run(D.range(5).batch(2, drop_remainder=True))] == [[0, 1], [2, 3]]


def test_components_are_stacked_each_for_itself(run):
    (batch,) = run(D.from_tensor_slices({"x": np.ones((3, 2)), "s": ["a", "b", "c"]}).batch(3))
    assert batch["x"].shape == (3, 2)
    assert batch["s"].tolist() == ["a", "b", "c"]
    assert batch["s"].dtype == object


def test_a_batch_far_larger_than_the_data_costs_nothing(run):
    (batch,) = run(D.range(3).batch(10**15))
    assert batch.tolist() == [0, 1, 2]


def test_batches_of_batches(run):
    assert run(D.range(6).batch(2).batch(3))[0].shape == (3, 2)


def test_shapes_that_differ_are_an_error_naming_both_and_the_component():
    it = iter(D.range(6).map(lambda n: (n, np.zeros(2 if n < 3 else 3))).batch(2))
    next(it)
    with pytest.raises(hr.ElementError, match=r"component\[1\] differ: float64\[2\] in element 0 .*\[3\] in element 1"):
        next(it)
    assert next(it)[1].shape == (2, 3)


TAGS = {0: [1], 1: [2], 2: [3, 4], 3: [5]}
UNLIKE = {
    "lengths": (
        lambda n: np.arange(2 + (n == 2)),
        "int64[2] in element 0 of the batch, int64[3] in element 2: padded_",
    ),
    "lengths keep": (lambda n: np.zeros((2 + (n == 2), 3)), "ragged_batch keeps all lengths"),
    "sizes": (lambda n: np.zeros((3, 2 + (n == 2))), "padded_batch fills up the shorter ones\n"),
    "ranks": (lambda n: np.zeros((2,) * (1 + (n == 2))), "make them all of one shape"),
    "dtypes": (
        lambda n: np.int64(n) if n != 2 else 0.5,
        "int64 in element 0 of the batch, float64 in element 2: make them all of one dtype",
    ),
    "kinds": (lambda n: np.int64(n) if n != 2 else "two", "int64 in element 0 of the batch, str in element 2"),
    "text is not told apart by its length": (
        lambda n: ["a", "bb", np.int64(3), "d"][n],
        "str in element 0 of the batch, int64",
    ),
    "keys": (lambda n: {"x": n, "y": n} if n != 2 else {"x": n, "z": n}, "element 2 has no 'y', element 0 has no 'z'"),
    "lists": (lambda n: TAGS[n], "element 0 of the batch is (int64,), element 2 is (int64, int64): a list that"),
    "structures": (lambda n: n if n != 2 else (n, n), "element 0 of the batch is int64, element 2 is (int64, int64)"),
}


@pytest.mark.parametrize("case", UNLIKE)
@pytest.mark.parametrize("operation", ["batch", "rebatch"])
def test_elements_that_do_not_fit_are_shown_both_with_a_way_out(run, case, operation):
    make, said = UNLIKE[case]
    ds = D.range(4).map(lambda n: make(int(n)), mode="eager")
    whole = ds.batch(4) if operation == "batch" else ds.batch(1).rebatch(4)
    with pytest.raises(hr.ElementError) as caught:
        run(whole)
    assert said in str(caught.value)
    assert difference(outcomes(iter(whole)), reference_outcomes(whole)) is None


def test_elements_of_a_window_that_differ_are_shown_both():
    ds = D.range(4).map(lambda n: int(n) if n != 2 else {"x": int(n)}, mode="eager").window(4)
    with pytest.raises(hr.ElementError, match=r"element 0 of the window is int64, element 2 is {'x': int64}"):
        list(ds)


def test_a_batch_with_a_failed_element_is_one_failure():
    it = iter(D.range(6).map(lambda n: 1 / 0 if n == 2 else n).batch(2))
    assert next(it).tolist() == [0, 1]
    with pytest.raises(hr.ElementError, match="map failed on element 2: ZeroDivisionError"):
        next(it)
    assert next(it).tolist() == [4, 5]


def test_specs_and_sizes():
    assert D.range(5).batch(2).element_spec == hr.TensorSpec([None], "int64")
    assert D.range(5).batch(2, drop_remainder=True).element_spec == hr.TensorSpec([2], "int64")
    assert [len(D.range(5).batch(2)), len(D.range(5).batch(2, drop_remainder=True))] == [3, 2]
    assert D.range(5).repeat().batch(2).cardinality() == hr.INFINITE_CARDINALITY


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(size):
    with pytest.raises(ValueError, match="batch_size"):
        D.range(3).batch(size)


@pytest.mark.parametrize("size", [1.5, "2", None, True])
def test_a_size_that_is_no_integer_is_refused(size):
    with pytest.raises(TypeError, match="batch_size"):
        D.range(3).batch(size)


def test_batches_of_shared_memory_cannot_be_written_to():
    source = np.arange(6)
    (first, *_) = D.from_tensor_slices(source).batch(3)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 9


def test_parallel_batches_are_the_same(run):
    assert [b.tolist() for b in run(D.range(5).batch(2, num_parallel_calls=2))] == [[0, 1], [2, 3], [4]]


def test_batches_can_be_indexed():
    ds = D.range(10).batch(4)
    assert ds[1].tolist() == [4, 5, 6, 7]
    assert ds[-1].tolist() == [8, 9]


def test_batches_made_ahead_if_that_helps_are_the_same_batches(run):
    assert [b.tolist() for b in run(D.range(5).batch(2, num_parallel_calls=hr.AUTOTUNE))] == [[0, 1], [2, 3], [4]]


def test_batches_made_ahead_are_not_made_ahead_twice():
    assert "prefetch of its own" in str(D.range(5).batch(2).explain())
    assert "prefetch of its own" not in str(D.range(5).batch(2, num_parallel_calls=hr.AUTOTUNE).explain())


def test_batches_after_a_failure_are_whole():
    ds = D.range(60).map(lambda x: 1 / 0 if x == 0 else x).batch(2).shard(4, 0).batch(2)
    it = iter(ds)
    with pytest.raises(hr.ElementError):
        next(it)
    assert next(it).tolist() == [[16, 17], [24, 25]]


def test_a_batch_by_number_fails_with_its_first_bad_row():
    def first(x):
        if x == 4:
            raise ValueError("four")
        return x

    def second(x):
        if x == 3:
            raise ValueError("three")
        return x

    ds = hr.Dataset.range(9).map(first).map(second).batch(3)
    with pytest.raises(hr.ElementError, match="three"):
        ds[1]
    check_transformation(ds)


def test_of_a_large_block_only_the_batch_is_copied_that_began_before_it():
    """Rows come in two pieces, the first of which ends within a batch."""
    wide = np.arange(4000 * 100).reshape(4000, 100)
    pieces = D.from_tensor_slices(wide[:30]).concatenate(D.from_tensor_slices(wide[30:]))
    batches = list(pieces.batch(100))
    assert np.array_equal(np.concatenate(batches), wide)
    check_transformation(pieces.batch(100), cuts=5)
    views = [np.shares_memory(batch, wide) for batch in batches]
    assert not views[0] and all(views[1:])
