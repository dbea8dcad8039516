"""ds.to_torch(device="cuda"): skipped where there is no such device."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, perf_counter

import numpy as np
import psutil
import pytest

import headrace as hr
from headrace import _native
from headrace.adapters import locked
from headrace.testing import our_threads
from tests.adapters.pipelines import labels_of, pairs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
D = hr.Dataset
HALF_A_SECOND = 800_000_000
"""Clock cycles, roughly."""
PIXELS = np.random.default_rng(0).integers(0, 256, (64, 1 << 20), np.uint8)


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


def test_offsets_of_ragged_batches_are_not_cast():
    ds = D.range(1, 4).map(lambda n: np.arange(n)).ragged_batch(3)
    batch = next(iter(ds.to_torch(device="cuda", dtypes={np.int64: torch.float32})))
    assert batch.dtype == torch.float32
    assert [row.tolist() for row in batch.unbind()] == [[0], [0, 1], [0, 1, 2]]


def test_small_components_travel_together_and_large_ones_alone():
    columns = {f"c{i}": np.arange(64, dtype=[np.int64, np.uint8, np.float32][i % 3]) + i for i in range(20)}
    ds = D.from_tensor_slices({**columns, "image": np.random.default_rng(0).random((64, 9000))}).batch(16)
    got = list(ds.to_torch(device="cuda", dtypes={"c1": torch.float32, "c0": torch.int32}))
    for i, batch in enumerate(got):
        for name, column in columns.items():
            assert batch[name].tolist() == column[16 * i : 16 * (i + 1)].tolist()
    first = got[0]
    assert (first["c0"].dtype, first["c1"].dtype, first["c4"].dtype) == (torch.int32, torch.float32, torch.uint8)
    shared = first["c2"].untyped_storage()
    assert shared.data_ptr() == first["c3"].untyped_storage().data_ptr()
    assert shared.nbytes() < 1 << 16  # keeping a label does not keep the images
    assert shared.data_ptr() != first["image"].untyped_storage().data_ptr()


def many_small(batches=400):
    rows = np.arange(batches * 16, dtype=np.float32)
    return D.from_tensor_slices((np.repeat(rows[:, None], 50, 1), rows.astype(np.int64))).shuffle(64, seed=3).batch(16)


def test_small_batches_travel_together_and_are_tensors_of_their_own():
    weight = torch.ones(50, device="cuda", requires_grad=True)
    losses, homes = [], set()
    for (a, b), (x, y) in zip(many_small(), many_small().to_torch("cuda", prefetch=0), strict=True):
        assert (a.tobytes(), b.tolist()) == (x.cpu().numpy().tobytes(), y.tolist())
        homes.add(x.untyped_storage().data_ptr())
        x.div_(2)  # after which what was made of the last ones can still be differentiated
        losses.append((x * weight).sum())
        if len(losses) == 4:
            torch.stack(losses).sum().backward()
            losses = []
    assert len(homes) < 300


def test_streams_that_take_turns_each_wait_for_what_travelled_together():
    streams = [torch.cuda.Stream() for _ in range(2)]
    feed = iter(many_small().to_torch("cuda", prefetch=0))
    for i, (_, labels) in enumerate(many_small()):
        with torch.cuda.stream(streams[i % 2]):
            torch.cuda._sleep(10_000)
            x, y = next(feed)
            sums = [int(x[:, 0].sum()), int(y.sum())]  # on this stream: another one would not wait for it
        assert sums == 2 * [int(labels.sum())]


def test_a_state_between_batches_that_travelled_together():
    feed = many_small().prefetch(4, mode="process").to_torch("cuda")
    it = iter(feed)
    taken = [y.tolist() for _, (_, y) in zip(range(203), it, strict=False)]
    state = feed.state_dict()
    rest = [y.tolist() for _, y in it]
    again = many_small().to_torch("cuda", prefetch=0)
    again.load_state_dict(state)
    assert [y.tolist() for _, y in again] == rest
    assert [*taken, *rest] == [y.tolist() for _, y in many_small()]


def test_batches_that_change_their_shape():
    sizes = [3, 70_000, 3, 5, 1_500_000, 1]
    signature = hr.TensorSpec((None,), np.int64)
    ds = D.from_generator(lambda: (np.full(n, n) for n in sizes), output_signature=signature)
    got = [(len(t), int(t.min()), int(t.max())) for t in ds.to_torch(device="cuda")]
    assert got == [(n, n, n) for n in sizes]


def numbered(rows=64):
    """Four megabytes, no two rows alike."""
    return np.arange(rows * (1 << 14), dtype=np.int32).reshape(rows, 1 << 14)


def is_locked(array):
    return torch.from_numpy(array).is_pinned()


def until_locked(feed, array):
    """Pass over it until the array is page-locked."""
    for _ in range(1000):
        for _ in feed:
            pass
        if is_locked(array):
            return
    pytest.fail("the array was never locked")


def test_an_array_that_is_read_again_is_read_in_place(monkeypatch):
    monkeypatch.setattr(locked, "MIN_LOCKED_BYTES", 1 << 20)
    array = numbered()
    feed = D.from_tensor_slices({"x": array, "label": np.arange(64)}).batch(5).to_torch(device="cuda")
    for batch in feed:
        assert batch["x"][:, 0].tolist() == [n << 14 for n in batch["label"].tolist()]
    assert not is_locked(array)
    until_locked(feed, array)
    for prefetched in range(3):  # closed at once, and after a while
        with iter(feed) as it:
            got = [next(it) for _ in range(prefetched + 1)]
        assert all(torch.equal(b["x"].cpu(), torch.from_numpy(array[b["label"].cpu().numpy()])) for b in got)
    torch.cuda._sleep(HALF_A_SECOND // 10)
    whole = torch.cat([batch["x"] for batch in feed])
    assert torch.equal(whole.cpu(), torch.from_numpy(array))
    del feed, it
    gc.collect()
    assert not is_locked(array)
    assert our_threads() == []


def test_an_array_may_be_written_to_where_its_batches_have_been_given_out():
    array = np.repeat(np.arange(64, dtype=np.int32), 1 << 18).reshape(64, 1 << 18)
    feed = D.from_tensor_slices(array).batch(8).to_torch(device="cuda")
    until_locked(feed, array)
    seen = []
    for i, batch in enumerate(feed):
        array[8 * i : 8 * (i + 1)] = -1
        seen.append(batch)
    assert [row.unique().tolist() for batch in seen for row in batch] == [[i] for i in range(64)]


def test_a_locked_array_can_be_cast(monkeypatch):
    monkeypatch.setattr(locked, "MIN_LOCKED_BYTES", 1 << 20)
    array = numbered()
    for dtype in (torch.int64, torch.int16):
        feed = D.from_tensor_slices(array).batch(8).to_torch(device="cuda", dtypes={np.int32: dtype})
        until_locked(feed, array)
        assert torch.equal(torch.cat(list(feed)).cpu(), torch.from_numpy(array).to(dtype))
        del feed
        gc.collect()
        assert not is_locked(array)


def test_an_array_that_cannot_be_locked_is_copied_as_ever(monkeypatch):
    monkeypatch.setattr(locked, "MIN_LOCKED_BYTES", 1 << 20)
    array = numbered()
    cudart = torch.cuda.cudart()
    address = array.ctypes.data
    assert int(cudart.cudaHostRegister(address, array.nbytes, 0)) == 0  # another library was here first
    try:
        feed = D.from_tensor_slices(array).batch(8).to_torch(device="cuda")
        for _ in range(4):
            assert torch.equal(torch.cat(list(feed)).cpu(), torch.from_numpy(array))
        assert (torch.ones(3, device="cuda") + 1).tolist() == [2, 2, 2]  # no error is left
        del feed
        gc.collect()
        assert is_locked(array)  # by its owner still
    finally:
        cudart.cudaHostUnregister(address)


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


def shuffled():
    """Batches of 8 MB, each in memory of the pool."""
    return D.from_tensor_slices((PIXELS, np.arange(64))).shuffle(64, seed=3).batch(8).repeat(4)


@pytest.mark.parametrize("prefetch", [0, 2, 4])
def test_batches_go_to_the_device_from_the_memory_they_were_made_in(prefetch):
    ds, feed = shuffled(), shuffled().to_torch(device="cuda", prefetch=prefetch)
    for _ in range(3):
        for (a, b), (x, y) in zip(ds, on_host(feed), strict=True):
            assert a.tobytes() == x.tobytes()
            assert b.tolist() == y
        for thread in threading.enumerate():
            if thread.name == "headrace-page-lock":
                thread.join()
    assert _native.pool_stats()["pinned"] >= 8 << 20
    del feed
    gc.collect()
    assert _native.pool_stats()["pinned"] == 0


def test_memory_is_not_used_for_another_batch_before_the_device_has_read_it():
    feed = shuffled().to_torch(device="cuda")
    for _ in range(2):
        list(feed)
    sums = []
    for x, y in feed:
        torch.cuda._sleep(2_000_000)
        sums.append((x.long().sum(1), y))
        del x
    assert sorted(torch.cat([y for _, y in sums]).tolist()) == sorted([*range(64)] * 4)
    for got, labels in sums:
        for total, label in zip(got.tolist(), labels.tolist(), strict=True):
            assert total == PIXELS[label].sum()


TRAINER = """
import sys, numpy as np, headrace as hr
def rows():
    pixels = np.zeros((256, 1 << 20), np.uint8)
    return hr.Dataset.from_tensor_slices(pixels).shuffle(256).batch(64).repeat()
