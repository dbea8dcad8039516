"""Datasets that take turns, found by number once they are counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import ElementError
from headrace.ops.shared.choices import CHOICES_PER_CHUNK, Choices
from headrace.ops.shared.turns import Turns
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset


@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40]), max_size=9),
    st.integers(1, 5),
    st.sampled_from([1, 2, 3, 5, 100, 1 << 62]),
)
def test_turns_are_those_of_interleave(lengths, cycle, block):
    parts = [D.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)] or [D.range(0)]
    ds = D.from_tensor_slices(parts).interleave(lambda part: part, cycle, block)
    want = [divmod(int(x), 100) for x in ds]
    turns = Turns(np.array(lengths, np.int64), cycle, block)
    assert turns.rows == len(want)
    assert list(zip(*(found.tolist() for found in turns.find(np.arange(len(want)))), strict=True)) == want


@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 9), min_size=3, max_size=3), st.booleans())
def test_choices_are_those_of_choose_from_datasets(chosen, lengths, stop):
    parts = [D.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)]
    ds = D.choose_from_datasets(parts, D.from_tensor_slices(np.array(chosen, np.int64)), stop)
    assert list(ds[:]) == list(ds)
    assert len(ds[:]) == len(list(ds))


def test_choices_of_many_chunks():
    chosen = np.random.default_rng(0).integers(0, 3, 3 * CHOICES_PER_CHUNK)
    choices = Choices([CHOICES_PER_CHUNK, 5, 4 * CHOICES_PER_CHUNK], stop_on_empty=False)

    def read(start, stop):
        return chosen[start:stop]

    taken, want = [0, 0, 0], []
    for c in chosen.tolist():
        if taken[c] < [CHOICES_PER_CHUNK, 5, 4 * CHOICES_PER_CHUNK][c]:
            want.append((c, taken[c]))
            taken[c] += 1
    assert choices.count(read) == len(want)
    numbers = np.random.default_rng(1).permutation(len(want))
    which, row = choices.find(numbers, read)
    assert list(zip(which.tolist(), row.tolist(), strict=True)) == [want[i] for i in numbers]


def _fails_at_two(i):
    if i == 2:
        raise ValueError("two is too many")
    return D.range(i)


CASES = {
    "interleave": lambda: D.range(6).interleave(lambda i: D.range(10 * i, 10 * i + i), 2, 2),
    "of shuffled files": lambda: D.range(5).shuffle(5, seed=3).interleave(lambda i: D.range(i).shuffle(9), 3),
    "flat_map": lambda: D.range(4).flat_map(lambda i: D.range(i).map(lambda x: x * 2)),
    "within one another": lambda: D.range(3).flat_map(lambda i: D.range(i).interleave(lambda j: D.range(j + 1), 2)),
    "failures": lambda: D.range(5).interleave(_fails_at_two, 2),
    "sample": lambda: D.sample_from_datasets([D.range(9), D.range(100, 104)], [0.7, 0.3], seed=1),
    "sample anew": lambda: D.sample_from_datasets(
        [D.range(9), D.range(100, 104)], seed=1, rerandomize_each_iteration=True
    ).repeat(2),
    "choose": lambda: D.choose_from_datasets([D.range(3), D.range(100, 109)], D.range(2).repeat(4)),
    "more behind it": lambda: (
        D.range(6)
        .interleave(lambda i: D.range(i), 2)
        .random_map(lambda x, rng: x + rng.integers(9), seed=1)
        .batch(3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_elements_by_number_are_those_of_a_pass(case):
    ds = CASES[case]()
    want = reference_outcomes(ds)
    counted = ds[:]
    assert len(counted) == len(want)
    assert difference(outcomes(iter(counted)), want) is None
    for i, (kind, value) in enumerate(want):
        if kind == "error":
            with pytest.raises(ElementError):
                ds[i]
        else:
            assert difference([("value", ds[i])], [("value", value)]) is None
    check_transformation(counted, cuts=4)
    check_transformation(ds.shuffle(seed=5), cuts=4)


def test_endless_datasets_are_found_by_number():
    ds = D.sample_from_datasets([D.range(3).repeat(), D.range(10, 12).repeat()], seed=2)
    assert [int(ds[i]) for i in (0, 999, 5)] == [int(list(ds.take(1000))[i]) for i in (0, 999, 5)]


def test_indexed_files_take_turns(tmp_path):
    names = [str(tmp_path / f"{i}.tfrecord") for i in range(3)]
    for i, name in enumerate(names):
        with hr.io.TFRecordWriter(name) as writer:
            for j in range(4 + i):
                writer.write(b"%d %d" % (i, j))
    ds = D.from_tensor_slices(names).interleave(lambda f: hr.TFRecordDataset(f, index=True), 2)
    want = list(ds)
    assert [ds[i] for i in range(len(want))] == want
    assert sorted(ds.shuffle()) == sorted(want)


def test_counting_calls_the_function_once_a_row_and_is_remembered():
    calls = []

    def make(i):
        calls.append(int(i))
        return D.range(3)

    ds = D.range(4).interleave(make, 2)
    assert ds.cardinality() == hr.UNKNOWN_CARDINALITY
    assert len(list(ds)) == 12
    calls.clear()
    assert int(ds[5]) == 2
    assert sorted(calls[:4]) == [0, 1, 2, 3]
    calls.clear()
    assert int(ds[0]) == 0
    assert calls == [0]
    assert len(ds[:]) == 12


def test_datasets_that_change_are_refused():
    lengths = [3, 3]
    ds = D.range(2).interleave(lambda i: D.range(lengths[i]), 2)[:]
    lengths[0] = 5
    with pytest.raises(hr.HeadraceError, match="6 elements when they were counted, and has 8 now"):
        list(ds.repeat(2))


def test_what_cannot_be_counted_says_why():
    def generated(i):
        return D.from_generator(lambda: iter([i]), output_signature=hr.TensorSpec((), np.int64))

    with pytest.raises(TypeError, match=r"of element 0 in which from_generator .* cannot be indexed"):
        D.range(3).interleave(generated)[0]
    with pytest.raises(TypeError, match="endless dataset of element 0"):
        D.range(3).flat_map(lambda i: D.range(3).repeat())[0]
    with pytest.raises(TypeError, match="stop_on_empty_dataset=False"):
        D.sample_from_datasets([D.range(3), D.range(3)], stop_on_empty_dataset=True)[0]
    with pytest.raises(TypeError, match=r"len\(ds\[:\]\)"):
        len(D.range(3).interleave(lambda i: D.range(i)))
