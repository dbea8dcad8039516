"""ds.to_torch(device="cuda"): skipped where there is no such device."""

import threading
from time import perf_counter

import numpy as np
import pytest

import headrace as hr
from headrace.testing import our_threads
from tests.adapters.pipelines import labels_of, pairs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
D = hr.Dataset
HALF_A_SECOND = 800_000_000
"""Clock cycles, roughly."""


def on_host(batches):
    return [(x.cpu().numpy(), y.cpu().tolist()) for x, y in batches]


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"pin_memory": False}, {"non_blocking": False}])
def test_batches_are_those_of_numpy_to_the_bit(prefetch, options):
    feed = pairs().to_torch(device="cuda", prefetch=prefetch, **options)
    got = list(feed)
    assert all(x.is_cuda and y.is_cuda for x, y in got)
    for (a, b), (x, y) in zip(pairs(), on_host(got), strict=True):
        assert a.tobytes() == x.tobytes()
        assert b.tolist() == y


def test_buffers_are_filled_again_only_after_their_copy():
    batches, size = 40, 1 << 20
    rows = np.repeat(np.arange(batches, dtype=np.int32), size // 4).reshape(batches, size // 4)
    seen = []
    for batch in D.from_tensor_slices(rows).batch(1).to_torch(device="cuda"):
        torch.cuda._sleep(1_000_000)  # the device is late with every batch
        seen.append((batch.min(), batch.max()))
    assert [(int(a), int(b)) for a, b in seen] == [(i, i) for i in range(batches)]


def test_memory_is_not_reused_while_the_consumers_stream_may_read_it():
    batches, width = 60, 1 << 18
    rows = np.repeat(np.arange(batches, dtype=np.int32), width).reshape(batches, width)
    stream = torch.cuda.Stream()
    sums = []
    with torch.cuda.stream(stream):
        for batch in D.from_tensor_slices(rows).batch(1).to_torch(device="cuda", prefetch=4):
            torch.cuda._sleep(2_000_000)
            sums.append(batch.sum())
            del batch  # back to the allocator while the kernel still waits
    stream.synchronize()
    assert [int(s) for s in sums] == [i * width for i in range(batches)]


def test_the_host_does_not_wait_for_the_device():
    it = iter(pairs().repeat().to_torch(device="cuda"))
    next(it)
    torch.cuda.synchronize()
    torch.cuda._sleep(HALF_A_SECOND)
    started = perf_counter()
    taken = [next(it) for _ in range(5)]
    took = perf_counter() - started
    busy = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    it.close()
    assert busy
    assert took < 0.2
    assert len(taken) == 5


def test_casts_on_the_way():
    ds = D.from_tensor_slices({"small": np.arange(8, dtype=np.uint8), "large": np.arange(8) / 3}).batch(4)
    batch = next(iter(ds.to_torch(device="cuda", dtypes={np.uint8: torch.float32, "large": torch.float32})))
    assert (batch["small"].dtype, batch["large"].dtype) == (torch.float32, torch.float32)
    assert batch["small"].tolist() == [0, 1, 2, 3]
    assert batch["large"].cpu().numpy().tobytes() == (np.arange(4) / 3).astype(np.float32).tobytes()


def test_text_scalars_empty_and_ragged_components():
    element = {"name": ["a", "b"], "empty": np.zeros((2, 0), np.float32), "flag": np.array([True, False])}
    batch = next(iter(D.from_tensor_slices(element).batch(2).to_torch(device="cuda")))
    assert batch["name"] == ["a", "b"]
    assert batch["empty"].shape == (2, 0)
    assert batch["flag"].tolist() == [True, False]
    one = next(iter(D.from_tensor_slices(element).to_torch(device="cuda")))
    assert one["flag"].shape == ()
    ragged = next(iter(D.range(1, 4).map(lambda n: np.arange(n)).ragged_batch(3).to_torch(device="cuda")))
    assert ragged.is_cuda
    assert [row.tolist() for row in ragged.unbind()] == [[0], [0, 1], [0, 1, 2]]


def test_batches_are_dealt_out_and_a_resume_goes_on_in_turn():
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    devices = devices if len(devices) > 1 else ["cuda:0", "cuda:0"]
    feed = pairs().to_torch(device=devices)
    it = iter(feed)
    first = [next(it) for _ in range(3)]
    again = pairs().to_torch(device=devices)
    again.load_state_dict(feed.state_dict())
    it.close()
    got = first + list(again)
    assert labels_of([(x, y.cpu()) for x, y in got]) == labels_of(pairs())
    assert [str(x.device) for x, _ in got] == [devices[i % len(devices)] for i in range(len(got))]


def test_a_state_is_that_of_what_was_received():
    want = labels_of(pairs())
    for cut in range(len(want) + 1):
        feed = pairs().to_torch(device="cuda", prefetch=3)
        with iter(feed) as it:
            for _ in range(cut):
                next(it)
        again = pairs().to_torch(device="cuda", prefetch=3)
        again.load_state_dict(feed.state_dict())
        assert labels_of([(x, y.cpu()) for x, y in again]) == want[cut:]


def test_closing_frees_the_thread():
    feed = pairs().repeat().to_torch(device="cuda")
    it = iter(feed)
    next(it)
    it.close()
    assert our_threads() == []
    for _ in feed:
        break
    assert our_threads() == []


def test_waiting_is_measured_on_the_device():
    pause = threading.Event()
    slow = iter(D.range(20).map(lambda x: pause.wait(0.01) or x).to_torch(device="cuda"))
    list(slow)
    torch.cuda.synchronize()
    starved = slow.stats()["starvation"]
    assert starved["share"] > 0.9
    busy = iter(D.range(20).map(lambda x: pause.wait(0.01) or x).to_torch(device="cuda"))
    for _ in busy:
        torch.cuda._sleep(HALF_A_SECOND // 10)  # the host only queues this, and then waits for data itself
    torch.cuda.synchronize()
    fed = busy.stats()["starvation"]
    assert fed["share"] < 0.2
    assert fed["computed_s"] > 0.3


def test_jax_puts_batches_on_its_device():
    jax = pytest.importorskip("jax")
    if jax.default_backend() == "cpu":
        pytest.skip("this JAX has no device but the CPU")
    ds = pairs()
    for (a, b), (x, y) in zip(ds, pairs().to_jax(), strict=True):
        assert x.devices() == {jax.devices()[0]}
        assert a.tobytes() == np.asarray(x).tobytes()
        assert b.tolist() == np.asarray(y).tolist()
