"""shuffle: random order, with a buffer or of everything."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.columns.block import Block
from headrace.ops.shuffle.shuffle_buffer import Slots
from headrace.plan.structure import LEAF, tuple_of
from headrace.testing import check_transformation

D = hr.Dataset


def numbers(ds):
    return [int(x) for x in ds]


def streamed(n):
    """A source that cannot be indexed."""
    return D.from_generator(lambda: iter(range(n)), output_signature=hr.TensorSpec((), "int64"))


@pytest.mark.parametrize("source", [D.range, streamed])
@pytest.mark.parametrize("buffer", [1, 2, 7, 30, 1000])
def test_every_element_comes_once_and_not_before_the_buffer_allows(run, source, buffer):
    order = numbers(run(source(30).shuffle(buffer, seed=1)))
    assert sorted(order) == list(range(30))
    assert all(element < position + buffer for position, element in enumerate(order))


@pytest.mark.parametrize("buffer", [7, 30, None])
def test_the_order_does_not_depend_on_how_the_input_is_read(buffer):
    indexed = D.from_tensor_slices(np.arange(30)).shuffle(buffer, seed=4)
    if buffer is not None:
        assert numbers(indexed) == numbers(streamed(30).shuffle(buffer, seed=4))
    assert numbers(indexed.batch(30).map(lambda b: b).flat_map(D.from_tensor_slices)) != list(range(30))


def test_a_buffer_of_one_changes_nothing(run):
    assert numbers(run(streamed(5).shuffle(1))) == [0, 1, 2, 3, 4]


def test_each_epoch_has_its_own_order(run):
    ds = D.range(50).shuffle(50, seed=1)
    first, second = run(ds), run(ds)
    assert first != second
    both = numbers(run(D.range(50).shuffle(50, seed=1).repeat(2)))
    assert both[:50] == numbers(first)
    assert both[50:] != both[:50]


def test_reshuffling_can_be_turned_off(run):
    ds = D.range(50).shuffle(50, reshuffle_each_iteration=False)
    assert run(ds) == run(ds)
    both = numbers(run(ds.repeat(2)))
    assert both[:50] == both[50:]


def test_a_seed_reproduces_the_sequence_of_epochs():
    def epochs():
        ds = D.range(20).shuffle(20, seed=3)
        return [numbers(ds) for _ in range(3)]

    assert epochs() == epochs()


def test_two_unseeded_shuffles_differ():
    assert numbers(D.range(50).shuffle(50)) != numbers(D.range(50).shuffle(50))


def test_one_dataset_in_two_places_has_two_orders_but_equal_seeds_agree():
    ds = D.range(50).shuffle(50, seed=1)
    assert any(a != b for a, b in D.zip(ds, ds))
    twin = D.range(50).shuffle(50, seed=1)
    assert all(a == b for a, b in D.zip(ds, twin))


def test_nested_repeats_never_use_an_order_twice():
    orders = numbers(D.range(20).shuffle(20, seed=1).repeat(2).repeat(3))
    chunks = {tuple(orders[i : i + 20]) for i in range(0, 120, 20)}
    assert len(chunks) == 6


def test_a_full_buffer_is_drawn_from_uniformly():
    firsts = np.bincount([int(next(iter(D.range(100).shuffle(8, seed=s)))) for s in range(4000)], minlength=8)
    assert len(firsts) == 8
    assert ((firsts - 500) ** 2 / 500).sum() < 30


def test_a_failure_is_moved_like_a_row(run):
    ds = D.range(9).map(lambda x: 1 / 0 if x == 4 else x).shuffle(4, seed=2)
    got = []
    it = iter(ds)
    while True:
        try:
            got.append(int(next(it)))
        except hr.ElementError as error:
            got.append(-error.ordinal)
        except StopIteration:
            break
    assert sorted(got) == [-4, 0, 1, 2, 3, 5, 6, 7, 8]


def test_mixed_rows_are_shuffled_too(run):
    ds = D.range(12).map(lambda x: np.arange(x % 3) if x % 2 else "text")
    assert len(run(ds.shuffle(5, seed=1))) == 12


def test_shuffling_everything_is_uniform_and_can_be_indexed():
    ds = D.range(1000).shuffle(seed=1)
    order = numbers(ds)
    assert sorted(order) == list(range(1000))
    assert np.abs(np.array(order) - np.arange(1000)).mean() > 200
    assert [int(ds[i]) for i in (0, 500, -1)] == [order[0], order[500], order[-1]]


def test_shuffling_everything_goes_beyond_a_table(run):
    ds = D.range(100_000).shuffle(seed=2)
    assert sorted(numbers(ds)) == list(range(100_000))


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: D.range(3).shuffle(0), ValueError, "buffer_size"),
        (lambda: D.range(3).shuffle(2.5), TypeError, "buffer_size"),
        (lambda: D.range(3).shuffle(2, seed="x"), TypeError, "seed"),
        (lambda: streamed(3).shuffle(), TypeError, "from_generator.*buffer_size"),
        (lambda: D.range(3).repeat().shuffle(), ValueError, "finite"),
    ],
)
def test_bad_arguments_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_memory_is_bounded_by_the_buffer_not_by_its_size_on_paper():
    assert len(numbers(streamed(10).shuffle(10**12))) == 10


def test_rows_keep_every_bit(run):
    values = np.array([0.0, -0.0, np.nan, np.inf], np.float32)
    got = np.array(run(D.from_tensor_slices(values).map(lambda x: x).shuffle(3, seed=1)))
    assert sorted(v.tobytes() for v in got) == sorted(v.tobytes() for v in values)


def test_rows_that_differ_find_room_beside_those_that_lie_anywhere():
    """As on a resume, where rows come back to the slots they had, and the slots between are empty."""
    slots = Slots(100)
    first = Block(LEAF, [pa.array([b"a", b"b"], pa.large_binary())], 2)
    slots.place(np.array([62, 7]), first, [np.array([0, 1])])
    slots.place(np.array([20]), Block(tuple_of([LEAF]), [np.array([5])], 1), [np.array([2])])
    assert [list(slots.pop(slot).elements()) for slot in (7, 20, 62)] == [[b"b"], [(5,)], [b"a"]]


@pytest.mark.parametrize("size", [3, 5000])
def test_rows_of_a_cache_come_out_as_their_own(size):
    rows = np.arange(40.0)[:, None] + np.zeros(size)
    ds = D.from_generator(lambda: iter(rows), output_signature=hr.TensorSpec((size,), np.float64)).cache()
    for mixed in (ds.shuffle(7, seed=1), ds.shuffle(7, seed=1).batch(3).unbatch(), ds.shuffle(100, seed=1)):
        seen = [x.flags.writeable and x[0] for x in mixed]
        assert sorted(seen) == list(range(40))
        for x in mixed:
            x[:] = -1
    assert [x[0] for x in ds] == list(range(40))
    check_transformation(ds.shuffle(7, seed=1).batch(3))


def test_a_buffer_far_beyond_the_data_takes_no_more_memory_than_they():
    tracemalloc.start()
    try:
        assert len(list(D.range(1000).filter(lambda x: x >= 0).shuffle(50_000_000, seed=1))) == 1000
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def lists(rows):
    return [r.tolist() for r in rows]


def test_the_same_global_seed_gives_the_same_orders():
    def orders():
        hr.set_random_seed(3)
        return lists(D.range(9).shuffle(9)), lists(D.range(9).shuffle(9))

    first = orders()
    assert first == orders()
    assert first[0] != first[1]
    hr.set_random_seed(None)


@pytest.fixture
def records(tmp_path):
    """A file of texts of every length up to a hundred, and an empty one now and then."""
    name = str(tmp_path / "texts.tfrecord")
    with hr.io.TFRecordWriter(name) as writer:
        for i in range(300):
            writer.write(b"%d" % i * (i * 7 % 31))
    return name


def test_texts_come_out_as_they_went_in(records):
    texts = hr.TFRecordDataset(records, index=False)
    given = list(texts)
    assert sorted(texts.shuffle(40, seed=1)) == sorted(given)
    words = texts.map(lambda record: record.decode(), mode="eager")
    assert sorted(words.shuffle(40, seed=1)) == sorted(text.decode() for text in given)
    check_transformation(texts.shuffle(40, seed=1), cuts=8)


def test_a_pool_of_texts_gives_each_once_and_uses_its_places_again():
    pool = _native.TextPool()
    first = pool.keep(*parts(pa.array([b"one", b"", b"three"], pa.large_binary())))
    values, offsets = pool.give(first[[2, 1]])
    assert (values.tobytes(), offsets.tolist()) == (b"three", [0, 5, 5])
    with pytest.raises(ValueError, match="the slot holds no text"):
        pool.give(first[[0, 2]])
    again = pool.keep(*parts(pa.array([b"x" * 5000, b"y"], pa.large_binary())))
    assert set(again.tolist()) == set(first[[1, 2]].tolist())
    assert [pool.read(place[None])[0].tobytes() for place in (first[0], *again)] == [b"one", b"x" * 5000, b"y"]
    assert pool.read(np.array([7, -1]))[1].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="offsets"):
        pool.keep(np.zeros(2, np.uint8), np.array([0, 3]))
