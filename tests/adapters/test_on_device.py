"""What `to_torch` and `to_jax` give of a plan with a map on a device."""

import numpy as np
import pytest

import headrace as hr

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small operations on several threads wait for the slowest of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def images(device="cpu"):
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 6, 3), dtype=np.uint8)
    ds = hr.Dataset.from_tensor_slices((pixels, np.arange(10)))
    return ds.random_map(
        lambda x, y, rng: (hr.image.random_crop(x, (4, 5), rng) / np.float32(255), y), seed=1, device=device
    ).batch(4)


def test_to_torch_gives_the_tensors_of_the_device():
    for (x, y), (u, v) in zip(images().to_torch(), images(None), strict=True):
        assert x.dtype == torch.float32
        assert np.array_equal(x.numpy(), u)
        assert y.tolist() == v.tolist()


def test_auto_is_the_device_of_to_torch():
    ds = images("auto")
    assert [y.tolist() for _, y in ds.to_torch(device="cpu")] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [y.tolist() for _, y in ds] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_another_device_than_the_maps_is_refused():
    with pytest.raises(ValueError, match=r"the plan has a map on \"cpu\".*device=\"auto\""):
        images().to_torch(device="meta")


def test_layout_and_dtypes_are_chosen_without_a_copy():
    for x, y in images().to_torch(layout="NCHW", dtypes={0: torch.bfloat16}):
        assert x.shape[1:] == (3, 4, 5)
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert (x.dtype, y.dtype) == (torch.bfloat16, torch.int64)


def test_layout_is_for_plans_without_a_device_too():
    ((x,),) = hr.Dataset.from_tensor_slices((np.zeros((2, 4, 5, 3), np.float32),)).batch(2).to_torch(layout="NCHW")
    assert x.shape == (2, 3, 4, 5)
    with pytest.raises(ValueError, match="layout must be one of"):
        hr.Dataset.range(2).to_torch(layout="CHWN")


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_feed_resumes_after_what_was_taken(ahead):
    whole = [(x.numpy(), y.tolist()) for x, y in images().to_torch()]
    for step in range(len(whole) + 1):
        feed = images().to_torch(prefetch=ahead)
        it = iter(feed)
        for _ in range(step):
            next(it)
        state = feed.state_dict()
        it.close()
        if step == len(whole):
            continue
        again = images().to_torch(prefetch=ahead)
        again.load_state_dict(state)
        rest = [(x.numpy(), y.tolist()) for x, y in again]
        assert [y for _, y in rest] == [y for _, y in whole[step:]]
        assert all(np.array_equal(a[0], b[0]) for a, b in zip(rest, whole[step:], strict=True))


def test_tensors_may_be_written_to():
    feed = images().to_torch()
    for x, _ in feed:
        x.requires_grad_().sum().backward()
    for x, _ in feed:
        x.zero_()
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(images(), images(None), strict=True))


def test_to_jax_takes_the_results():
    pytest.importorskip("jax")
    for (x, _), (u, _) in zip(images().to_jax(), images(None), strict=True):
        assert np.array_equal(np.asarray(x), u)


def test_a_process_cannot_prefetch_after_a_device():
    with pytest.raises(ValueError, match="would copy its results back"):
        images().prefetch(2, mode="process")
