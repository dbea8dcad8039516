"""flat_map, interleave, cache, prefetch."""

import threading
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


def test_flat_map_goes_through_one_dataset_after_the_other(run):
    assert numbers(run(D.range(4).flat_map(D.range))) == [0, 0, 1, 0, 1, 2]
    assert D.range(4).flat_map(D.range).cardinality() == hr.UNKNOWN_CARDINALITY


def test_a_function_that_returns_no_dataset_is_an_error_at_the_element():
    it = iter(D.range(3).flat_map(lambda n: 5 if n == 1 else D.range(n + 1)))
    assert next(it) == 0
    with pytest.raises(hr.ElementError, match="must return a Dataset, not 5"):
        next(it)
    assert numbers(it) == [0, 1, 2]


def test_each_parent_has_randomness_of_its_own():
    rows = numbers(D.range(3).flat_map(lambda _: D.range(30).shuffle(30, seed=1)))
    assert len({tuple(rows[i : i + 30]) for i in (0, 30, 60)}) == 3


def strands(i):
    return D.range(i * 10, i * 10 + i)


def test_interleave_takes_turns_and_refills_a_slot_when_it_is_next_visited(run):
    assert numbers(run(D.range(1, 5).interleave(strands, cycle_length=2, block_length=1))) == [
        10, 20, 21, 30, 31, 40, 32, 41, 42, 43,
    ]  # fmt: skip
    assert numbers(run(D.range(1, 5).interleave(strands, cycle_length=2, block_length=2))) == [
        10, 20, 21, 30, 31, 32, 40, 41, 42, 43,
    ]  # fmt: skip


@pytest.mark.parametrize("calls", [1, 2, hr.AUTOTUNE])
def test_parallel_interleave_has_the_sequential_order(calls):
    want = numbers(D.range(1, 7).interleave(strands, cycle_length=3, block_length=2))
    got = D.range(1, 7).interleave(strands, cycle_length=3, block_length=2, num_parallel_calls=calls)
    assert numbers(got) == want


def test_without_determinism_a_slow_strand_is_passed_over():
    gate = threading.Event()

    def strand(i):
        def hold(x):
            if i == 0:
                assert gate.wait(100)
            return x

        return D.range(i * 10, i * 10 + 3).map(hold)

    it = iter(D.range(2).interleave(strand, cycle_length=2, num_parallel_calls=2, deterministic=False))
    got = [int(next(it)) for _ in range(1)]
    gate.set()
    got += numbers(it)
    assert sorted(got) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("more", [{"cycle_length": 0}, {"block_length": 0}, {"cycle_length": -3}])
def test_bad_lengths_are_refused(more):
    with pytest.raises(ValueError, match="length"):
        D.range(3).interleave(strands, **more)


def test_interleave_of_infinitely_many_is_infinite():
    assert D.range(3).repeat().interleave(strands).cardinality() == hr.INFINITE_CARDINALITY


def test_whole_rounds_of_long_strands(run):
    ds = D.range(3).interleave(lambda i: D.range(i * 100, i * 100 + 50), cycle_length=3, block_length=4)
    (rows,) = run(ds.batch(150))
    want = np.arange(150).reshape(3, 50) % 50 + np.arange(3)[:, None] * 100
    assert rows[:144].reshape(12, 3, 4).swapaxes(0, 1).reshape(3, 48).tolist() == want[:, :48].tolist()


def test_cache_calls_the_function_once_for_each_element():
    calls = []
    ds = D.range(5).map(lambda x: calls.append(int(x)) or x * 10).cache()
    assert numbers(ds) == numbers(ds) == [0, 10, 20, 30, 40]
    assert numbers(ds.shuffle(5).repeat(2).batch(2).map(lambda b: b.sum())) is not None
    assert calls == [0, 1, 2, 3, 4]


def test_a_pass_that_stopped_early_is_continued():
    calls = []
    ds = D.range(6).map(lambda x: calls.append(int(x)) or x).cache()
    assert numbers(ds.take(4)) == [0, 1, 2, 3]
    assert calls == [0, 1, 2, 3]
    assert numbers(ds) == [0, 1, 2, 3, 4, 5]
    assert calls == [0, 1, 2, 3, 4, 5]


def test_two_passes_at_once_share_a_cache():
    ds = D.range(6).map(lambda x: x).cache()
    a, b = iter(ds), iter(ds)
    assert [int(next(a)), int(next(a)), int(next(b))] == [0, 1, 0]
    assert numbers(b) == [1, 2, 3, 4, 5]
    assert numbers(a) == [2, 3, 4, 5]


def test_a_cached_shuffle_has_one_order():
    ds = D.range(20).shuffle(20).cache()
    assert numbers(ds) == numbers(ds)


def test_what_is_cached_does_not_change_with_its_source():
    source = np.zeros((4, 2))
    ds = D.from_tensor_slices(source).cache()
    list(ds)
    source += 1
    assert np.concatenate(list(ds)).sum() == 0


def test_cached_elements_cannot_be_written_to():
    ds = D.from_tensor_slices(np.zeros((4, 2))).map(lambda x: x).cache()
    with pytest.raises(ValueError, match="read-only"):
        next(iter(ds))[0] = 1


@pytest.mark.parametrize("size", [-2, -5])
def test_a_bad_prefetch_is_refused(size):
    with pytest.raises(ValueError, match="buffer_size"):
        D.range(3).prefetch(size)


