"""Maps with device="auto" before to_jax(), on eight CPU devices: run by test_jax_on_device.py in its own process."""

import json
from functools import cache, partial

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import headrace as hr
from headrace.device.on_jax import program
from headrace.device.on_jax.forms import JAX_FORMS
from headrace.device.program import DeviceError
from tests.device.changes import CHANGES, DRAWN, FLOATS_ONLY, dataset, jax_bounds, levels

D = hr.Dataset
JAX_CHANGES = {**CHANGES, "grayscale_to_rgb": lambda image: hr.image.grayscale_to_rgb(image[..., :1]), **DRAWN}


def spread(*axes, count=8):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("data",)), PartitionSpec(*axes))


@cache
def pictures(count=32):
    rng = np.random.default_rng(1)
    sizes = rng.integers(30, 60, (count, 2))
    return tuple(hr.image.encode_jpeg(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in sizes)


def augment(jpeg, label, rng):
    image = hr.image.decode_jpeg(jpeg, channels=3)
    image = hr.image.random_resized_crop(image, (16, 16), rng)
    image = hr.image.random_flip_left_right(image, rng)
    image = hr.image.random_hue(image / np.float32(255), 0.1, rng)
    return (image - np.float32(0.5)) / np.float32(0.25), label


def pipeline(device="auto", size=8):
    ds = D.from_tensor_slices((list(pictures()), np.arange(32, dtype=np.int32))).shuffle(32, seed=2)
    return ds.random_map(augment, seed=7, device=device).batch(size)


def arrays(batches):
    return [[np.asarray(leaf) for leaf in batch] for batch in batches]


def same(ours, theirs):
    return all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def outcomes(feed):
    """The elements, and the errors in their places."""
    it, found = iter(feed), []
    while True:
        try:
            found.append(next(it))
        except StopIteration:
            return found
        except hr.ElementError as error:
            found.append(error)


@pytest.mark.parametrize("size", [8, 5])
def test_a_pipeline_of_jpegs_gives_what_it_gives_without_a_device(size):
    here, feed = list(pipeline(None, size)), pipeline(size=size).to_jax()
    there = list(feed)
    assert all(isinstance(x, jax.Array) for batch in there for x in batch)
    for (images, labels), (plain_images, plain_labels) in zip(arrays(there), here, strict=True):
        assert np.array_equal(labels, plain_labels)
        assert levels(images, plain_images, scale=255 / 4) <= jax_bounds()["adjust_hue"]


@pytest.mark.parametrize("sizes", [(40, 56), (40, 56, 33)])
def test_images_whose_size_is_unknown_are_resized_on_the_cpu(sizes):
    """Even if those of one block happen to have one size."""
    rng = np.random.default_rng(2)
    files = [hr.image.encode_png(rng.integers(0, 256, (size, 40, 3), dtype=np.uint8)) for size in sizes * 3]

    def change(file, rng):
        image = hr.image.adjust_hue(hr.image.decode_png(file, channels=3), 0.1)
        return hr.image.random_flip_left_right(hr.image.resize(image, (20, 24)), rng)

    ds = D.from_tensor_slices(files)
    there = ds.random_map(change, seed=3, device="auto").batch(2, drop_remainder=True).to_jax()
    assert "JAX runs flip_if," in " ".join(str(there.explain()).split())
    here = ds.random_map(change, seed=3).batch(2, drop_remainder=True)
    assert all(np.array_equal(a, b) for a, b in zip(there, here, strict=True))


def test_batches_are_computed_on_the_device_that_is_wanted():
    for feed, want in (
        (pipeline().to_jax(), jax.devices()[0]),
        (pipeline().to_jax(device=jax.devices()[3]), jax.devices()[3]),
    ):
        assert {d for batch in feed for x in batch for d in x.devices()} == {want}
    with jax.default_device(jax.devices()[2]):
        feed = pipeline().to_jax(prefetch=2)
    assert {d for batch in feed for x in batch for d in x.devices()} == {jax.devices()[2]}


def test_batches_are_computed_on_eight_devices(monkeypatch):
    seen = []
    done = program.JaxMachine.done

    def note(self, made):
        seen.extend(value.sharding.device_set for value in made.values())
        return done(self, made)

    monkeypatch.setattr(program.JaxMachine, "done", note)
    made = list(pipeline().to_jax(sharding=spread("data")))
    assert {len(devices) for devices in seen} == {8}
    for images, labels in made:
        assert images.sharding == labels.sharding == spread("data")
        assert [s.data.shape for s in images.addressable_shards] == [(1, 16, 16, 3)] * 8
    for (images, labels), (plain_images, plain_labels) in zip(arrays(made), pipeline(None), strict=True):
        assert np.array_equal(labels, plain_labels)
        assert levels(images, plain_images, scale=255 / 4) <= jax_bounds()["adjust_hue"]


def test_a_sharding_for_each_component():
    images, labels = next(iter(pipeline().to_jax(sharding=(spread("data"), spread()))))
    assert [s.data.shape for s in images.addressable_shards] == [(1, 16, 16, 3)] * 8
    assert [s.data.shape for s in labels.addressable_shards] == [(8,)] * 8


def test_a_last_batch_that_cannot_be_spread_says_what_to_do():
    feed = pipeline(size=24).to_jax(sharding=spread("data", count=3))
    found = outcomes(feed)
    assert found[0][0].shape == (24, 16, 16, 3)
    assert "drop_remainder" in str(found[1])
    assert len(list(pipeline().take(3).to_jax(sharding=spread("data")))) == 3


def test_one_function_is_compiled_for_a_pipeline_and_a_batch_size(monkeypatch):
    compiled = []
    compile_one = program.JaxProgram._compile

    def count(self, machine):
        made = compile_one(self, machine)
        compiled.append(made)
        return made

    monkeypatch.setattr(program.JaxProgram, "_compile", count)
    ds = pipeline(size=5)
    for _ in range(3):
        assert [len(images) for images, _ in ds.to_jax()] == [5] * 6 + [2]
    assert [made._cache_size() for made in compiled] == [1]


@pytest.mark.parametrize("sharding", [None, spread("data")])
def test_it_resumes_at_random_steps_with_the_same_bits(sharding):
    whole, states = [], []
    feed = pipeline().to_jax(sharding=sharding)
    for _ in range(3):
        with iter(feed) as it:
            for batch in it:
                whole.append(batch)
                states.append(json.dumps(it.state_dict()))
    whole = arrays(whole)
    assert not same(whole[:4], whole[4:8])
    for step in np.random.default_rng(0).permutation(len(states))[:8].tolist():
        again = pipeline().to_jax(sharding=sharding)
        again.load_state_dict(json.loads(states[step]))
        assert same(arrays(again), whole[step + 1 : step // 4 * 4 + 4])


def test_a_state_of_the_pipeline_without_a_device_continues_by_jax():
    feed = pipeline(None).to_jax()
    with iter(feed) as it:
        next(it)
    there = pipeline().to_jax()
    there.load_state_dict(feed.state_dict())
    assert same(arrays(there), arrays(pipeline().to_jax())[1:])


def test_the_draws_are_those_of_the_cpu_in_every_epoch():
    def draw(x, rng):
        return rng.integers(0, 100) * np.int32(1), rng.random(3).astype(np.float32) * np.float32(2), rng.bernoulli(0.3)

    ds = D.range(40).map(np.int32)
    here, there = ds.random_map(draw, seed=1).batch(8), ds.random_map(draw, seed=1, device="auto").batch(8).to_jax()
    for _ in range(2):
        for a, b in zip(arrays(there), arrays(here), strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def by_jax(ds, fn, *, draws=False, size=4):
    mapped = partial(ds.random_map, fn, seed=4) if draws else partial(ds.map, fn)
    there = mapped(device="auto").batch(size).to_jax()
    return [np.asarray(batch) for batch in there], list(mapped().batch(size))


@pytest.mark.parametrize("name", JAX_CHANGES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_within_the_stated_bound(name, dtype):
    ds = D.from_tensor_slices(np.stack(list(dataset(dtype, even=True))))
    there, here = by_jax(ds, JAX_CHANGES[name], draws=name in DRAWN, size=5)
    floats = dtype == np.float32 or name == "convert_image_dtype"
    for a, b in zip(there, here, strict=True):
        assert levels(a, b, scale=255 if floats else 1) <= jax_bounds()[name.partition(" ")[0]]


@pytest.mark.parametrize("name", FLOATS_ONLY)
def test_images_of_floats_are_within_the_stated_bound(name):
    ds = D.from_tensor_slices(np.stack(list(dataset(np.float32, even=True))))
    for a, b in zip(*by_jax(ds, FLOATS_ONLY[name]), strict=True):
        assert levels(a, b, scale=255) <= jax_bounds()[name]


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
@pytest.mark.parametrize("numbers", [True, False])
def test_mixed_batches_are_within_the_stated_bound(name, numbers):
    images = np.stack(list(dataset(even=True)))
    labels = np.arange(12) if numbers else np.eye(12, dtype=np.float32)
    ds = D.from_tensor_slices((images, labels)).batch(4, drop_remainder=True)
    fn = lambda x, y, rng: getattr(hr.image, name)(x, y, rng, num_classes=12)  # noqa: E731
    pairs = zip(ds.random_map(fn, seed=2, device="auto").to_jax(), ds.random_map(fn, seed=2), strict=True)
    for there, (images_here, labels_here) in pairs:
        images_there, labels_there = (np.asarray(x) for x in there)
        assert levels(images_there, images_here, scale=1) <= jax_bounds()[name]
        assert np.abs(labels_there - labels_here).max() < 1e-6


TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)
MATRIX = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def assigned(x):
    made = x.copy()
    made[1:, 0] = 7
    return made


ARITHMETIC = {
    "elementwise": lambda x: np.sqrt(np.abs(x)) + x**2 - np.exp(-x) * 3,
    "integers": lambda x: (x * 10).astype(np.int32) // 3 % 4,
    "bytes wrap": lambda x: (x * 100 + 128).astype(np.uint8) + np.uint8(200),
    "floats to bytes": lambda x: (x * 300).astype(np.uint8),
    "comparisons": lambda x: np.where((x > 0) & ~(x > 1), x, np.float32(-1)),
    "clip": lambda x: np.clip(x, -0.5, 0.5),
    "reductions": lambda x: np.stack([x.sum(), x.mean(), x.max(), x.std(), x.prod(), np.add.reduce(x, None)]),
    "axes": lambda x: x.mean(0, keepdims=True) + x.sum(1, keepdims=True) + x.var(axis=(0, 1)),
    "arguments of extremes": lambda x: x.argmax(0) + x.argmin(),
    "any and all": lambda x: (x > 0).any(1) & (x < 3).all(),
    "shapes": lambda x: x.reshape(2, 2, 3).transpose(2, 0, 1)[:, ::-1, None, 1],
    "indices": lambda x: x[[2, 0]][:, np.array([True, False, True])],
    "turned": lambda x: np.flip(np.roll(x.T, 1, 0), 1),
    "padded": lambda x: np.pad(x, ((1, 0), (2, 1)), mode="reflect"),
    "filled": lambda x: np.pad(x, 1, constant_values=5),
    "joined": lambda x: np.concatenate([x, x * 2, np.ones((1, 3), np.float32)]),
    "repeated": lambda x: np.repeat(np.tile(x, (1, 2)), 2, axis=0),
    "assigned": assigned,
    "product": lambda x: x @ MATRIX.T @ MATRIX,
    "array of numbers": lambda x: np.array([x[0, 0], 2, x[1, 1]]),
    "half": lambda x: x.astype(np.float16) * np.float16(2),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_that_of_numpy(name):
    rows = np.random.default_rng(3).normal(size=(10, 4, 3)).astype(np.float32)
    there, here = by_jax(D.from_tensor_slices(rows), ARITHMETIC[name])
    for a, b in zip(there, here, strict=True):
        assert (a.shape, a.dtype) == (b.shape, jax.dtypes.canonicalize_dtype(b.dtype))
        assert np.allclose(a, b, rtol=1e-3 if name == "half" else 1e-5, atol=1e-6)


@pytest.mark.parametrize("find", [lambda i: TABLE[i], lambda i: np.take(TABLE, i, axis=0), lambda i: TABLE[i - 1 + 1]])
def test_lookups(find):
    there, here = by_jax(D.from_tensor_slices([0, 5, -1, 3, 2]), lambda i: find(i) * np.float32(2))
    assert all(np.array_equal(a, b) for a, b in zip(there, here, strict=True))


def test_an_index_beyond_the_table_is_the_failure_of_its_element():
    ds = D.from_tensor_slices([0, 9, 1]).map(lambda i: TABLE[i], device="auto")
    found = outcomes(ds.to_jax())
    assert isinstance(found[1].__cause__, IndexError)
    assert found[1].ordinal == 1
    assert [found[0].tolist(), found[2].tolist()] == [[0, 1], [2, 3]]


def test_a_bad_file_is_its_own_failure():
    files = list(pictures(8))
    files[2] = files[2][:100]
    ds = D.from_tensor_slices((files, np.arange(8))).random_map(augment, seed=1, device="auto")
    assert [isinstance(f, hr.ElementError) for f in outcomes(ds.to_jax())] == [n == 2 for n in range(8)]
    (labels,) = (batch[1].tolist() for batch in ds.ignore_errors().batch(8).to_jax())
    assert labels == [0, 1, 3, 4, 5, 6, 7]


def test_what_may_follow():
    ds = D.from_tensor_slices(np.arange(10, dtype=np.float32)).map(lambda x: x + 1, device="auto")
    made = ds.enumerate().map(lambda i, x: x * i.astype(np.float32)).take(7).prefetch(2).batch(3).take(2)
    assert [batch.tolist() for batch in made.to_jax()] == [[0, 2, 6], [12, 20, 30]]


def test_processes_share_an_epoch():
    ds = D.from_tensor_slices(np.arange(20, dtype=np.float32)).shuffle(20, seed=1)
    ds, plain = ds.map(lambda x: x * 2, device="auto"), ds.map(lambda x: x * 2)
    for rank in (0, 1):
        feed = ds.distribute(rank, 2, batch_size=5).to_jax()
        assert "5 rows at a time" in " ".join(str(feed.explain()).split())
        assert [b.tolist() for b in feed] == [b.tolist() for b in plain.distribute(rank, 2, batch_size=5)]
        shared = ds.batch(5).to_jax(shard=(2, rank))
        assert [b.tolist() for b in shared] == [b.tolist() for b in plain.batch(5).to_jax(shard=(2, rank))]


def test_an_array_around_the_function_is_read_anew():
    table = np.array([10.0, 20.0, 30.0], np.float32)
    ds = D.from_tensor_slices([0, 2, 1]).map(lambda i: table[i], device="auto").batch(3)
    assert [b.tolist() for b in ds.to_jax()] == [[10, 30, 20]]
    table[0] = 11
    assert [b.tolist() for b in ds.to_jax()] == [[11, 30, 20]]


def test_a_result_shares_no_memory_with_the_source():
    source = np.arange(4096, dtype=np.float32).reshape(4, 1024)
    ds = D.from_tensor_slices(source).map(lambda x: (x, x.reshape(1024) + 0, x.astype(np.float32)), device="auto")
    batch = next(iter(ds.batch(4).to_jax()))
    source[:] = -1
    assert all(float(np.asarray(x).min()) == 0 for x in batch)


def test_64_bits_become_32():
    ds = D.range(4).map(lambda x: (x * 2, x / 3), device="auto").batch(4)
    ((doubled, third),) = ds.to_jax()
    assert (doubled.dtype, third.dtype) == (np.int32, np.float32)
    assert np.allclose(third, np.arange(4) / 3)


def test_text_is_refused_with_the_remedy():
    ds = D.from_tensor_slices((["a", "b"], [1, 2])).map(lambda s, x: (s, x * 2), device="auto")
    with pytest.raises(TypeError, match=r"component\[0\] is text, which JAX does not have: leave it out"):
        ds.batch(2).to_jax()
    assert [x.tolist() for x in ds.map(lambda s, x: x + 1).batch(2).to_jax()] == [[3, 5]]
    with pytest.raises(TypeError, match="is text, which JAX does not have"):
        list(D.from_tensor_slices([1, 2]).map(lambda x: (x * 2, "k"), device="auto").batch(2).to_jax())


IMAGES = np.zeros((4, 8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("ds", "said"),
    [
        (
            D.from_tensor_slices(IMAGES).random_map(hr.image.rand_augment, seed=1, device="auto"),
            "augment_by_draws has no form by JAX: put it into a map without device= before",
        ),
        (
            D.from_tensor_slices(IMAGES.astype(np.int32)).map(hr.image.rgb_to_grayscale, device="auto"),
            "images of int32 have no form by JAX",
        ),
        (
            D.from_tensor_slices(IMAGES).batch(3).map(lambda x: x.astype(np.float32) / 255, device="auto"),
            "drop_remainder=True",
        ),
        (
            D.from_tensor_slices(list(pictures(4))).map(hr.image.decode_jpeg, device="auto").map(hr.image.rot90),
            "rot90 stays on the CPU with all the rest, because the sizes of its rows are not known.*resize images",
        ),
        (
            D.from_tensor_slices(IMAGES).random_map(
                lambda x, rng: hr.image.random_resized_crop(hr.image.adjust_hue(x, 0.1), (4, 4), rng),
                seed=1,
                device="auto",
            ),
            "resized_crop_by_draws runs on the CPU, and reads what adjust_hue makes on the device",
        ),
    ],
)
def test_what_cannot_run_is_an_error_with_the_remedy(ds, said):
    with pytest.raises(DeviceError, match=said):
        ds.batch(2).to_jax()


def test_what_jax_itself_refuses_names_the_operation():
    grey = D.from_tensor_slices(IMAGES[..., :1]).map(lambda x: hr.image.grayscale_to_rgb(x)[..., :1], device="auto")
    assert next(iter(grey.batch(2).to_jax())).shape == (2, 8, 8, 1)
    ds = D.from_tensor_slices(IMAGES[..., :2]).map(lambda x: hr.image.adjust_hue(x, 0.1), device="auto")
    with pytest.raises((DeviceError, hr.ElementError), match="needs images of three channels"):
        next(iter(ds.batch(2).to_jax()))


def test_explain_and_stats_show_the_cut():
    feed = pipeline().to_jax()
    text = " ".join(str(feed.explain()).split())
    assert "the plan is cut here: the CPU runs decode_jpeg, rng.random, resized_crop_by_draws" in text
    assert "JAX runs flip_if, true_divide, adjust_hue, subtract, 8 rows at a time" in text
    it = iter(feed)
    list(it)
    (stage,) = [s for s in it.stats()["stages"] if "device" in s]
    assert stage["device"]["batches"] == 4
    assert stage["device"]["moved_bytes"] >= 32 * 16 * 16 * 3


def test_a_full_device_keeps_the_place(monkeypatch):
    ds = D.from_tensor_slices(np.arange(6, dtype=np.float32)).map(lambda x: x * 3, device="auto").batch(2)
    it = iter(ds.to_jax(prefetch=0))
    got = [next(it).tolist()]
    put = program.JaxMachine.put_rows

    def full(self, array):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 2 GiB. more")

    monkeypatch.setattr(program.JaxMachine, "put_rows", full)
    with pytest.raises(Exception, match=r"make batches smaller.*The position is kept"):
        next(it)
    monkeypatch.setattr(program.JaxMachine, "put_rows", put)
    assert [*got, *(b.tolist() for b in it)] == [[0, 3], [6, 9], [12, 15]]


def test_every_form_is_in_the_table_and_the_table_has_no_other():
    inner = {"crop_by_draws", "flip_if", "mixup_by_draw", "cutmix_by_draws"}
    drawn = {"mixup", "cutmix", *(name.partition(" ")[0] for name in DRAWN)}
    assert JAX_FORMS.keys() - inner == jax_bounds().keys() - drawn - {"decode_jpeg"}


def test_raw_bytes_of_a_length_that_the_rows_tell():
    rows = [np.full(12, n, np.uint8).tobytes() for n in range(5)]
    decode = lambda row: hr.io.decode_raw(row, np.uint8).reshape(3, 4).astype(np.float32) / 2  # noqa: E731
    there, here = by_jax(D.from_tensor_slices(rows), decode)
    assert all(np.array_equal(a, b) for a, b in zip(there, here, strict=True))


def test_elements_that_are_known_only_when_they_come_are_refused():
    ds = D.range(5).map(lambda n: np.zeros(2) + int(n), mode="eager").map(lambda x: x + 1, device="auto")
    with pytest.raises(DeviceError, match="give the source or the map before it an output_signature"):
        ds.to_jax()
