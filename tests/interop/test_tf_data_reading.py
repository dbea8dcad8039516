"""How much of a generator has been read, when, and when it is let go."""

import gc
import time

import numpy as np
import pytest

from .conftest import END, build, cases, headrace, numbers, step, tf_data

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


class Counter:
    """Generators that count what is read from them. `counter(5)` is a dataset of 0 to 4."""

    def __init__(self, D):
        self._D = D
        self.reads = 0

    def __call__(self, count=12):
        def generator():
            for i in range(count):
                self.reads += 1
                yield i

        return self._D.from_generator(generator, output_signature=self._D.TensorSpec((), np.int64))


def reads(pipeline, library):
    """How many elements were read from each of two generators, before the first next() and after each."""
    one, other = Counter(library), Counter(library)
    it = iter(build(lambda D: pipeline(D, one, other), library))
    seen = [(one.reads, other.reads)]
    got = None
    while got is not END:
        got = step(it)
        seen.append((one.reads, other.reads))
    return seen


@cases(
    {
        "the generator alone": lambda D, g, _: g(),
        "map": lambda D, g, _: g().map(lambda x: x * 2),
        "enumerate": lambda D, g, _: g().enumerate(),
        "take": lambda D, g, _: g().take(3),
        "take none": lambda D, g, _: g().take(0),
        "take all": lambda D, g, _: g().take(-1),
        "skip": lambda D, g, _: g().skip(4),
        "skip all": lambda D, g, _: g().skip(-1),
        "skip more than there are": lambda D, g, _: g(3).skip(5),
        "take, then skip": lambda D, g, _: g().take(6).skip(3),
        "skip, then take": lambda D, g, _: g().skip(3).take(3),
        "batch": lambda D, g, _: g().batch(5),
        "whole batches": lambda D, g, _: g().batch(5, drop_remainder=True),
        "take a batch": lambda D, g, _: g().batch(5).take(1),
        "batch what was taken": lambda D, g, _: g().take(7).batch(5),
        "skip batches": lambda D, g, _: g().batch(2).skip(2),
        "shard first": lambda D, g, _: g().shard(3, 0),
        "shard second": lambda D, g, _: g().shard(3, 1),
        "shard last": lambda D, g, _: g(13).shard(3, 2),
        "batch a shard": lambda D, g, _: g().shard(3, 1).batch(2),
        "shard batches": lambda D, g, _: g().batch(2).shard(3, 1),
        "filter": lambda D, g, _: g().filter(lambda x: x % 5 == 3),
        "filter all out": lambda D, g, _: g().filter(lambda x: x > 50),
        "batch the filtered": lambda D, g, _: g().filter(lambda x: x % 2 == 1).batch(2),
        "take of the filtered": lambda D, g, _: g().filter(lambda x: x % 2 == 1).take(2),
        "shuffle": lambda D, g, _: g().shuffle(4),
        "shuffle all": lambda D, g, _: g().shuffle(40),
        "shuffle nothing": lambda D, g, _: g().shuffle(1),
        "batch the shuffled": lambda D, g, _: g().shuffle(4).batch(3),
        "take of the shuffled": lambda D, g, _: g().shuffle(4).take(2),
        "zip with a shorter one": lambda D, g, h: D.zip(g(), h(3)),
        "zip with a longer one": lambda D, g, h: D.zip(h(3), g()),
        "zip with a range between": lambda D, g, h: D.zip(g(), D.range(3), h()),
        "zip after a range": lambda D, g, _: D.zip(D.range(3), g()),
        "zip before a range": lambda D, g, _: D.zip(g(), D.range(3)),
        "zip with nothing": lambda D, g, _: D.zip(D.range(0), g()),
        "concatenate": lambda D, g, h: g(3).concatenate(h(3)),
        "concatenate to a range": lambda D, g, _: D.range(2).concatenate(g(3)),
        "zip the concatenated": lambda D, g, h: D.zip(g(2).concatenate(h(2)), D.range(3)),
        "repeat": lambda D, g, _: g(3).repeat(2),
        "repeat never": lambda D, g, _: g(3).repeat(0),
        "take of the repeated": lambda D, g, _: g(3).repeat().take(7),
        "parents of flat_map": lambda D, g, _: g(4).flat_map(lambda x: D.range(x)),
        "children of flat_map": lambda D, g, _: D.range(2).flat_map(lambda x: g(3)),
        "parents of interleave": lambda D, g, _: g(6).interleave(lambda x: D.range(x), 3, 2),
        "children of interleave": lambda D, g, _: D.range(3).interleave(lambda x: g(4), 2, 2),
        "cache": lambda D, g, _: g(4).cache().repeat(2),
        "take of the cached": lambda D, g, _: g(4).cache().take(2),
        "prefetch nothing": lambda D, g, _: g(4).prefetch(0),
    }
)
def test_both_have_read_as_much_of_a_generator_after_each_next(pipeline):
    assert reads(pipeline, headrace()) == reads(pipeline, tf_data())


