"""ds.to_jax(), on four CPU devices: run by test_jax.py in a process of its own."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import headrace as hr
from headrace.testing import our_threads
from tests.adapters.pipelines import labels_of, pairs

D = hr.Dataset


def spread(*axes):
    return NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec(*axes))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_are_those_of_numpy_to_the_bit(prefetch):
    for (a, b), (x, y) in zip(pairs(), pairs().to_jax(prefetch=prefetch), strict=True):
        assert isinstance(x, jax.Array)
        assert (a.dtype, b.dtype) == (x.dtype, y.dtype)
        assert a.tobytes() == np.asarray(x).tobytes()
        assert b.tobytes() == np.asarray(y).tobytes()


def test_the_devices():
    assert len(jax.devices()) == 4
    batch = next(iter(pairs().to_jax()))
    assert batch[0].devices() == {jax.devices()[0]}
    batch = next(iter(pairs().to_jax(device=jax.devices()[2])))
    assert batch[0].devices() == {jax.devices()[2]}
    with jax.default_device(jax.devices()[3]):
        batch = next(iter(pairs().to_jax(prefetch=2)))
    assert batch[0].devices() == {jax.devices()[3]}


def test_a_batch_is_spread_over_the_devices():
    want = labels_of(pairs().take(6))
    got = list(pairs().take(6).to_jax(sharding=spread("data")))
    assert labels_of(got) == want
    for images, labels in got:
        assert images.sharding == labels.sharding == spread("data")
        assert [s.data.shape for s in images.addressable_shards] == [(2, 2, 3)] * 4


def test_a_sharding_for_each_component():
    batch = next(iter(pairs().to_jax(sharding=(spread("data"), spread()))))
    assert batch[0].addressable_shards[0].data.shape == (2, 2, 3)
    assert batch[1].addressable_shards[0].data.shape == (8,)
    with pytest.raises(ValueError, match="shardings are given for"):
        next(iter(pairs().to_jax(sharding={"x": spread()})))


def test_a_batch_that_cannot_be_spread_says_what_to_do():
    with pytest.raises(
        hr.ElementError, match=r"component\[0\] of shape \(2, 2, 3\) cannot be spread[\s\S]*drop_remainder"
    ):
        list(pairs().to_jax(sharding=spread("data")))


def test_memory_of_another_owner_is_copied():
    source = np.arange(4096, dtype=np.float32)
    for feed in (
        D.from_tensor_slices(source).batch(4096).to_jax(),
        D.from_tensor_slices(source).batch(4096).to_jax(sharding=spread("data")),
    ):
        batch = next(iter(feed))
        before = np.asarray(batch).copy()
        source[:] = -1
        assert np.array_equal(np.asarray(batch), before)
        source[:] = np.arange(4096)


def test_batches_stay_what_they_were():
    ds = D.from_tensor_slices(np.arange(200_000, dtype=np.float32)).shuffle(1000, seed=1).batch(1000)
    kept = list(ds.repeat(3).to_jax(prefetch=2))
    want = [np.array(b) for b in D.from_tensor_slices(np.arange(200_000, dtype=np.float32)).shuffle(1000, seed=1)
            .batch(1000).repeat(3)]  # fmt: skip
    assert all(np.array_equal(a, b) for a, b in zip(kept, want, strict=True))


def test_text_ragged_and_dtypes_that_jax_does_not_have():
    assert next(iter(D.from_tensor_slices(["a", "b"]).batch(2).to_jax())) == ["a", "b"]
    with pytest.raises(hr.ElementError, match="is ragged, which JAX does not know: use padded_batch"):
        next(iter(D.range(1, 4).map(lambda n: np.arange(n)).ragged_batch(3).to_jax()))
    with pytest.raises(hr.ElementError, match="dtype datetime64"):
        next(iter(D.from_tensor_slices(np.zeros(2, "datetime64[s]")).batch(2).to_jax()))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_state_is_that_of_what_was_received(prefetch):
    want = labels_of(pairs())
    for cut in range(len(want) + 1):
        feed = pairs().to_jax(prefetch=prefetch)
        with iter(feed) as it:
            for _ in range(cut):
                next(it)
            state = it.state_dict()
        assert state == feed.state_dict()
        again = pairs().to_jax(prefetch=prefetch)
        again.load_state_dict(state)
        assert labels_of(again) == want[cut:]


def test_closing_frees_the_thread():
    it = iter(pairs().repeat().to_jax(prefetch=2))
    next(it)
    assert our_threads() != []
    it.close()
    assert our_threads() == []


def test_waiting_is_counted():
    it = iter(pairs().to_jax())
    list(it)
    assert it.stats()["starvation"]["waited_s"] > 0


def test_a_device_or_a_sharding():
    with pytest.raises(ValueError, match="not both"):
        pairs().to_jax(device=jax.devices()[0], sharding=spread())


def test_the_state_of_one_process_is_valid_for_another_number_of_them():
    def feeds(count):
        return [hr.Dataset.range(20).shuffle(20, seed=1).batch(2).to_jax(shard=(count, rank)) for rank in range(count)]

    (whole,) = feeds(1)
    want = [batch.tolist() for batch in whole]
    two = feeds(2)
    passes = [iter(feed) for feed in two]
    assert [next(one).tolist() for one in passes] == want[:2]
    rest = feeds(4)
    for feed in rest:
        feed.load_state_dict(two[1].state_dict())
    assert [batch.tolist() for step in zip(*rest, strict=True) for batch in step] == want[2:]
