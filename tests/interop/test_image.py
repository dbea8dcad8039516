"""Every function of hr.image against the one of tf.image that has its name."""

import io

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SHAPES = [(1, 1), (7, 9), (64, 48), (37, 101), (240, 320)]


def picture(height, width, channels=3, seed=0):
    """Smooth, with some noise, as photographs are."""
    y, x = np.mgrid[:height, :width]
    rng = np.random.default_rng(seed)
    waves = [np.sin(x / (5 + c)) * np.cos(y / (7 + c)) for c in range(channels)]
    return (127 + 100 * np.stack(waves, 2) + rng.normal(0, 12, (height, width, channels))).clip(0, 255).astype(np.uint8)


def floats(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).random((height, width, channels), np.float32)


def jpeg(image, **how):
    return tf.io.encode_jpeg(image, **how).numpy()


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"dct_method": "INTEGER_ACCURATE"},
        {"dct_method": "INTEGER_FAST"},
        {"ratio": 2},
        {"ratio": 4},
        {"ratio": 8},
        {"fancy_upscaling": False},
    ],
)
def test_decode_jpeg_gives_the_same_bits(size, channels, how):
    if how.get("ratio", 1) > 1 and max(size) < 8:
        pytest.skip("several scales give the same size")
    for quality, chroma in [(95, True), (60, False)]:
        data = jpeg(picture(*size, channels), quality=quality, chroma_downsampling=chroma)
        for wanted in (0, 1, 3):
            theirs = tf.io.decode_jpeg(data, channels=wanted, **how).numpy()
            np.testing.assert_array_equal(hr.image.decode_jpeg(data, channels=wanted, **how), theirs)


def pngs():
    from PIL import Image

    rng = np.random.default_rng(1)
    for shape, mode in [((9, 7), "L"), ((9, 7, 2), "LA"), ((9, 7, 3), "RGB"), ((9, 7, 4), "RGBA")]:
        yield mode, _png(Image.fromarray(rng.integers(0, 256, shape, np.uint8), mode))
    yield "P", _png(Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8), "RGB").quantize(16))
    yield "1", _png(Image.fromarray(rng.integers(0, 2, (9, 7)).astype(bool)))
    yield "I;16", tf.io.encode_png(rng.integers(0, 65536, (9, 7, 1), np.uint16)).numpy()
    yield "RGB;16", tf.io.encode_png(rng.integers(0, 65536, (9, 7, 3), np.uint16)).numpy()
    yield "RGBA;16", tf.io.encode_png(rng.integers(0, 65536, (9, 7, 4), np.uint16)).numpy()


def _png(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@pytest.mark.filterwarnings("ignore")
def test_decode_png_gives_the_same_bits_except_of_colours_as_grey():
    for mode, data in pngs():
        for channels in (0, 1, 3, 4) if mode not in "P1" else (0, 1, 3):  # of few bits, TensorFlow's alpha is as low
            for dtype in (np.uint8, np.uint16):
                theirs = tf.io.decode_png(data, channels=channels, dtype=dtype).numpy()
                ours = hr.image.decode_png(data, channels=channels, dtype=dtype)
                assert ours.shape == theirs.shape, (mode, channels, dtype)
                apart = np.abs(ours.astype(int) - theirs.astype(int)).max()
                grey = channels == 1 and mode[0] in "RP"
                assert apart <= ((2 if mode.endswith("16") else 1) if grey else 0), (mode, channels, dtype, apart)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF"])
def test_decode_image_tells_the_kinds_apart(kind):
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture(20, 30)).save(out, kind)
    theirs = tf.io.decode_image(out.getvalue(), channels=3, expand_animations=False)
    np.testing.assert_array_equal(hr.image.decode_image(out.getvalue(), channels=3), theirs)
    theirs = tf.io.decode_image(out.getvalue(), channels=3, dtype=tf.float32, expand_animations=False)
    np.testing.assert_allclose(hr.image.decode_image(out.getvalue(), channels=3, dtype=np.float32), theirs, rtol=2e-7)


@pytest.mark.parametrize("disposal", range(4))
@pytest.mark.parametrize("transparency", [None, 7])
def test_frames_of_a_gif_are_drawn_over_each_other(transparency, disposal):
    from PIL import Image

    still, chance = picture(20, 30) // 64 * 64, np.random.default_rng(disposal)
    frames = []
    for _ in range(4):
        still = still.copy()
        y, x = chance.integers(0, 20, 2)
        still[y : y + 6, x : x + 9] = chance.integers(0, 255, 3)
        frames.append(Image.fromarray(still).convert("P"))
    how = {} if transparency is None else {"transparency": transparency, "optimize": False}
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], disposal=disposal, **how)
    ours = hr.io.decode_gif(out.getvalue())
    np.testing.assert_array_equal(ours, tf.io.decode_gif(out.getvalue()))
    mapped = hr.Dataset.from_tensor_slices([out.getvalue()] * 2).map(hr.image.decode_gif)
    assert mapped.element_spec == hr.TensorSpec([None, None, None, 3], np.uint8)
    for element in mapped:
        np.testing.assert_array_equal(element, ours)


