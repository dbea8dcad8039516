"""take, skip, shard, repeat, concatenate, zip, enumerate, slices: which elements, and how often."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize(
    ("count", "want"), [(0, []), (2, [0, 1]), (9, [0, 1, 2, 3]), (-1, [0, 1, 2, 3]), (-5, [0, 1, 2, 3])]
)
def test_take(run, count, want):
    ds = D.range(4).take(count)
    assert numbers(run(ds)) == want
    assert len(ds) == len(want)


@pytest.mark.parametrize(("count", "want"), [(0, [0, 1, 2, 3]), (3, [3]), (9, []), (-1, []), (-5, [])])
def test_skip(run, count, want):
    ds = D.range(4).skip(count)
    assert numbers(run(ds)) == want
    assert len(ds) == len(want)


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_shards_divide_the_elements(run, shards):
    parts = [numbers(run(D.range(5).shard(shards, i))) for i in range(shards)]
    assert parts == [list(range(i, 5, shards)) for i in range(shards)]
    assert [len(D.range(5).shard(shards, i)) for i in range(shards)] == [len(p) for p in parts]


@pytest.mark.parametrize(("shards", "index"), [(0, 0), (-1, 0), (2, 2), (2, -1)])
def test_a_bad_shard_is_refused(shards, index):
    with pytest.raises(ValueError, match=r"num_shards|index"):
        D.range(3).shard(shards, index)


@pytest.mark.parametrize(("count", "want"), [(0, []), (1, [0, 1]), (3, [0, 1] * 3)])
def test_repeat(run, count, want):
    assert numbers(run(D.range(2).repeat(count))) == want


@pytest.mark.parametrize("count", [None, -1, -7])
def test_repeat_for_ever(run, count):
    ds = D.range(2).repeat(count)
    assert ds.cardinality() == hr.INFINITE_CARDINALITY
    assert numbers(run(ds.take(5))) == [0, 1, 0, 1, 0]
    with pytest.raises(TypeError, match="infinite"):
        len(ds)


def test_repeating_nothing_ends(run):
    assert run(D.range(0).repeat()) == []
    assert run(D.range(3).filter(lambda x: False).repeat()) == []
    assert D.range(0).repeat().cardinality() == 0


def test_concatenate(run):
    ds = D.range(2).concatenate(D.range(5, 7)) + D.range(1)
    assert numbers(run(ds)) == [0, 1, 5, 6, 0]
    assert len(ds) == 5
    assert (D.range(2) + D.range(3).repeat()).cardinality() == hr.INFINITE_CARDINALITY


@pytest.mark.parametrize(
    ("other", "said"),
    [(D.from_tensors((1, 2)), "structure"), (D.from_tensors(1.0), "int64 against float64")],
)
def test_datasets_that_do_not_fit_are_refused(other, said):
    with pytest.raises(hr.SpecError, match=said):
        D.range(2).concatenate(other)
    with pytest.raises(TypeError, match="Dataset"):
        D.range(2).concatenate([1, 2])


def test_concatenated_specs_keep_what_they_share():
    ds = D.from_tensors([1, 2]).concatenate(D.from_tensors([1, 2, 3]))
    assert ds.element_spec == hr.TensorSpec([None], "int64")


def test_zip_takes_structures(run):
    a, b = D.range(3), D.range(10, 20)
    assert run(D.zip(a, b)) == [(0, 10), (1, 11), (2, 12)]
    assert run(D.zip((a, (b,))))[0] == (0, (10,))
    assert run(D.zip({"x": a, "y": b}))[2] == {"x": 2, "y": 12}
    assert run(D.zip(datasets=(a, b))) == run(D.zip(a, b))
    assert len(D.zip(a, b)) == 3


@pytest.mark.parametrize("bad", [(), ([D.range(1), D.range(1)],), (D.range(1), 3)])
def test_zip_of_anything_else_is_refused(bad):
    with pytest.raises(TypeError, match="zip"):
        D.zip(*bad)


def test_a_zipped_tuple_with_a_failure_is_one_failure():
    it = iter(D.zip(D.range(3), D.range(3).map(lambda x: 1 / 0 if x == 1 else x)))
    assert next(it) == (0, 0)
    with pytest.raises(hr.ElementError):
        next(it)
    assert next(it) == (2, 2)


def test_enumerate(run):
    assert run(D.range(5, 7).enumerate(start=3)) == [(3, 5), (4, 6)]
    assert D.range(1).enumerate().element_spec == (hr.TensorSpec([], "int64"), hr.TensorSpec([], "int64"))


def test_a_failure_counts_for_take_skip_shard_and_enumerate():
    ds = D.range(6).map(lambda x: 1 / 0 if x == 1 else x)

    def values(ds):
        it, got = iter(ds), []
        while True:
            try:
                got.append(next(it))
            except hr.ElementError:
                got.append("!")
            except StopIteration:
                return got

    assert values(ds.take(3)) == [0, "!", 2]
    assert values(ds.skip(1)) == ["!", 2, 3, 4, 5]
    assert values(ds.shard(2, 1)) == ["!", 3, 5]
    assert values(ds.enumerate())[:3] == [(0, 0), "!", (2, 2)]


@pytest.mark.parametrize("index", [0, 3, 9, -1, -10])
def test_elements_by_number(index):
    ds = D.range(10).map(lambda x: x * x).enumerate().skip(0)
    assert ds[index] == (index % 10, (index % 10) ** 2)


@pytest.mark.parametrize("index", [10, -11])
def test_a_number_out_of_range_is_an_index_error(index):
    with pytest.raises(IndexError, match="10"):
        D.range(10)[index]


@pytest.mark.parametrize(
    "cut", [slice(2, 5), slice(None, None, 3), slice(None, None, -1), slice(-3, None), slice(5, 2)]
)
def test_slices_are_datasets(run, cut):
    assert numbers(run(D.range(10).map(lambda x: x)[cut])) == list(range(10))[cut]


def test_indexing_says_which_operation_prevents_it():
    with pytest.raises(hr.NotIndexableError, match=r"filter \(.*test_rows\.py:\d+\)"):
        D.range(10).filter(lambda x: True).batch(2)[0]


def test_infinite_datasets_are_indexed_from_the_start_only():
    ds = D.range(3).repeat()
    assert ds[7] == 1
    assert numbers(ds[4:8]) == [1, 2, 0, 1]
    with pytest.raises(IndexError):
        ds[-1]
    with pytest.raises(IndexError):
        ds[2:]


def test_a_chain_of_hundreds_of_datasets(run):
    ds = D.range(1)
    for i in range(1, 300):
        ds = ds + D.range(i, i + 1)
    assert numbers(run(ds)) == list(range(300))


def test_zip_reads_no_further_than_its_shortest():
    read = []
    counted = D.range(100).map(lambda x: read.append(int(x)) or x)
    assert list(D.zip(counted, D.range(2)).skip(50)) == []
    assert read == [0, 1, 2]


def test_batches_after_a_failure_are_whole():
    ds = D.range(60).map(lambda x: 1 / 0 if x == 0 else x).batch(2).shard(4, 0).batch(2)
    it = iter(ds)
    with pytest.raises(hr.ElementError):
        next(it)
    assert next(it).tolist() == [[16, 17], [24, 25]]


def test_a_finite_cache_is_read_by_number_whatever_is_below():
    calls = []
    sums = D.range(8).scan(np.int64(0), lambda s, x: (calls.append(int(x)), (s + x, s + x))[1]).cache()
    assert (sums[3], calls) == (6, [0, 1, 2, 3])
    assert (sums[1], sums[-1], list(sums[2:4])) == (1, 28, [3, 6])
    assert sorted(sums.shuffle()) == sorted(sums)


def test_a_cache_reads_no_more_than_is_asked_for_by_number():
    calls = []
    ds = D.range(8).map(lambda x: (calls.append(int(x)), x)[1]).cache()
    assert (ds[2], calls) == (2, [0, 1, 2])
    with pytest.raises(hr.NotIndexableError, match="filter"):
        D.range(8).filter(lambda x: x > 2).cache()[0]
