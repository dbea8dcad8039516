"""Every operation, alone and where marks are hard, through the public conformance kit at every cut."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


def picky(x):
    if x % 7 == 3:
        raise ValueError(f"bad {x}")
    return x * 2


def streamed(n=23):
    return D.from_generator(lambda: iter(range(n)), output_signature=hr.TensorSpec((), "int64"))


def slices(n=20):
    return D.from_tensor_slices({"x": np.arange(3 * n).reshape(n, 3), "s": [str(i) for i in range(n)]})


def twice(combine, ds):
    return combine(ds, ds)


PIPELINES = {
    "range": lambda: D.range(10),
    "from_tensors": lambda: D.from_tensors((1, "a", None)),
    "from_tensor_slices": slices,
    "from_generator": streamed,
    "map": lambda: D.range(20).map(picky),
    "parallel map": lambda: D.range(30).map(picky, num_parallel_calls=3),
    "filter": lambda: D.range(30).filter(lambda x: bool(picky(x) % 3)),
    "filter in batches": lambda: streamed(60).filter(lambda x: bool(picky(x) % 3)).batch(4).batch(2),
    "batch": lambda: D.range(20).map(picky).batch(4),
    "batch of batches": lambda: slices().batch(2).batch(3),
    "batch without remainder": lambda: streamed().batch(3, drop_remainder=True),
    "ragged rows": lambda: D.range(9).map(lambda n: np.arange(n // 2)).batch(2),
    "shuffle by number": lambda: slices().shuffle(5),
    "shuffle a stream": lambda: streamed().shuffle(6, seed=2),
    "shuffle with failures": lambda: D.range(40).map(picky).shuffle(7, seed=3),
    "shuffle in a buffer larger than the data": lambda: streamed().shuffle(100),
    "shuffle ragged rows": lambda: D.range(12).map(lambda n: np.arange(n % 3)).shuffle(4, seed=1),
    "shuffle a shuffle": lambda: slices().shuffle(5).shuffle(3),
    "shuffle everything": lambda: slices().shuffle(),
    "shuffle everything with failures": lambda: D.range(20).map(picky).shuffle(seed=4),
    "shuffle after repeat": lambda: slices().repeat().shuffle(7).take(40),
    "repeat and reshuffle": lambda: slices().shuffle(4).repeat(3).batch(7),
    "repeat and reshuffle a stream": lambda: streamed().shuffle(5).repeat(2).batch(4),
    "repeat for ever": lambda: slices().shuffle(4).repeat().take(50),
    "repeat repeats": lambda: streamed(5).shuffle(3).repeat(2).repeat(2),
    "repeat nothing": lambda: D.range(0).repeat(),
    "take": lambda: streamed().take(5),
    "skip": lambda: streamed().skip(2).batch(3).skip(1).take(3),
    "shard": lambda: D.range(50).map(picky).shard(4, 3),
    "shard by number": lambda: slices().skip(1).shard(3, 2),
    "zip": lambda: D.zip(D.range(20).map(picky), streamed()),
    "zip a dict": lambda: D.zip({"a": slices(), "b": D.range(7)}),
    "zip with itself": lambda: twice(D.zip, D.range(9).shuffle(5, seed=1)),
    "concatenate": lambda: streamed().concatenate(D.range(3)),
    "concatenate with itself": lambda: twice(D.concatenate, D.range(5).shuffle(5)).concatenate(D.range(2)),
    "enumerate": lambda: D.range(20).map(picky).enumerate(3),
    "flat_map": lambda: D.range(6).flat_map(D.range),
    "flat_map with shuffles": lambda: D.range(6).shuffle(3).flat_map(lambda n: D.range(n).shuffle(3)),
    "flat_map with failures": lambda: D.range(6).flat_map(lambda n: D.range(n + 3).map(picky) if n != 2 else 5),
    "nested flat_map": lambda: D.range(5).flat_map(lambda n: D.range(n).flat_map(lambda m: D.range(m).shuffle(2))),
    "interleave": lambda: D.range(7).interleave(lambda n: D.range(n * 10, n * 10 + n), cycle_length=3),
    "interleave blocks with failures": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + n).map(picky), cycle_length=3, block_length=2
    ),
    "interleave long strands": lambda: (
        D.range(7).interleave(lambda n: D.range(n, n + 50), cycle_length=3, block_length=2).batch(50)
    ),
    "parallel interleave": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + 5).shuffle(3), cycle_length=3, num_parallel_calls=2
    ),
    "interleave in flat_map": lambda: D.range(3).flat_map(
        lambda n: D.range(n + 2).interleave(D.range, cycle_length=2).batch(2)
    ),
    "prefetch": lambda: slices().shuffle(5).prefetch(3).batch(4).prefetch(hr.AUTOTUNE),
    "cache": lambda: streamed().cache(),
    "cache a shuffle": lambda: D.range(10).shuffle(4).cache().repeat(2),
    "cache failures": lambda: D.range(20).map(picky).cache().shuffle(5).batch(3),
    "cache in flat_map": lambda: D.range(4).flat_map(lambda n: D.range(n + 2).shuffle(2).cache().repeat(2)),
    "slice": lambda: D.range(20).map(picky)[2:15:3],
    "no components": lambda: D.range(5).map(lambda n: None).shuffle(2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_keeps_every_promise(name):
    check_transformation(PIPELINES[name]())


UNORDERED = {
    "map": lambda: D.range(40).map(picky, num_parallel_calls=3, deterministic=False),
    "map then batch": lambda: D.range(40).map(lambda x: x, num_parallel_calls=3, deterministic=False),
    "interleave": lambda: D.range(7).interleave(
        lambda n: D.range(n * 10, n * 10 + 5).map(picky),
        cycle_length=3,
        block_length=2,
        num_parallel_calls=2,
        deterministic=False,
    ),
}


@pytest.mark.parametrize("name", UNORDERED)
def test_out_of_order_delivery_stays_exact(name):
    check_transformation(UNORDERED[name](), ordered=False)


class TestTheKitItself:
    """A kit that never fails would prove nothing."""

    def test_notices_wrong_elements(self):
        calls = iter(range(1000))
        with pytest.raises(AssertionError, match="element 0"):
            check_transformation(D.range(3).map(lambda x: next(calls)))

    def test_notices_a_wrong_spec(self):
        ds = D.range(3).map(lambda x: x, output_signature=hr.TensorSpec([], "float32"))
        with pytest.raises(AssertionError, match=r"element_spec.*int64 where float32"):
            check_transformation(ds)

    def test_notices_a_resume_that_is_not_exact(self):
        class Fickle:
            passes = 0

            def __call__(self):
                Fickle.passes += 1
                yield from range(5)
                if Fickle.passes > 12:
                    yield 99

        ds = D.from_generator(Fickle(), output_signature=hr.TensorSpec((), "int64"))
        with pytest.raises(AssertionError, match="elements, not"):
            check_transformation(ds)
