"""How far results of `map(device="cpu")` are from those of the CPU path, by operation: the table of docs/device.md."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

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


TABLE = Path(__file__).parents[2] / "docs" / "device.md"
ROW = re.compile(r"^\| `([\w.]+)` \|[^|]*\| ([\d.]+) \|", re.M)
ARITHMETIC = {"add", "subtract", "multiply", "true_divide", "astype"}


def bounds():
    """The bounds that the documentation states: levels of 255 by operation."""
    return {name: float(bound) for name, bound in ROW.findall(TABLE.read_text(encoding="utf-8"))}


def images(dtype, count=12, *, even=False):
    rng = np.random.default_rng(5)
    made = []
    for i in range(count):
        height, width = (40, 56) if even else rng.integers(33, 70, 2)
        y, x = np.mgrid[:height, :width]
        colours = [np.sin(x / 5 + i) * 100 + 120, np.cos(y / 3) * 90 + 130, rng.integers(0, 256, (height, width))]
        image = np.stack(colours, -1).astype(np.uint8)
        made.append(image if dtype == np.uint8 else hr.image.convert_image_dtype(image, dtype))
    return made


def dataset(dtype=np.uint8, *, even=False):
    rows = [hr.image.encode_png(image) for image in images(np.uint8, even=even)]
    ds = hr.Dataset.from_tensor_slices(rows).map(partial(hr.image.decode_png, channels=3))
    return ds if dtype == np.uint8 else ds.map(lambda image: hr.image.convert_image_dtype(image, np.float32))


i = hr.image
CHANGES = {
    "flip_left_right": i.flip_left_right,
    "flip_up_down": i.flip_up_down,
    "rot90": lambda image: i.rot90(image, 3),
    "transpose": i.transpose,
    "central_crop": lambda image: i.central_crop(image, 0.6),
    "crop_to_bounding_box": lambda image: i.crop_to_bounding_box(image, 3, 4, 20, 24),
    "pad_to_bounding_box": lambda image: i.pad_to_bounding_box(image, 3, 4, 80, 90),
    "resize_with_crop_or_pad": lambda image: i.resize_with_crop_or_pad(image, 50, 40),
    "resize": lambda image: i.resize(image, (24, 31)),
    "resize (antialias)": lambda image: i.resize(image, (24, 31), antialias=True),
    "resize (other methods)": lambda image: i.resize(image, (24, 31), method="bicubic"),
    "resize (area)": lambda image: i.resize(image, (24, 31), method="area"),
    "resize (bytes)": lambda image: i.resize(image, (24, 31), dtype=np.uint8),
    "resize (nearest)": lambda image: i.resize(image, (24, 31), method="nearest"),
    "resize_with_pad": lambda image: i.resize_with_pad(image, 30, 44),
    "rgb_to_grayscale": i.rgb_to_grayscale,
    "grayscale_to_rgb": lambda image: i.grayscale_to_rgb(i.rgb_to_grayscale(image)),
    "adjust_gamma": lambda image: i.adjust_gamma(image, 0.7, 1.1),
    "adjust_brightness": lambda image: i.adjust_brightness(image, 0.11),
    "adjust_contrast": lambda image: i.adjust_contrast(image, 1.3),
    "adjust_saturation": lambda image: i.adjust_saturation(image, 1.4),
    "adjust_hue": lambda image: i.adjust_hue(image, 0.2),
    "convert_image_dtype": lambda image: i.convert_image_dtype(image, np.float32),
    "per_image_standardization": i.per_image_standardization,
}
DRAWN = {
    "random_crop": lambda image, rng: i.random_crop(image, (20, 24), rng),
    "random_resized_crop": lambda image, rng: i.random_resized_crop(image, (20, 24), rng),
    "random_resized_crop (bytes)": lambda image, rng: i.random_resized_crop(image, (20, 24), rng, dtype=np.uint8),
    "random_flip_left_right": i.random_flip_left_right,
    "random_flip_up_down": i.random_flip_up_down,
    "random_brightness": lambda image, rng: i.random_brightness(image, 0.3, rng),
    "random_contrast": lambda image, rng: i.random_contrast(image, 0.5, 1.5, rng),
    "random_saturation": lambda image, rng: i.random_saturation(image, 0.5, 1.5, rng),
    "random_hue": lambda image, rng: i.random_hue(image, 0.2, rng),
}
FLOATS_ONLY = {
    "rgb_to_hsv": i.rgb_to_hsv,
    "hsv_to_rgb": lambda image: i.hsv_to_rgb(i.rgb_to_hsv(image)),
}


def levels(ours, theirs, *, scale):
    """The largest difference in levels of 255."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0)) * scale


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
