"""Index space: elements by number are the elements of a pass, whatever the pipeline."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.core.keys import ROOT, mix_key
from headrace.errors import ElementError
from headrace.testing import difference, outcomes, reference_outcomes
from tests.pipelines import indexed

D = hr.Dataset


def outcome(get):
    try:
        return ("value", get())
    except ElementError as error:
        return ("error", error.args[0])


def causes(got):
    """Of errors what was wrong: a class that refuses its components does so wherever an element is put together."""
    return [(kind, value if kind == "value" else value.partition("\n")[0].partition(": ")[2]) for kind, value in got]


@settings(max_examples=settings.default.max_examples // 2)
@given(indexed, st.integers(-45, 45), st.integers(-45, 45), st.sampled_from([1, 1, 2, -1, -3]))
def test_elements_by_number_are_those_of_a_pass(ds, start, stop, step):
    want = outcomes(iter(ds))
    assert len(ds[:]) == len(want)
    got = [outcome(lambda i=i: ds[i]) for i in range(len(want))]
    assert difference(causes(got), causes(want)) is None
    part = ds[start:stop:step]
    assert len(part) == len(want[start:stop:step])
    again = outcomes(iter(part))
    assert difference(again, reference_outcomes(part)) is None
    assert difference(causes(again), causes(want[start:stop:step])) is None
    for outside in (len(want), -len(want) - 1):
        with pytest.raises(IndexError):
            ds[outside]


@settings(max_examples=settings.default.max_examples // 4)
@given(indexed, st.lists(st.integers(-5, 4), max_size=8))
def test_several_numbers_give_a_dataset_of_their_elements(ds, numbers):
    if len(ds[:]) < 5:
        return
    want = outcomes(iter(ds))
    assert difference(causes(outcomes(iter(ds[numbers]))), causes([want[i] for i in numbers])) is None


@settings(max_examples=settings.default.max_examples // 4)
@given(indexed, st.integers(0, 45))
def test_a_skip_goes_on_where_a_pass_would(ds, count):
    want = reference_outcomes(ds)[count:]
    assert difference(causes(outcomes(iter(ds.skip(count)))), causes(want)) is None


@pytest.mark.parametrize("window", [1, 100, "auto"])
def test_the_order_does_not_depend_on_the_window(tmp_path, window):
    path = tmp_path / "x"
    with hr.io.TFRecordWriter(path) as writer:
        for i in range(1000):
            writer.write(b"%d" % i)
    records = hr.TFRecordDataset([path, path], index=True)
    order = list(D.range(2000).shuffle(seed=3))
    assert [int(r) for r in records.shuffle(seed=3, window=window)] == [i % 1000 for i in order]


def test_a_window_belongs_to_a_shuffle_of_everything():
    with pytest.raises(ValueError, match="window"):
        D.range(5).shuffle(3, window=2)
    with pytest.raises(ValueError, match="window"):
        D.range(5).shuffle(window=0)


def test_what_prevents_numbers_is_named_with_a_way_out(tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    with pytest.raises(TypeError, match=r"TextLineDataset .*headrace index"):
        hr.TextLineDataset(lines).shuffle()
    with pytest.raises(hr.NotIndexableError, match=r"filter .*shuffle before it"):
        D.range(5).filter(lambda x: x > 2).map(lambda x: x)[1]
    with pytest.raises(hr.NotIndexableError, match="num_parallel_reads"):
        hr.TextLineDataset(lines, num_parallel_reads=2)[0]


def test_a_list_that_holds_no_numbers_is_refused():
    for wrong in ([1.5], ["a"], [True], "ab", [[1]]):
        with pytest.raises(TypeError, match="integer"):
            D.range(5)[wrong]
    with pytest.raises(IndexError, match="element 5 of a dataset of 5"):
        D.range(5)[[0, 5]]


SIZES = [70_000, 1 << 17, (1 << 17) + 1, 10**9, 2**62 - 1]


def images(keys, size, indices):
    """p(i) of these indices, one line a key."""
    out = np.empty((keys, len(indices)), np.int64)
    for key in range(keys):
        _native.permute(mix_key(ROOT, key), size, np.array(indices), out[key])
    return out


def chi_squared(counts):
    """How far counts are from equal ones, in standard deviations."""
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize("size", SIZES)
def test_every_position_is_equally_likely(size):
    for index in (0, 1, size // 2, size - 1):
        bins = images(6400, size, [index])[:, 0].astype(object) * 64 // size
        assert abs(chi_squared(np.bincount(bins.astype(int), minlength=64))) < 5


@pytest.mark.parametrize("size", SIZES)
def test_pairs_are_independent(size):
    for pair in ([0, 1], [0, size // 2], [1, 1 << 15]):
        bins = (images(6400, size, pair).astype(object) * 16 // size).astype(int)
        assert abs(chi_squared(np.bincount(bins[:, 0] * 16 + bins[:, 1], minlength=256))) < 5


@pytest.mark.parametrize("size", SIZES[:4])
def test_neighbours_go_apart_as_in_any_permutation(size):
    count = 100_000 if size > 100_000 else size
    image = images(1, size, np.arange(count))[0]
    steps = np.abs(np.diff(image)) / size  # of two uniform numbers: 1/3, with variance 1/18
    assert abs(steps.mean() - 1 / 3) < 5 * (1 / 18 / count) ** 0.5 * 1.3
    assert abs((np.diff(image) > 0).mean() - 1 / 2) < 5 * (1 / 12 / count) ** 0.5
    displacement = np.abs(image - np.arange(count)) / size
    want = np.mean(np.abs(np.random.default_rng(1).random(10**6) - np.arange(10**6) % count / size))
    assert abs(displacement.mean() - want) < 5 * (1 / 12 / count) ** 0.5 + 0.001


def test_fixed_points_and_cycles_are_those_of_a_random_permutation():
    size, keys = 70_000, 60
    table = images(keys, size, np.arange(size))
    assert (np.sort(table, axis=1) == np.arange(size)).all()
    fixed = (table == np.arange(size)).sum()
    assert abs(fixed - keys) < 5 * keys**0.5  # one each, on average
    lengths = []
    for order in table:
        at, length = order[0], 1
        while at:
            at, length = order[at], length + 1
        lengths.append(length / size)
    assert abs(np.mean(lengths) - 0.5) < 5 * (1 / 12 / keys) ** 0.5


def test_epochs_have_orders_that_know_nothing_of_each_other():
    first, second = (np.array(list(D.range(70_000).shuffle(seed=1).skip(skip).take(70_000))) for skip in (0, 0))
    assert (first == second).all()
    both = np.array(list(D.range(70_000).shuffle(seed=1).repeat(2)))
    assert (both[:70_000] == first).all()
    assert abs(np.corrcoef(both[:70_000], both[70_000:])[0, 1]) < 5 / 70_000**0.5


def test_a_large_shuffle_means_what_the_reference_executor_says():
    ds = D.range(66_000).shuffle(seed=2)
    assert [int(v) for _, v in reference_outcomes(ds)] == [int(v) for v in ds]