def test_prefetching_nothing_is_nothing(run):
    assert numbers(run(D.range(3).prefetch(0))) == [0, 1, 2]


def test_errors_pass_through_prefetch_in_their_places():
    it = iter(D.range(4).map(lambda x: 1 / 0 if x == 1 else x).prefetch(2))
    assert next(it) == 0
    with pytest.raises(hr.ElementError):
        next(it)
    assert numbers(it) == [2, 3]


def test_a_cache_is_indexed_by_what_it_kept():
    calls = []
    ds = D.range(10).map(lambda x: calls.append(int(x)) or len(calls)).cache()
    everything = numbers(ds)
    assert [int(ds[3]), numbers(ds[2:5])] == [everything[3], everything[2:5]]
    assert sorted(numbers(ds.shuffle())) == sorted(everything)
    assert len(calls) == 10


def test_shuffles_made_elsewhere_are_found_again_by_a_resume():
    def pipeline():
        inner = D.range(6).shuffle(6)
        return D.range(3).flat_map(lambda i: inner)

    it = iter(pipeline())
    got = [int(next(it)) for _ in range(4)]
    state, rest = it.state(), numbers(it)
    assert numbers(pipeline().iterator(state)) == rest
    assert sorted(got + rest) == sorted([*range(6)] * 3)


def _lines(folder, files=3, lines=5):
    names = [str(folder / f"{i}.txt") for i in range(files)]
    for i, name in enumerate(names):
        Path(name).write_text("".join(f"{i}{j}\n" for j in range(lines)))
    return names


def _length(line):
    return hr.io.decode_raw(line, np.uint8)[0]


NESTING = {
    "flat_map": lambda d, fn: d.flat_map(fn),
    "interleave": lambda d, fn: d.interleave(fn, cycle_length=2),
    "parallel": lambda d, fn: d.interleave(fn, cycle_length=2, num_parallel_calls=2),
}


@pytest.mark.parametrize("nested", NESTING.values(), ids=NESTING)
@pytest.mark.parametrize(
    "fn",
    [
        hr.TextLineDataset,
        lambda name: hr.TextLineDataset(name),
        lambda name: hr.TextLineDataset(name, encoding=None).map(_length),
        lambda name: hr.TextLineDataset(name).take(2).batch(2, drop_remainder=True),
    ],
)
def test_elements_of_files_are_known_and_read_in_blocks_behind_it(tmp_path, run, nested, fn):
    names = _lines(tmp_path)
    ds = nested(D.from_tensor_slices(names), fn)
    assert ds._node.pure
    assert ds._node.spec.complete
    assert ds.element_spec == fn(names[0]).element_spec
    seen = nested(D.from_tensor_slices(names), lambda name: fn(name) if name else None)
    assert not seen._node.pure
    assert [str(x) for x in run(ds)] == [str(x) for x in run(seen)]
    check_transformation(ds)


def test_elements_of_arrays_are_known_behind_a_flat_map():
    rows = D.from_tensor_slices(np.arange(12).reshape(2, 2, 3))
    assert rows.flat_map(D.from_tensor_slices)._node.spec == D.range(1).map(lambda x: np.zeros(3, np.int64))._node.spec
    some = D.from_tensor_slices(np.arange(12).reshape(4, 3)).batch(3).flat_map(D.from_tensor_slices)
    assert some._node.pure
    assert not some._node.spec.known
    assert [x.tolist() for x in some] == np.arange(12).reshape(4, 3).tolist()


@pytest.mark.parametrize(
    "fn",
    [lambda name: (SEEN.append(name), hr.TextLineDataset(name))[1], lambda name: hr.TextLineDataset(name).map(note)],
)
def test_a_function_with_effects_is_called_no_sooner_than_its_rows_are_asked_for(tmp_path, fn):
    SEEN.clear()
    it = iter(D.from_tensor_slices(_lines(tmp_path)).flat_map(fn))
    assert SEEN == []
    next(it)
    assert len(SEEN) == 1


SEEN = []


def note(line):
    SEEN.append(line)
    return line


def test_a_function_within_is_traced_for_what_it_holds():
    ds = D.range(6).flat_map(lambda n: D.range(4).map(lambda x: x * n))
    assert numbers(ds) == [x * n for n in range(6) for x in range(4)]
    ds = D.range(6).flat_map(lambda n: D.range(4).map(lambda x, k=n % 2 == 0: x if k else -x))
    assert numbers(ds) == [x if n % 2 == 0 else -x for n in range(6) for x in range(4)]
    for number in (2, 2.0, True, np.float32(2)):
        (one,) = D.range(1).map(lambda x: x * number)  # noqa: B023
        assert one.dtype == (np.int64(0) * number).dtype


@pytest.mark.parametrize(("parents", "rows"), [(20, 1), (12, 2), (2, 40)])
def test_small_children_are_put_together_and_every_promise_kept(parents, rows):
    check_transformation(D.range(parents).flat_map(lambda n: D.range(rows).batch(3)))
    check_transformation(D.range(parents).flat_map(lambda n: D.range(rows).map(lambda x: (x, n))))


def test_parts_of_batches_are_put_together_and_shuffled():
    check_transformation(D.range(30).batch(7).flat_map(D.from_tensor_slices).shuffle(5, seed=1))
