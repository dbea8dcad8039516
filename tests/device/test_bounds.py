"""How far results of `map(device="cpu")` are from those of the CPU path, by operation: the table of docs/device.md."""

from functools import partial

import numpy as np
import pytest
from tests.device.changes import CHANGES, DRAWN, FLOATS_ONLY, bounds, dataset, images, levels

import headrace as hr
from headrace.device.forms import FORMS
from headrace.device.programs import Programs

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small operations on several threads wait for the slowest of them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


ARITHMETIC = {"add", "subtract", "multiply", "true_divide", "astype"}


def largest_difference(ds, name, change):
    mapped = partial(ds.random_map, change, seed=4) if name in DRAWN else partial(ds.map, change)
    there, here = list(mapped(device="cpu")), list(mapped())
    assert len(there) == len(here) == 12
    floats = ds.element_spec.dtype.kind == "f" or name == "convert_image_dtype"
    return max(levels(a, b, scale=255 if floats else 1) for a, b in zip(there, here, strict=True))


@pytest.mark.parametrize("name", [*CHANGES, *DRAWN])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_results_are_within_the_stated_bound(name, dtype):
    change = (CHANGES | DRAWN)[name]
    assert largest_difference(dataset(dtype), name, change) <= bounds()[name.partition(" ")[0]]


@pytest.mark.parametrize("name", FLOATS_ONLY)
def test_results_of_floats_are_within_the_stated_bound(name):
    assert largest_difference(dataset(np.float32), name, FLOATS_ONLY[name]) <= bounds()[name]


@pytest.mark.parametrize("magnitude", [0, 9, 30])
def test_images_augmented_at_random_are_within_the_stated_bound(magnitude):
    change = partial(hr.image.rand_augment, num_ops=3, magnitude=magnitude, fill=7)
    ds = dataset().repeat(8)
    there, here = list(ds.random_map(change, seed=4, device="cpu")), list(ds.random_map(change, seed=4))
    differ = [np.abs(a.astype(int) - b) > bounds()["rand_augment"] for a, b in zip(there, here, strict=True)]
    assert len(differ) == 96
    assert max(each.mean() for each in differ) <= 0.01  # positions midway between pixels


def test_what_rand_augment_refuses_is_refused_on_a_device():
    ds = dataset(np.float32).random_map(hr.image.rand_augment, seed=1, device="cpu")
    with pytest.raises(hr.ElementError, match="rand_augment works on uint8, not float32"):
        next(iter(ds))
    with pytest.raises(hr.ElementError, match="magnitude must be between 0 and 30, not 31"):
        next(iter(dataset().random_map(partial(hr.image.rand_augment, magnitude=31), seed=1, device="cpu")))


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_mixed_batches_are_within_the_stated_bound(name):
    mix = getattr(hr.image, name)
    ds = hr.Dataset.zip(dataset(even=True), hr.Dataset.range(12)).batch(4, drop_remainder=True)
    fn = lambda images, labels, rng: mix(images, labels, rng, num_classes=12)  # noqa: E731
    pairs = zip(ds.random_map(fn, seed=2, device="cpu"), ds.random_map(fn, seed=2), strict=True)
    for (images_there, labels_there), (images_here, labels_here) in pairs:
        assert levels(images_there, images_here, scale=1) <= bounds()[name]
        assert np.array_equal(labels_there, labels_here)


def test_jpegs_are_decoded_to_the_same_pixels():
    files = [hr.image.encode_jpeg(image) for image in images(np.uint8)]
    ds = hr.Dataset.from_tensor_slices(files)
    for how in ({}, {"dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}):
        decode = partial(hr.image.decode_jpeg, channels=3, **how)
        assert all(np.array_equal(a, b) for a, b in zip(ds.map(decode, device="cpu"), ds.map(decode), strict=True))
    assert bounds()["decode_jpeg"] == 0


def test_every_operation_with_a_form_is_in_the_table():
    inner = {
        "augment_by_draws",
        "crop_by_draws",
        "resized_crop_by_draws",
        "flip_if",
        "crop_to_window",
        "mixup_by_draw",
        "cutmix_by_draws",
    }
    assert Programs
    assert set(FORMS) - inner - ARITHMETIC - set(bounds()) == set()
    assert bounds().keys() >= {name.partition(" ")[0] for name in CHANGES | DRAWN | FLOATS_ONLY}
