"""Random changes: drawn by key, so that threads, blocks, processes and resumes change nothing."""

import numpy as np
import pytest

import headrace as hr
from tests.image.pictures import picture, pictures

I = hr.image  # noqa: E741

CHANGES = {
    "random_flip_left_right": I.random_flip_left_right,
    "random_flip_up_down": I.random_flip_up_down,
    "random_crop": lambda x, rng: I.random_crop(x, (5, 4), rng),
    "random_resized_crop": lambda x, rng: I.random_resized_crop(x, (9, 7), rng),
    "random_brightness": lambda x, rng: I.random_brightness(x, 0.3, rng),
    "random_contrast": lambda x, rng: I.random_contrast(x, 0.5, 1.5, rng),
    "random_saturation": lambda x, rng: I.random_saturation(x, 0.5, 1.5, rng),
    "random_hue": lambda x, rng: I.random_hue(x, 0.2, rng),
    "several": lambda x, rng: I.random_hue(I.random_flip_left_right(I.random_crop(x, (5, 5), rng), rng), 0.1, rng),
}
SIZES = [(20, 30), (31, 17), (20, 31), (8, 8), (40, 25), (20, 30), (64, 48), (5, 90)] * 3


def varied():
    data = [I.encode_png(x) for x in pictures(SIZES)]
    return hr.Dataset.from_tensor_slices(data).map(I.decode_png)


def even():
    return hr.Dataset.from_tensor_slices(np.stack(pictures([(20, 30)] * 24)))


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("source", [varied, even])
def test_blocks_threads_and_resumes_change_nothing(name, source):
    fn = CHANGES[name]
    ds = source()
    plain = list(ds.random_map(fn, seed=3, mode="eager"))
    same(list(ds.random_map(fn, seed=3)), plain)
    same(list(ds.random_map(fn, seed=3, num_parallel_calls=3)), plain)
    again = ds.random_map(fn, seed=3, num_parallel_calls=2)
    it = again.iterator()
    for _ in range(7):
        next(it)
    state = it.state()
    it.close()
    same(list(again.iterator(state=state)), plain[7:])


@pytest.mark.parametrize("name", CHANGES)
def test_images_of_one_size_are_traced(name):
    assert "vectorised" in even().random_map(CHANGES[name], seed=1).explain()


def test_draws_differ_from_image_to_image_and_from_epoch_to_epoch():
    image = picture(20, 30)
    ds = hr.Dataset.from_tensor_slices(np.stack([image] * 40)).random_map(CHANGES["random_crop"], seed=1)
    first, second = ({x.tobytes() for x in ds} for _ in range(2))
    assert len(first) > 20
    assert first != second
    flipped = [
        np.array_equal(x, image)
        for x in hr.Dataset.from_tensor_slices(np.stack([image] * 200)).random_map(I.random_flip_left_right, seed=2)
    ]
    assert 70 < sum(flipped) < 130


def test_crops_come_from_everywhere():
    image = np.arange(36).reshape(6, 6, 1)
    ds = hr.Dataset.from_tensor_slices(np.stack([image] * 500)).random_map(
        lambda x, rng: I.random_crop(x, (3, 3), rng), seed=1
    )
    corners = {int(x[0, 0, 0]) for x in ds}
    assert corners == {6 * y + x for y in range(4) for x in range(4)}


def test_a_crop_larger_than_its_image_is_the_elements_error():
    ds = varied().random_map(lambda x, rng: I.random_crop(x, (16, 16), rng), seed=1)
    with pytest.raises(hr.ElementError, match="an image of 8 × 8 has no crop of 16 × 16"):
        list(ds)
    assert len(list(ds.ignore_errors())) == len([s for s in SIZES if min(s) >= 16])


def test_resized_crops_have_areas_and_ratios_as_asked():
    y, x = np.mgrid[:100, :120]
    image = np.stack([y, x], 2).astype(np.float32)
    ds = hr.Dataset.from_tensor_slices(np.stack([image] * 300)).random_map(
        lambda x, rng: I.random_resized_crop(x, (50, 50), rng, scale=(0.25, 0.5)), seed=1
    )
    spans = np.array([(x[-1, -1] - x[0, 0]) * 50 / 49 for x in ds])
    areas = spans.prod(1) / (100 * 120)
    ratios = spans[:, 1] / spans[:, 0]
    assert 0.22 < areas.min() < 0.3 and 0.45 < areas.max() < 0.53
    assert ratios.min() > 0.7 and ratios.max() < 1.4


def test_a_generator_of_numpy_will_do():
    rng = np.random.default_rng(0)
    assert all(CHANGES[name](picture(20, 30), rng).ndim == 3 for name in CHANGES)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, rng: I.random_brightness(x, -1, rng), "max_delta must not be negative"),
        (lambda x, rng: I.random_hue(x, 0.7, rng), "between 0 and 0.5"),
        (lambda x, rng: I.random_contrast(x, 2, 1, rng), "lower <= upper"),
    ],
)
def test_arguments_that_make_no_sense_are_told(call, said):
    with pytest.raises(ValueError, match=said):
        call(picture(3, 3), np.random.default_rng(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: I.random_flip_left_right(x),
        lambda x: I.random_flip_left_right(x, seed=3),
        lambda x: I.random_flip_left_right(x, 3),
        lambda x: I.random_brightness(x, max_delta=0.2, seed=1),
        lambda x: I.random_crop(value=x, size=[2, 2, 3]),
    ],
)
def test_without_a_generator_the_error_says_how_to_get_one(call):
    with pytest.raises(TypeError, match=r"random_map\(fn, seed=\.\.\.\).*hr\.image\.stateless_random_"):
        call(picture(4, 4))


def test_given_to_map_the_error_names_random_map():
    with pytest.raises(TypeError, match="random_map passes a generator"):
        hr.Dataset.from_tensors(picture(4, 4)).map(I.random_flip_up_down)
