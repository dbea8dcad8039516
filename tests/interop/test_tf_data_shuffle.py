"""The laws of shuffle, which both libraries keep with random numbers of their own."""

import pytest

from .conftest import assert_same, build, cases, headrace, numbers, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

COUNT = 40


def shuffled(D, buffer_size=COUNT, **how):
    return D.range(COUNT).shuffle(buffer_size, **how)


def passes(library, pipeline, count=3):
    ds = build(pipeline, library)
    return [numbers(ds) for _ in range(count)]


def all_differ(orders):
    return len({tuple(order) for order in orders}) == len(orders)


@pytest.mark.parametrize("buffer_size", [1, 2, 7, COUNT, 10 * COUNT])
def test_every_element_comes_once_and_never_before_the_buffer_has_reached_it(library, buffer_size):
    order = numbers(build(lambda D: shuffled(D, buffer_size, seed=5), library))
    assert sorted(order) == list(range(COUNT))
    assert all(element < position + buffer_size for position, element in enumerate(order))
    assert (order == sorted(order)) == (buffer_size == 1)


def test_the_first_element_is_any_of_the_buffer(library):
    firsts = [numbers(build(lambda D: shuffled(D, 4, seed=seed).take(1), library))[0] for seed in range(60)]  # noqa: B023
    assert set(firsts) == {0, 1, 2, 3}


@cases(
    {
        "an infinite dataset": lambda D: D.range(3).repeat().shuffle(1),
        "tuples": lambda D: D.zip(D.range(3), D.range(3)).shuffle(1).repeat(2),
        "nothing": lambda D: D.range(0).shuffle(5),
    }
)
def test_a_buffer_of_one_changes_nothing(pipeline):
    assert_same(pipeline)


def test_a_buffer_of_unknown_cardinality_holds_everything(library):
    order = numbers(build(lambda D: shuffled(D, tf.data.UNKNOWN_CARDINALITY, seed=5), library))
    assert sorted(order) == list(range(COUNT)) != order


@pytest.mark.parametrize("seed", [None, 0, 3, 2**40])
def test_every_pass_has_another_order(library, seed):
    assert all_differ(passes(library, lambda D: shuffled(D, seed=seed)))


@pytest.mark.parametrize("seed", [None, 3])
def test_every_repetition_has_another_order(library, seed):
    ds = build(lambda D: D.range(20).shuffle(20, seed=seed).repeat(3), library)
    order = numbers(ds)
    epochs = [order[0:20], order[20:40], order[40:60]]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert all_differ(epochs)


def test_two_iterators_at_once_have_two_orders(library):
    ds = build(lambda D: shuffled(D, seed=3), library)
    one, other = iter(ds), iter(ds)
    pairs = [(int(next(one)), int(next(other))) for _ in range(COUNT)]
    assert any(a != b for a, b in pairs)


@pytest.mark.parametrize("seed", [None, 3])
def test_without_reshuffling_every_pass_and_repetition_has_the_same_order(library, seed):
    first, second = passes(library, lambda D: shuffled(D, seed=seed, reshuffle_each_iteration=False), 2)
    assert first == second != sorted(first)
    order = numbers(build(lambda D: D.range(20).shuffle(20, seed, reshuffle_each_iteration=False).repeat(2), library))
    assert order[:20] == order[20:] != sorted(order[20:])


@pytest.mark.parametrize("reshuffle", [True, False])
def test_with_a_seed_a_pipeline_built_again_has_the_same_sequence_of_orders(library, reshuffle):
    def pipeline(D):
        return shuffled(D, 10, seed=3, reshuffle_each_iteration=reshuffle).shuffle(10, seed=4)

    assert passes(library, pipeline) == passes(library, pipeline)


def test_other_seeds_give_other_orders(library):
    assert all_differ([numbers(build(lambda D: shuffled(D, seed=seed), library)) for seed in range(5)])  # noqa: B023


def test_without_a_seed_two_shuffles_differ(library):
    assert all_differ([numbers(build(shuffled, library)) for _ in range(3)])


def sides(library, zipped):
    pairs = list(build(zipped, library))
    return [int(a) for a, _ in pairs], [int(b) for _, b in pairs]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_dataset_zipped_with_itself_has_two_orders(library, seed):
    def zipped(D):
        ds = shuffled(D, seed=seed)
        return D.zip(ds, ds)

    left, right = sides(library, zipped)
    assert sorted(left) == sorted(right)
    assert left != right


def test_a_dataset_that_is_not_reshuffled_agrees_with_itself(library):
    def zipped(D):
        ds = shuffled(D, reshuffle_each_iteration=False)
        return D.zip(ds, ds)

    left, right = sides(library, zipped)
    assert left == right


def test_two_datasets_with_one_seed_agree_in_every_pass(library):
    ds = build(lambda D: D.zip(shuffled(D, seed=3), shuffled(D, seed=3)), library)
    for _ in range(2):
        assert all(int(a) == int(b) for a, b in ds)


def test_a_dataset_concatenated_with_itself_has_two_orders(library):
    def pipeline(D):
        ds = D.range(20).shuffle(20, seed=3)
        return ds.concatenate(ds)

    order = numbers(build(pipeline, library))
    assert sorted(order[:20]) == sorted(order[20:])
    assert order[:20] != order[20:]


def test_a_cache_keeps_the_order_of_the_shuffle_before_it_and_not_of_the_one_after(library):
    first, second = passes(library, lambda D: shuffled(D).cache(), 2)
    assert first == second
    assert all_differ(passes(library, lambda D: D.range(COUNT).cache().shuffle(COUNT)))


def test_a_seeded_shuffle_inside_flat_map_differs_for_each_parent_in_headrace_alone():
    def pipeline(D):
        return D.range(2).flat_map(lambda x: D.range(20).shuffle(20, seed=3))

    for library, alike in ((tf_data(), True), (headrace(), False)):
        order = numbers(build(pipeline, library))
        assert sorted(order[:20]) == sorted(order[20:])
        assert (order[:20] == order[20:]) == alike
