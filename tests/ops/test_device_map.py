"""`map` and `random_map` with `device=`, on PyTorch's CPU device."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import headrace as hr
from headrace.device.machine import DeviceMemoryError, Machine
from headrace.device.program import DeviceError
from headrace.ops.device_map import WORKING_COPIES, _even_part

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small operations on several threads wait for the slowest of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def pictures(count=24):
    rng = np.random.default_rng(1)
    sizes = rng.integers(30, 60, (count, 2))
    return tuple(hr.image.encode_jpeg(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in sizes)


def augment(jpeg, label, rng):
    image = hr.image.decode_jpeg(jpeg, channels=3)
    image = hr.image.random_resized_crop(image, (16, 16), rng)
    image = hr.image.random_flip_left_right(image, rng)
    return hr.image.random_brightness(image / np.float32(255), 0.2, rng), label


def pipeline(device=None, seed=7, size=5):
    ds = hr.Dataset.from_tensor_slices((list(pictures()), np.arange(24))).shuffle(24, seed=2)
    return ds.random_map(augment, seed=seed, device=device).batch(size)


def same(a, b):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(a, b, strict=True))


def test_a_pipeline_of_jpegs_gives_what_it_gives_without_a_device():
    here, there = list(pipeline()), list(pipeline("cpu"))
    assert len(here) == len(there) == 5
    assert all(map(same, there, here))
    assert all(type(x) is np.ndarray for batch in there for x in batch)


def test_the_draws_are_those_of_the_cpu_in_every_epoch():
    numbers = hr.Dataset.range(40)

    def draw(x, rng):
        return rng.random(3), rng.integers(0, 100), rng.normal(), rng.bernoulli(0.3), rng.permutation(4)

    here, there = numbers.random_map(draw, seed=1), numbers.random_map(draw, seed=1, device="cpu")
    for _ in range(2):
        assert all(map(same, there, here))


def test_the_second_map_of_a_seed_draws_as_without_a_device():
    def noisy(x, rng):
        return x + rng.random()

    ds = hr.Dataset.range(6).map(np.float64)
    here = ds.random_map(noisy, seed=1).random_map(noisy, seed=1)
    there = ds.random_map(noisy, seed=1, device="cpu").random_map(noisy, seed=1)
    assert list(here) == list(there)


def test_it_resumes_at_fifty_random_steps_with_the_same_bits():
    ds = pipeline("cpu", size=1)
    whole, states = [], []
    for _ in range(3):
        with ds.iterator() as it:
            states.append((json.dumps(it.state()), len(whole)))
            for batch in it:
                whole.append(batch)
                states.append((json.dumps(it.state()), len(whole)))
        states.pop()  # the end of an epoch: the next one begins
    for chosen in np.random.default_rng(0).permutation(len(states))[:50].tolist():
        state, step = states[chosen]
        with ds.iterator(state=json.loads(state)) as it:
            rest = [next(it) for _ in range(min(3, 24 - step % 24))]
        assert all(map(same, rest, whole[step:]))


def test_a_state_of_the_cpu_pipeline_continues_on_a_device():
    it = pipeline().iterator()
    first = next(it)
    rest = list(pipeline("cpu").iterator(state=it.state()))
    assert all(map(same, [first, *rest], pipeline("cpu")))


def outcomes(ds):
    """The elements, and the errors in their places."""
    it, found = iter(ds), []
    while True:
        try:
            found.append(next(it))
        except StopIteration:
            return found
        except hr.ElementError as error:
            found.append(error)


def test_a_bad_file_is_its_own_failure_with_the_record_named(tmp_path):
    files = list(pictures(8))
    files[5] = files[5][:100]
    path = tmp_path / "images.tfrecord"
    with hr.io.TFRecordWriter(str(path)) as out:
        for file in files:
            out.write(file)

    def decode(jpeg):
        return hr.image.resize(hr.image.decode_jpeg(jpeg, channels=3), (8, 8))

    found = outcomes(hr.TFRecordDataset(str(path)).map(decode, device="cpu"))
    here = outcomes(hr.TFRecordDataset(str(path)).map(decode))
    assert [isinstance(f, hr.ElementError) for f in found] == [n == 5 for n in range(8)]
    assert (found[5].operation, found[5].ordinal) == ("map", 5)
    assert "images.tfrecord" in str(found[5])
    assert found[5].provenance == here[5].provenance
    assert all(np.array_equal(a, b) for a, b in zip(found, here, strict=True) if not isinstance(a, hr.ElementError))


def test_failures_can_be_left_out_before_a_batch():
    files = list(pictures(6))
    files[2] = b"no image"
    ds = hr.Dataset.from_tensor_slices((files, np.arange(6))).random_map(augment, seed=1, device="cpu")
    (labels,) = (batch[1].tolist() for batch in ds.ignore_errors().batch(8))
    assert labels == [0, 1, 3, 4, 5]


@pytest.mark.parametrize(
    "follow",
    [
        lambda ds: ds.shuffle(4),
        lambda ds: ds.filter(lambda x: x > 1),
        lambda ds: ds.repeat(2),
        lambda ds: ds.cache(),
        lambda ds: ds.shard(2, 0),
        lambda ds: ds.padded_batch(2),
        lambda ds: hr.Dataset.zip(ds, ds),
        lambda ds: ds.concatenate(ds),
        lambda ds: ds.batch(2, collate_fn=list),
    ],
)
def test_an_operation_that_cannot_follow_is_refused_when_it_is_written(follow):
    ds = hr.Dataset.range(4).map(lambda x: x + 1, device="cpu")
    with pytest.raises(ValueError, match=r"cannot follow map\(device=\"cpu\"\) at .*test_device_map"):
        follow(ds)


def test_what_may_follow():
    ds = hr.Dataset.range(10).map(lambda x: x + 1, device="cpu")
    made = ds.enumerate().map(lambda i, x: x * i).take(7).prefetch(2).batch(3).take(2)
    assert [batch.tolist() for batch in made] == [[0, 2, 6], [12, 20, 30]]
    assert [batch.tolist() for batch in ds.batch(3).distribute(1, 2)] == [[4, 5, 6], [10]]


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda x: np.fft.fft(np.stack([x, x])), "fft has no form on a device"),
        (lambda x: x if x > 3 else -x, "branches on data at .*np.where"),
        (lambda x: x.astype(np.uint32) + np.uint32(1), "uint32, which PyTorch hardly computes with.*astype"),
        (lambda x: print(x), "cannot run on a device"),
    ],
)
def test_a_function_that_cannot_run_there_is_an_error_with_the_remedy(fn, said):
    with pytest.raises(DeviceError, match=said):
        hr.Dataset.range(4).map(fn, device="cpu")


def test_an_image_operation_without_a_form_is_named():
    ds = hr.Dataset.from_tensor_slices(np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(DeviceError, match=r"encode_jpeg has no form on a device: put it into a map without device="):
        ds.map(hr.image.encode_jpeg, device="cpu")


def test_places_computed_of_pixels_are_refused():
    ds = hr.Dataset.from_tensor_slices(np.zeros((2, 8, 8, 3), np.float32))

    def crop(image):
        top = hr.image.adjust_brightness(image, 0.1)[0, 0, 0].astype(np.int64)
        return hr.image.crop_to_bounding_box(image, top, 0, 2, 2)

    with pytest.raises(DeviceError, match=r"given a place or an amount that adjust_brightness computes of pixels"):
        ds.map(crop, device="cpu")


def test_places_may_be_data():
    images = np.arange(4 * 6 * 6 * 1).reshape(4, 6, 6, 1).astype(np.uint8)
    ds = hr.Dataset.from_tensor_slices((images, np.array([0, 1, 2, 3])))
    crop = lambda image, top: hr.image.crop_to_bounding_box(image, top // 2, top, 3, 2)  # noqa: E731
    assert all(np.array_equal(a, b) for a, b in zip(ds.map(crop, device="cpu"), ds.map(crop), strict=True))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"device": "cuda:x"}, "device must be"),
        ({"device": "tpu"}, "device must be"),
        ({"device": "cpu", "num_parallel_calls": 4}, "num_parallel_calls=4 has no meaning with device="),
        ({"device": "cpu", "mode": "eager"}, "mode='eager' has no meaning"),
        ({"approximate": True}, "only with device="),
    ],
)
def test_arguments_that_make_no_sense_are_refused(named, said):
    with pytest.raises(ValueError, match=said):
        hr.Dataset.range(3).map(lambda x: x, **named)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_error_at_once():
    with pytest.raises(ValueError, match="has no CUDA here"):
        hr.Dataset.range(3).map(lambda x: x, device="cuda")


def test_maps_on_two_devices_are_refused():
    ds = hr.Dataset.range(3).map(lambda x: x, device="auto")
    with pytest.raises(ValueError, match="elements stay on one device"):
        ds.map(lambda x: x, device="cpu")


def test_text_and_constants_travel_beside():
    ds = hr.Dataset.from_tensor_slices((["a", "b", "c"], [1, 2, 3])).map(lambda s, x: (s, x * 2, 7, "k"), device="cpu")
    assert list(ds) == [("a", 2, 7, "k"), ("b", 4, 7, "k"), ("c", 6, 7, "k")]
    ((text, doubled, seven, k),) = ds.batch(3).to_torch()
    assert (text, doubled.tolist(), seven.tolist(), k) == (["a", "b", "c"], [2, 4, 6], [7, 7, 7], ["k"] * 3)


def test_a_result_shares_no_memory_with_the_source():
    source = np.arange(6.0).reshape(3, 2)
    ds = hr.Dataset.from_tensor_slices(source).map(lambda x: (x, x, x.reshape(2, 1)), device="cpu").batch(3)
    for batch in ds.to_torch():
        for tensor in batch:
            tensor.add_(1)
    ((first, second, third),) = ds
    assert source.tolist() == first.tolist() == second.tolist() == third[..., 0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_an_array_around_the_function_is_read_anew():
    table = np.array([10.0, 20.0, 30.0])
    ds = hr.Dataset.from_tensor_slices([0, 2, 1]).map(lambda i: table[i], device="cpu")
    assert list(ds) == [10, 30, 20]
    table[0] = 11
    assert list(ds) == [11, 30, 20]


def test_an_index_beyond_the_table_fails_by_itself():
    table = np.array([10.0, 20.0])
    found = outcomes(hr.Dataset.from_tensor_slices([0, 5, 1]).map(lambda i: table[i], device="cpu"))
    assert [found[0], found[2]] == [10, 20]
    assert isinstance(found[1].__cause__, IndexError)


def test_raw_bytes_of_a_length_that_the_rows_tell():
    rows = [np.full(12, n, np.uint8).tobytes() for n in range(5)]
    decode = lambda row: hr.io.decode_raw(row, np.uint8).reshape(3, 4).astype(np.float32) / 2  # noqa: E731
    ds = hr.Dataset.from_tensor_slices(rows)
    assert all(np.array_equal(a, b) for a, b in zip(ds.map(decode, device="cpu"), ds.map(decode), strict=True))
    plain = lambda row: hr.io.decode_raw(row, np.uint8) * np.uint8(2)  # noqa: E731
    assert all(np.array_equal(a, b) for a, b in zip(ds.map(plain, device="cpu"), ds.map(plain), strict=True))


def test_batches_that_differ_in_size_are_cut_when_they_come():
    ds = hr.Dataset.range(7).batch(3)
    here, there = (ds.map(lambda x: x * 2 + x.sum(), device=device) for device in (None, "cpu"))
    assert [b.tolist() for b in there] == [b.tolist() for b in here]


def test_explain_shows_the_cut():
    text = str(pipeline("cpu").explain())
    assert "the plan is cut here: the CPU runs decode_jpeg, rng.random, less, rng.uniform; " in " ".join(text.split())
    assert "from_device at the end" in text


def test_stats_count_the_device():
    it = iter(pipeline("cpu"))
    for _ in it:
        pass
    (stage,) = [s for s in it.stats()["stages"] if "device" in s]
    told = stage["device"]
    assert told["device"] == "cpu"
    assert told["batches"] >= 1
    assert told["moved_bytes"] > 24 * 30 * 30 * 3
    assert told["device_s"] > 0
    assert told["most_held_bytes"] > 0
    assert any(name.endswith("/device/moved_bytes") for name in it.stats().scalars())


def test_an_option_bounds_how_many_rows_run_at_a_time(monkeypatch):
    rows = []
    ds = hr.Dataset.from_tensor_slices(np.zeros((64, 1000), np.float32)).map(lambda x: x + 1, device="cpu")
    seen = type(ds._node.programs).run

    def run(self, machine, block, *rest):
        rows.append(block.rows)
        return seen(self, machine, block, *rest)

    monkeypatch.setattr(type(ds._node.programs), "run", run)
    small = ds.with_options(hr.Options(device_memory=WORKING_COPIES * 4000 * 4)).batch(32)
    assert [b.shape for b in small] == [(32, 1000)] * 2
    assert max(rows[1:]) <= 4
    assert sum(rows) == 64


@pytest.mark.parametrize(
    ("want", "most", "part"), [(256, 222, 128), (256, 256, 256), (32, 4, 4), (5, 256, 5), (7, 3, 3)]
)
def test_rows_that_do_not_fit_run_in_equal_parts(want, most, part):
    assert _even_part(want, most) == part


def test_a_full_device_keeps_the_place(monkeypatch):
    ds = hr.Dataset.range(6).map(lambda x: x * 3, device="cpu").batch(2)
    expected = [b.tolist() for b in ds]
    it = ds.with_options(hr.Options(inject_prefetch=False)).iterator()
    got = [next(it).tolist()]
    put = Machine.put

    def full(self, array):
        raise torch.OutOfMemoryError("Tried to allocate 2 GiB. GPU 0 has")

    monkeypatch.setattr(Machine, "put", full)
    with pytest.raises(DeviceMemoryError, match=r"make batches smaller.*The position is kept"):
        next(it)
    monkeypatch.setattr(Machine, "put", put)
    assert [*got, *(b.tolist() for b in it)] == expected


PROCESS = """
import json, sys
import numpy as np
import headrace as hr
rank = int(sys.argv[1])
ds = hr.Dataset.from_tensor_slices(np.arange(240.0).reshape(40, 6)).shuffle(40, seed=3)
ds = ds.random_map(lambda x, rng: x * 2 + rng.random(), seed=5, device="cpu").batch(4)
feed = ds.to_torch(shard=(2, rank))
print(json.dumps([batch.tolist() for batch in feed]))
"""


def test_two_processes_with_a_device_each_share_an_epoch():
    runs = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    shares = [json.loads(run.communicate(timeout=300)[0]) for run in runs]
    ds = hr.Dataset.from_tensor_slices(np.arange(240.0).reshape(40, 6)).shuffle(40, seed=3)
    whole = ds.random_map(lambda x, rng: x * 2 + rng.random(), seed=5).batch(4)
    dealt = [batch for pair in zip(*shares, strict=True) for batch in pair]
    assert dealt == [batch.tolist() for batch in whole]