@pytest.mark.parametrize("channels", [1, 3])
def test_encoded_images_are_read_by_tensorflow(channels):
    image = picture(33, 41, channels)
    np.testing.assert_array_equal(tf.io.decode_png(hr.image.encode_png(image)), image)
    for how in ({}, {"quality": 50}, {"chroma_downsampling": False}):
        theirs = tf.io.decode_jpeg(tf.io.encode_jpeg(image, **how)).numpy().astype(int)
        ours = tf.io.decode_jpeg(hr.image.encode_jpeg(image, **how)).numpy().astype(int)
        assert np.abs(ours - theirs).mean() < 2


SIZES = [(1, 1), (5, 3), (224, 224), (100, 31)]


@pytest.mark.parametrize("make", [picture, floats])
@pytest.mark.parametrize("size", SIZES)
def test_resize_bilinear_gives_the_same_bits(make, size):
    for shape in SHAPES:
        if shape == size:
            continue
        for channels in (1, 3, 4):
            image = make(*shape, channels)
            np.testing.assert_array_equal(hr.image.resize(image, size), tf.image.resize(image, size))


@pytest.mark.parametrize("method", ["bilinear", "nearest", "area", "bicubic"])
def test_resize_to_the_size_that_an_image_has_gives_the_same_dtype(method):
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    theirs, ours = tf.image.resize(image, (2, 2), method).numpy(), hr.image.resize(image, (2, 2), method)
    assert ours.dtype == theirs.dtype == (np.uint8 if method == "nearest" else np.float32)
    np.testing.assert_array_equal(ours, theirs)


def test_resize_of_other_dtypes_and_of_batches_gives_the_same_bits():
    for dtype in (np.int16, np.uint16, np.int32):
        image = picture(20, 30).astype(dtype)
        np.testing.assert_array_equal(hr.image.resize(image, (7, 8)), tf.image.resize(image, (7, 8)))
    batch = np.stack([picture(20, 30, seed=i) for i in range(3)])
    np.testing.assert_array_equal(hr.image.resize(batch, (7, 8)), tf.image.resize(batch, (7, 8)))


TOLERANCES = {
    "nearest": 0,
    "area": 0.0002,
    "bicubic": 0.001,
    "lanczos3": 0.005,
    "lanczos5": 0.005,
    "gaussian": 0.005,
    "mitchellcubic": 0.005,
}


@pytest.mark.parametrize("method", TOLERANCES)
@pytest.mark.parametrize("antialias", [False, True])
def test_resize_by_other_methods_is_as_near_as_promised(method, antialias):
    for shape in SHAPES:
        for size in SIZES:
            for image in (picture(*shape), floats(*shape) * 255):
                theirs = tf.image.resize(image, size, method, antialias=antialias).numpy()
                ours = hr.image.resize(image, size, method, antialias=antialias)
                assert ours.dtype == theirs.dtype or shape == size
                np.testing.assert_allclose(ours, theirs, atol=TOLERANCES[method], rtol=0, err_msg=f"{shape} {size}")


def test_images_resized_by_area_are_the_same_once_they_are_bytes():
    for shape in SHAPES:
        for size in SIZES:
            theirs = tf.cast(tf.image.resize(picture(*shape), size, "area"), tf.uint8)
            np.testing.assert_array_equal(hr.image.resize(picture(*shape), size, "area").astype(np.uint8), theirs)


def test_resize_bilinear_with_antialias_is_as_near_as_promised():
    for shape in SHAPES:
        for size in SIZES:
            theirs = tf.image.resize(picture(*shape), size, antialias=True)
            np.testing.assert_allclose(hr.image.resize(picture(*shape), size, antialias=True), theirs, atol=0.004)


@pytest.mark.parametrize("size", SIZES)
def test_resize_keeps_the_ratio_of_the_sides_alike(size):
    for shape in SHAPES if size != (1, 1) else SHAPES[:1]:  # of others TensorFlow makes nothing
        theirs = tf.image.resize(floats(*shape), size, preserve_aspect_ratio=True)
        ours = hr.image.resize(floats(*shape), size, preserve_aspect_ratio=True)
        np.testing.assert_array_equal(ours, theirs)
        theirs = tf.image.resize_with_pad(floats(*shape), *size)
        np.testing.assert_array_equal(hr.image.resize_with_pad(floats(*shape), *size), theirs)
        theirs = tf.image.resize_with_crop_or_pad(floats(*shape), *size)
        np.testing.assert_array_equal(hr.image.resize_with_crop_or_pad(floats(*shape), *size), theirs)