def settled(counter, count):
    """Whether `count` elements come to be read, and no more."""
    deadline = time.monotonic() + 300
    while counter.reads < count and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.05)
    return counter.reads == count


@pytest.mark.parametrize(
    ("pipeline", "each", "ahead"),
    [
        pytest.param(lambda g: g(40).prefetch(1), 1, 1, id="one element"),
        pytest.param(lambda g: g(40).prefetch(3), 1, 3, id="three elements"),
        pytest.param(lambda g: g(40).batch(2).prefetch(3), 2, 6, id="three batches"),
        pytest.param(lambda g: g(40).prefetch(2).prefetch(3), 1, 5, id="twice"),
        pytest.param(lambda g: g(40).prefetch(3).batch(2), 2, 3, id="before a batch"),
        pytest.param(lambda g: g(40).batch(2, num_parallel_calls=3), 2, 6, id="parallel batches"),
    ],
)
def test_prefetch_begins_with_the_first_next_and_stays_so_far_ahead(library, pipeline, each, ahead):
    counter = Counter(library)
    it = iter(build(lambda D: pipeline(counter), library))
    assert settled(counter, 0)
    for consumed in (1, 2, 3):
        next(it)
        assert settled(counter, consumed * each + ahead)


def test_a_parallel_map_is_no_further_ahead_than_it_has_calls(library):
    counter = Counter(library)
    it = iter(build(lambda D: counter(1000).map(lambda x: x, num_parallel_calls=3), library))
    next(it)
    in_step = settled(counter, 1 + 3)
    del it
    assert in_step


def test_a_cache_reads_its_input_until_one_pass_has_come_to_the_end(library):
    counter = Counter(library)
    ds = build(lambda D: counter(4).cache(), library)
    it = iter(ds)
    next(it)
    del it
    assert numbers(ds) == numbers(ds) == [0, 1, 2, 3]
    assert counter.reads == 1 + 4


class Closing:
    """A dataset of 0, 1, 2 whose generator says when it was closed."""

    def __init__(self, library):
        self.closed = 0
        self.ds = build(lambda D: D.from_generator(self._generator, np.int64, ()), library)

    def _generator(self):
        try:
            yield from range(3)
        finally:
            self.closed += 1


def test_a_generator_is_closed_when_it_is_exhausted(library):
    closing = Closing(library)
    it = iter(closing.ds)
    assert [int(x) for x in it] == [0, 1, 2]
    assert closing.closed == 1


def test_a_generator_is_closed_when_its_iterator_is_dropped(library):
    closing = Closing(library)
    it = iter(closing.ds.take(1))
    next(it)
    assert closing.closed == 0
    del it
    gc.collect()
    assert closing.closed == 1


def test_after_the_end_every_next_is_the_end(library):
    it = iter(build(lambda D: D.range(2).map(lambda x: x).batch(5).prefetch(1), library))
    step(it)
    assert [step(it), step(it), step(it)] == [END, END, END]


def test_each_iterator_is_a_pass_of_its_own(library):
    ds = build(lambda D: D.range(4), library)
    it = iter(ds)
    next(it)
    assert numbers(ds) == [0, 1, 2, 3]
    assert [int(x) for x in it] == [1, 2, 3]