def make(mode):
    return rows().prefetch(2, mode=mode).to_torch("cuda")
if __name__ == "__main__":
    for number, batch in enumerate(make(sys.argv[1])):
        if number == 30:
            print("trains", flush=True)
"""


def available():
    """Megabytes that are free."""
    return psutil.virtual_memory().available >> 20


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_nothing_is_left_of_a_trainer_that_is_killed(tmp_path, mode):
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    shared, before = set(Path("/dev/shm").iterdir()), available()
    trainer = subprocess.Popen([sys.executable, str(script), mode], stdout=subprocess.PIPE, text=True)
    assert trainer.stdout.readline() == "trains\n"
    family = [psutil.Process(trainer.pid), *psutil.Process(trainer.pid).children(recursive=True)]
    held = before - available()
    trainer.kill()
    trainer.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    assert set(Path("/dev/shm").iterdir()) <= shared
    assert held > 300  # what it had: 256 MB of rows, batches, what CUDA itself takes
    pause, ends = threading.Event(), monotonic() + 30
    while before - available() > 200 and monotonic() < ends:
        pause.wait(0.1)
    assert before - available() < 200


def test_the_device_reads_what_is_written_after_a_fork():
    """A page that a child shares is copied by the first writer: the device must not keep the old one."""
    ds, feed = shuffled(), shuffled().to_torch(device="cuda")
    for _ in range(2):
        list(zip(ds, feed, strict=True))
    assert _native.pool_stats()["pinned"]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # until the parent is done
        os._exit(0)
    try:
        for _ in range(2):
            for (a, b), (x, y) in zip(ds, on_host(feed), strict=True):
                assert a.tobytes() == x.tobytes()
                assert b.tolist() == y
    finally:
        os.close(write)
        os.close(read)
        assert os.waitpid(child, 0)[1] == 0