@pytest.mark.parametrize("make", [picture, floats])
@pytest.mark.parametrize("shape", SHAPES)
def test_geometry_gives_the_same_bits(make, shape):
    image = make(*shape)
    for name in ("flip_left_right", "flip_up_down", "transpose"):
        np.testing.assert_array_equal(getattr(hr.image, name)(image), getattr(tf.image, name)(image))
    for k in range(-1, 5):
        np.testing.assert_array_equal(hr.image.rot90(image, k), tf.image.rot90(image, k % 4))
    for fraction in (0.1, 0.33, 0.5, 0.875, 1.0):
        np.testing.assert_array_equal(hr.image.central_crop(image, fraction), tf.image.central_crop(image, fraction))
    height, width = shape
    box = (height // 3, width // 4, max(1, height // 2), max(1, width // 2))
    np.testing.assert_array_equal(
        hr.image.crop_to_bounding_box(image, *box), tf.image.crop_to_bounding_box(image, *box)
    )
    box = (3, 4, height + 5, width + 9)
    np.testing.assert_array_equal(hr.image.pad_to_bounding_box(image, *box), tf.image.pad_to_bounding_box(image, *box))


def test_convert_image_dtype_gives_the_same_bits():
    rng = np.random.default_rng(0)
    integers = [np.uint8, np.int8, np.uint16, np.int16, np.int32]
    for have in integers:
        top = np.iinfo(have).max
        image = rng.integers(0, top, (9, 9, 3), endpoint=True).astype(have)
        for wanted in [*integers, np.float32, np.float64]:
            for saturate in (False, True):
                theirs = tf.image.convert_image_dtype(image, wanted, saturate).numpy()
                np.testing.assert_array_equal(
                    hr.image.convert_image_dtype(image, wanted, saturate), theirs, f"{have} {wanted}"
                )
    for wanted in (np.uint8, np.uint16, np.int16, np.float64):
        inside = rng.random((9, 9, 3), np.float32)
        theirs = tf.image.convert_image_dtype(inside, wanted).numpy()
        np.testing.assert_array_equal(hr.image.convert_image_dtype(inside, wanted), theirs)
        beyond = inside * 3 - 1
        theirs = tf.image.convert_image_dtype(beyond, wanted, saturate=True).numpy()
        np.testing.assert_array_equal(hr.image.convert_image_dtype(beyond, wanted, saturate=True), theirs)


def near(ours, theirs, integers=1, numbers=2e-6):
    theirs = theirs.numpy()
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
    assert apart <= (numbers if ours.dtype.kind == "f" else integers), apart


@pytest.mark.parametrize("make", [picture, floats])
@pytest.mark.parametrize("shape", SHAPES)
def test_colours_are_as_near_as_promised(make, shape):
    image = make(*shape)
    for delta in (-0.4, 0.0, 0.1, 0.9):
        theirs = tf.image.adjust_brightness(image, delta).numpy()
        np.testing.assert_array_equal(hr.image.adjust_brightness(image, delta), theirs)
    for factor in (0.0, 0.5, 1.0, 2.5):
        near(hr.image.adjust_contrast(image, factor), tf.image.adjust_contrast(image, factor), numbers=1e-5)
        near(hr.image.adjust_saturation(image, factor), tf.image.adjust_saturation(image, factor))
    for delta in (-1.0, -0.3, 0.0, 0.25, 1.0):
        near(hr.image.adjust_hue(image, delta), tf.image.adjust_hue(image, delta))
    for gamma, gain in ((0.5, 1), (2.2, 1), (1, 2), (0, 1)):
        near(hr.image.adjust_gamma(image, gamma, gain), tf.image.adjust_gamma(image, gamma, gain))
    near(hr.image.per_image_standardization(image), tf.image.per_image_standardization(image), numbers=1e-5)
    near(hr.image.rgb_to_grayscale(image), tf.image.rgb_to_grayscale(image))
    grey = make(*shape, 1)
    near(hr.image.grayscale_to_rgb(grey), tf.image.grayscale_to_rgb(tf.constant(grey)), integers=0, numbers=0)


def test_hsv_is_as_near_as_promised():
    image = floats(40, 50)
    image[:5] = image[:5, :, :1]  # grey
    image[5:7] = 0
    near(hr.image.rgb_to_hsv(image), tf.image.rgb_to_hsv(image), numbers=1e-6)
    near(hr.image.hsv_to_rgb(image), tf.image.hsv_to_rgb(image), numbers=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_crop_and_resize_is_as_near_as_promised(method):
    rng = np.random.default_rng(0)
    images = np.stack([picture(30, 40, seed=i) for i in range(3)]).astype(np.float32)
    boxes = rng.uniform(-0.3, 1.3, (20, 4)).astype(np.float32)
    numbers = rng.integers(0, 3, 20)
    for size in ((7, 9), (1, 1), (30, 40)):
        theirs = tf.image.crop_and_resize(images, boxes, numbers, size, method, extrapolation_value=5.0)
        ours = hr.image.crop_and_resize(images, boxes, numbers, size, method, extrapolation_value=5.0)
        off = np.abs(ours - theirs.numpy()) > 0.01
        assert off.mean() < 0.005  # a place that is the edge but for a last bit
