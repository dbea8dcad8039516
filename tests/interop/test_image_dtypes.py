"""Functions of hr.image over all dtypes, against TensorFlow's."""

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
EXACT = {
    "adjust_brightness": lambda m, x: m.adjust_brightness(x, 0.1),
    "adjust_brightness, down": lambda m, x: m.adjust_brightness(x, -0.37),
    "grayscale_to_rgb": lambda m, x: m.grayscale_to_rgb(x[:, :, :1]),
    "flip": lambda m, x: m.flip_left_right(x),
    "flip, up": lambda m, x: m.flip_up_down(x),
    "rot90": lambda m, x: m.rot90(x, 3),
    "transpose": lambda m, x: m.transpose(x),
    "central_crop": lambda m, x: m.central_crop(x, 0.5),
    "pad": lambda m, x: m.pad_to_bounding_box(x, 1, 1, 9, 9),
    "crop": lambda m, x: m.crop_to_bounding_box(x, 1, 1, 3, 3),
    "crop or pad": lambda m, x: m.resize_with_crop_or_pad(x, 8, 4),
    "resize": lambda m, x: m.resize(x, (4, 9)),
    "resize, nearest": lambda m, x: m.resize(x, (4, 9), method="nearest"),
    "resize with pad": lambda m, x: m.resize_with_pad(x, 8, 8),
}
NEAR = {
    "adjust_contrast": lambda m, x: m.adjust_contrast(x, 1.3),
    "adjust_saturation": lambda m, x: m.adjust_saturation(x, 1.3),
    "adjust_hue": lambda m, x: m.adjust_hue(x, 0.2),
    "adjust_gamma": lambda m, x: m.adjust_gamma(x, 1.3, 0.9),
    "per_image_standardization": lambda m, x: m.per_image_standardization(x),
    "rgb_to_grayscale": lambda m, x: m.rgb_to_grayscale(x),
    "rgb_to_hsv": lambda m, x: m.rgb_to_hsv(x),
    "hsv_to_rgb": lambda m, x: m.hsv_to_rgb(x),
    "resize, bicubic": lambda m, x: m.resize(x, (4, 9), method="bicubic"),
    "resize, area": lambda m, x: m.resize(x, (4, 9), method="area"),
}
TF_LACKS = (
    tf.errors.NotFoundError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnimplementedError,
    TypeError,
    RuntimeWarning,
)
"""What TensorFlow raises if it has no kernel for a dtype."""


def image(dtype, seed=0):
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "f":
        return rng.random((5, 7, 3)).astype(dtype)
    return rng.integers(0, min(np.iinfo(dtype).max, 2**62), (5, 7, 3), endpoint=True).astype(dtype)


def both(function, data):
    """Ours, and TensorFlow's; None if it has none for this dtype."""
    try:
        theirs = function(tf.image, tf.constant(data)).numpy()
    except TF_LACKS:
        return None
    ours = np.asarray(function(hr.image, data))
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return ours, theirs


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_the_same_bits(dtype):
    for name, function in EXACT.items():
        found = both(function, image(dtype))
        if found is not None:
            np.testing.assert_array_equal(*found, err_msg=name)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_numbers_that_are_near(dtype):
    """Within 5e-7 of the largest number, or a unit in the last place of float16."""
    for name, function in NEAR.items():
        try:
            found = both(function, image(dtype))
        except TypeError:  # neither has HSV of integers
            assert "hsv" in name and np.dtype(dtype).kind != "f"
            continue
        if found is not None:
            ours, theirs = (each.astype(np.float64) for each in found)
            within = 1e-3 if found[0].dtype == np.float16 else 5e-7
            small = found[0].dtype.kind in "iu" and found[0].dtype.itemsize <= 2
            np.testing.assert_allclose(
                ours, theirs, rtol=0, atol=1 if small else within * np.abs(theirs).max(), err_msg=name
            )


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_other_dtypes(dtype, saturate):
    for wanted in [*INTEGERS, *FLOATS]:
        data = image(dtype, 1)
        if {dtype, wanted} & {"float16"} and {dtype, wanted} & {"uint16", "int32", "uint32", "int64", "uint64"}:
            continue  # TensorFlow overflows
        if np.dtype(dtype).kind == "f":
            data = data * np.dtype(dtype).type(0.99)
            if saturate and np.dtype(wanted).itemsize < 8:  # TensorFlow overflows at the ends of 64 bits
                data = data * np.dtype(dtype).type(1.6) - np.dtype(dtype).type(0.3)
        found = both(lambda m, x, wanted=wanted: m.convert_image_dtype(x, wanted, saturate=saturate), data)
        if found is not None:
            np.testing.assert_array_equal(*found, err_msg=f"{dtype} to {wanted}")


VALUES = np.array([[[-0.3], [0], [0.25], [0.5], [1], [1.3]]])


@pytest.mark.parametrize("wanted", ["uint16", "int32", "uint32", "int64", "uint64"])
def test_float16_and_wide_integers_are_scaled_where_tensorflow_overflows(wanted):
    top = np.iinfo(wanted).max
    made = hr.image.convert_image_dtype(VALUES.astype(np.float16), wanted, saturate=True).ravel()
    want = np.clip(VALUES.astype(np.float16).astype(np.float64), np.iinfo(wanted).min / top, 1).ravel() * top
    np.testing.assert_allclose(made.astype(np.float64), want, rtol=1e-4)
    back = hr.image.convert_image_dtype(np.array([[[0], [top // 2], [top]]], wanted), np.float16)
    np.testing.assert_allclose(back.ravel(), [0, 0.5, 1], rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wanted", ["int64", "uint64"])
def test_64_bits_end_at_their_ends(dtype, wanted):
    made = hr.image.convert_image_dtype(VALUES.astype(dtype), wanted, saturate=True).ravel()
    assert int(made[-1]) >= np.iinfo(wanted).max * (1 - 1e-6)
    assert (np.diff(made.astype(np.float64)) >= 0).all()
