"""Every operation gives a block of images what it gives each image, to the bit."""

import numpy as np
import pytest

import headrace as hr
from tests.image.pictures import SIZES, pictures

I = hr.image  # noqa: E741

OPERATIONS = {
    "resize": lambda x: I.resize(x, (12, 9)),
    "resize to fit": lambda x: I.resize(x, (12, 9), preserve_aspect_ratio=True),
    "resize nearest": lambda x: I.resize(x, (12, 9), "nearest"),
    "resize antialias": lambda x: I.resize(x, (12, 9), "bicubic", antialias=True),
    "resize area": lambda x: I.resize(x, (12, 9), "area"),
    "resize_with_pad": lambda x: I.resize_with_pad(x, 12, 9),
    "resize_with_crop_or_pad": lambda x: I.resize_with_crop_or_pad(x, 24, 24),
    "central_crop": lambda x: I.central_crop(x, 0.6),
    "crop_to_bounding_box": lambda x: I.crop_to_bounding_box(x, 1, 2, 3, 4),
    "pad_to_bounding_box": lambda x: I.pad_to_bounding_box(x, 1, 2, 70, 100),
    "flip_left_right": I.flip_left_right,
    "flip_up_down": I.flip_up_down,
    "rot90": I.rot90,
    "rot90 thrice": lambda x: I.rot90(x, 3),
    "transpose": I.transpose,
    "convert_image_dtype": lambda x: I.convert_image_dtype(x, np.float32),
    "adjust_brightness": lambda x: I.adjust_brightness(x, 0.2),
    "adjust_contrast": lambda x: I.adjust_contrast(x, 1.7),
    "adjust_saturation": lambda x: I.adjust_saturation(x, 0.3),
    "adjust_hue": lambda x: I.adjust_hue(x, -0.2),
    "adjust_gamma": lambda x: I.adjust_gamma(x, 0.7),
    "per_image_standardization": I.per_image_standardization,
    "rgb_to_grayscale": I.rgb_to_grayscale,
    "grayscale_to_rgb": lambda x: I.grayscale_to_rgb(I.rgb_to_grayscale(x)),
    "rgb_to_hsv and back": lambda x: I.hsv_to_rgb(I.rgb_to_hsv(I.convert_image_dtype(x, np.float32))),
    "encode_png": I.encode_png,
    "several": lambda x: I.flip_left_right(I.adjust_contrast(I.resize(x, (9, 9)), 2.0)) / np.float32(255),
}


def varied():
    """Images of many sizes, some blocks of which have one in common."""
    images = [image for image in pictures() if min(image.shape[:2]) >= 6] + pictures([(20, 30)] * 4)
    return hr.Dataset.from_generator(
        lambda: iter(images), output_signature=hr.TensorSpec((None, None, 3), np.uint8)
    ), images


def even():
    images = pictures([(20, 30)] * 7)
    return hr.Dataset.from_tensor_slices(np.stack(images)), images


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("source", [varied, even])
def test_a_block_of_images_is_what_each_would_be(name, source):
    fn = OPERATIONS[name]
    ds, images = source()
    ds = ds.prefetch(16).map(fn) if source is varied else ds.map(fn)
    made = list(ds)
    assert len(made) == len(images)
    for ours, image in zip(made, images, strict=True):
        alone = fn(image)
        np.testing.assert_array_equal(ours, alone)
        assert np.asarray(ours).dtype == np.asarray(alone).dtype


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fixed_size_is_traced(name):
    ds, _ = even()
    assert "vectorised" in ds.map(OPERATIONS[name]).explain()


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"encode_png", "resize to fit", "rot90 thrice"}))
def test_a_batch_is_what_its_images_are(name):
    fn = OPERATIONS[name]
    _, images = even()
    alone = np.stack([fn(image) for image in images])
    np.testing.assert_array_equal(fn(np.stack(images)), alone)
    (whole,) = list(hr.Dataset.from_tensor_slices(np.stack(images)).batch(7).map(fn))
    np.testing.assert_array_equal(whole, alone)


def test_what_is_no_image_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="height, width and channels"):
        I.resize(np.zeros((3, 3)), (2, 2))
    with pytest.raises(ValueError, match="height and a width"):
        I.resize(np.zeros((3, 3, 1)), 2)
    with pytest.raises(ValueError, match="'bilinear', 'bicubic'"):
        I.resize(np.zeros((3, 3, 1)), (2, 2), "best")
    with pytest.raises(ValueError, match="are not within an image of 3 × 3"):
        I.crop_to_bounding_box(np.zeros((3, 3, 1)), 2, 0, 2, 2)
    with pytest.raises(ValueError, match="three channels"):
        I.adjust_hue(np.zeros((3, 3, 1)), 0.1)


def test_a_number_of_numpy_and_a_captured_array_are_arguments_like_any():
    images = np.stack(pictures([(20, 30)] * 5))
    delta, array = np.float32(0.1), np.array(0.2)
    one = hr.Dataset.from_tensor_slices(images).map(lambda x: I.adjust_brightness(x, delta))
    two = hr.Dataset.from_tensor_slices(images).map(lambda x: I.adjust_brightness(x, array))
    np.testing.assert_array_equal(np.stack(list(one)), I.adjust_brightness(images, 0.1))
    np.testing.assert_array_equal(np.stack(list(two)), I.adjust_brightness(images, 0.2))


def test_sizes_that_cannot_be_held_are_told():
    assert SIZES
    with pytest.raises((ValueError, MemoryError)):
        I.resize(np.zeros((1, 1, 1), np.uint8), (1 << 40, 1 << 40))
