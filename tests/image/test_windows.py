"""JPEGs that are decoded where they are cropped and resized: the bits of a full decode, less work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.image import jpeg
from headrace.image.jpeg_check import has_same_pixels
from tests.image.pictures import picture

I = hr.image  # noqa: E741
simplejpeg = pytest.importorskip("simplejpeg")


def encoded(height, width, sampling="420", seed=0, quality=90):
    pixels = picture(height, width, seed=seed)
    if sampling == "grey":
        return simplejpeg.encode_jpeg(pixels[:, :, :1].copy(), quality, colorspace="GRAY")
    return simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling)


def progressive(height, width):
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    Image.fromarray(picture(height, width)).save(out, "JPEG", progressive=True)
    return out.getvalue()


SIZES = [(120, 90), (64, 64), (33, 97), (9, 200), (90, 17), (128, 160)]
JPEGS = [encoded(h, w, s, i) for i, (h, w) in enumerate(SIZES) for s in ("420", "422", "444", "grey")]
JPEGS.append(progressive(70, 90))


@pytest.fixture(params=["windows", "whole images"])
def decoder(request, monkeypatch):
    """Decode with the kernel that decodes windows, and as if it had other pixels than simplejpeg."""
    if request.param == "whole images":
        monkeypatch.setattr(jpeg, "has_same_pixels", lambda **_: False)
    elif not has_same_pixels(fast_dct=True):
        pytest.skip("simplejpeg rounds differently on this machine")
    return request.param


@given(
    st.tuples(st.integers(1, 90), st.integers(1, 90), st.integers(0, 3)),
    st.sampled_from(["444", "422", "420", "440", "411", "grey"]),
    st.tuples(*[st.floats(0, 1)] * 4),
    st.sampled_from(["", "INTEGER_ACCURATE"]),
    st.booleans(),
    st.sampled_from([1, 3]),
)
@settings(max_examples=300, deadline=None)
def test_a_window_has_the_bits_of_a_full_decode(size, sampling, place, dct, fancy, channels):
    height, width, seed = size
    data = encoded(height, width, sampling, seed)
    tall, wide = 1 + int(place[0] * (height - 1)), 1 + int(place[1] * (width - 1))
    top, left = int(place[2] * (height - tall)), int(place[3] * (width - wide))
    how = {"channels": channels, "dct_method": dct, "fancy_upscaling": fancy}
    whole = simplejpeg.decode_jpeg(data, "GRAY" if channels == 1 else "RGB", fastdct=dct == "", fastupsample=not fancy)
    np.testing.assert_array_equal(I.decode_jpeg(data, **how), whole)
    window = I.decode_and_crop_jpeg(data, (top, left, tall, wide), **how)
    np.testing.assert_array_equal(window, whole[top : top + tall, left : left + wide])


def rrc(data, rng, **how):
    return I.random_resized_crop(I.decode_jpeg(data, channels=3), (41, 30), rng, **how)


def twice(image):
    return I.resize(image, (8, 9)), I.central_crop(image, 0.5)


def squared(image):
    return image * image


MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([[[0.229, 0.224, 0.225]]], np.float32)
FUSED = ["crop, resize, flip", "to bytes", "truncated", "rounded", "mirrored first", "central"]
CHAINS = {
    "crop, resize, flip": lambda b, rng: I.random_flip_left_right(rrc(b, rng), rng),
    "to bytes": lambda b, rng: I.random_flip_left_right(rrc(b, rng, dtype=np.uint8), rng),
    "truncated": lambda b, rng: I.random_flip_left_right(rrc(b, rng), rng).astype(np.uint8),
    "rounded": lambda b, rng: np.rint(I.flip_left_right(rrc(b, rng))).astype(np.uint8),
    "only rounded": lambda b, rng: np.rint(rrc(b, rng)),
    "normalised": lambda b, rng: (rrc(b, rng) - np.float32(127)) / np.float32(128),
    "per channel": lambda b, rng: (I.random_flip_left_right(rrc(b, rng), rng) / 255 - MEAN) / DEVIATION,
    "numbers before and after": lambda b, rng: 2 * rrc(b, rng) + np.float32(0.1) - 1,
    "divided by zero": lambda b, rng: (rrc(b, rng) + 1) / np.array([1, 0, 2], np.float32),
    "from a number": lambda b, rng: 255 - rrc(b, rng),
    "squared": lambda b, rng: squared(rrc(b, rng)),
    "scaled, then to bytes": lambda b, rng: (rrc(b, rng) * np.float32(0.5)).astype(np.uint8),
    "to other integers": lambda b, rng: rrc(b, rng).astype(np.int32),
    "mirrored first": lambda b, rng: I.resize(I.random_flip_left_right(I.decode_image(b, 3), rng), (20, 21)),
    "mirrored, cropped, mirrored": lambda b, rng: I.flip_left_right(
        I.random_crop(I.flip_left_right(I.random_flip_left_right(I.decode_image(b, 3), rng)), (9, 17), rng)
    ),
    "central": lambda b, rng: I.resize(I.central_crop(I.decode_jpeg(b, 1), 0.4), (7, 8), dtype="uint8"),
    "box": lambda b, rng: I.crop_to_bounding_box(I.decode_jpeg(b, 3), 2, 3, 7, 14),
    "upside down": lambda b, rng: I.random_flip_up_down(rrc(b, rng), rng),
    "antialias": lambda b, rng: I.resize(I.decode_jpeg(b, 3), (8, 8), antialias=True, dtype=np.uint8),
    "nearest": lambda b, rng: rrc(b, rng, method="nearest"),
    "keeping the ratio": lambda b, rng: I.resize(I.decode_jpeg(b, 3), (8, 9), preserve_aspect_ratio=True),
    "used twice": lambda b, rng: twice(I.decode_jpeg(b, 3)),
    "colours after": lambda b, rng: I.random_brightness(rrc(b, rng), 0.3, rng),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_the_bits_of_its_functions_one_by_one(name, decoder):
    ds = hr.Dataset.from_tensor_slices(JPEGS)
    eager, traced = (ds.random_map(CHAINS[name], seed=3, mode=mode) for mode in ("eager", "auto"))
    assert "vectorised" in traced.explain()
    with np.errstate(divide="ignore"):
        for a, b in zip(eager, traced, strict=True):
            for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (a, b)), strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", FUSED)
def test_a_chain_is_one_call(name, monkeypatch):
    """No image is decoded that is not resized in the same call, and none is mirrored or cast after it."""
    if not has_same_pixels(fast_dct=True):
        pytest.skip("simplejpeg rounds differently on this machine")
    for other in ("decode_jpegs", "cut_images", "resize_bilinear"):
        monkeypatch.setattr(_native, other, lambda *_, other=other: pytest.fail(f"{other} is called"))
    monkeypatch.setattr("headrace.trace.graph.ROWS_TO_VERIFY", 0)  # no row is compared with a call of the function
    rows, fused = [], _native.decode_and_resize_jpegs
    monkeypatch.setattr(_native, "decode_and_resize_jpegs", lambda *args: rows.append(len(args[3])) or fused(*args))
    assert len(list(hr.Dataset.from_tensor_slices(JPEGS[:4] * 20).random_map(CHAINS[name], seed=3))) == 80
    assert sum(rows) == 80


@pytest.mark.parametrize("channels", [1, 3])
def test_decode_and_resize_has_the_bits_of_its_two_functions(channels, decoder, monkeypatch):
    calls, fused = [], _native.decode_and_resize_jpegs
    monkeypatch.setattr(_native, "decode_and_resize_jpegs", lambda *args: calls.append(len(args[3])) or fused(*args))
    ds = hr.Dataset.from_tensor_slices(JPEGS)
    for made, data in zip(ds.map(lambda b: I.decode_and_resize(b, (20, 21), channels)), JPEGS, strict=True):
        np.testing.assert_array_equal(made, I.resize(I.decode_image(data, channels), (20, 21)))
    assert (decoder == "windows") == (sum(calls) >= len(JPEGS))


ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)


@pytest.mark.parametrize(
    ("name", "operations"),
    {
        "normalised": [SUBTRACT, DIVIDE],
        "per channel": [DIVIDE, SUBTRACT, DIVIDE],
        "numbers before and after": [MULTIPLY, ADD, SUBTRACT],
        "scaled, then to bytes": [MULTIPLY],
        "divided by zero": [],
        "from a number": [],
        "squared": [],
    }.items(),
)
def test_numbers_are_part_of_the_call_that_resizes(name, operations, monkeypatch):
    if not has_same_pixels(fast_dct=True):
        pytest.skip("simplejpeg rounds differently on this machine")
    found, fused = [], _native.decode_and_resize_jpegs
    monkeypatch.setattr(_native, "decode_and_resize_jpegs", lambda *args: found.append(args[10]) or fused(*args))
    with np.errstate(divide="ignore"):
        assert len(list(hr.Dataset.from_tensor_slices(JPEGS[:4] * 5).random_map(CHAINS[name], seed=3))) == 20
    assert {tuple(each.tolist()) for each in found} - {()} == ({tuple(operations)} - {()})


def test_numbers_per_channel_may_change_between_blocks():
    numbers = np.array([1, 2, 3], np.float32)
    ds = hr.Dataset.from_tensor_slices(JPEGS[:4]).map(lambda b: I.resize(I.decode_jpeg(b, 3), (9, 8)) * numbers)
    before = list(ds)
    numbers *= 2
    for one, other in zip(before, ds, strict=True):
        np.testing.assert_array_equal(2 * one, other)


@pytest.mark.parametrize("sampling", ["444", "422", "420", "440", "411", "grey"])
@pytest.mark.parametrize("fast", [False, True])
def test_a_window_may_end_at_any_row(sampling, fast):
    """The rest of the file is read from there, and no image has to be decoded again."""
    if not has_same_pixels(fast_dct=True):
        pytest.skip("simplejpeg rounds differently on this machine")
    data = np.frombuffer(encoded(208, 40, sampling), np.uint8)
    windows = np.array([[0, 3, height, 9, 0] for height in range(1, 209)])
    count, sizes = len(windows), 27 * windows[:, 2]
    values, offsets = np.tile(data, count), np.arange(count + 1) * len(data)
    shapes, made = np.tile([208, 40, 3], (count, 1)), np.zeros(count, np.bool_)
    out = np.zeros(sizes.sum(), np.uint8)
    _native.decode_jpegs(values, offsets, shapes, windows, fast, fast, np.cumsum(sizes) - sizes, out, made)
    assert made.all()


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_damage_outside_of_the_window_is_an_error(cut, decoder):
    data = encoded(120, 90)
    broken = data[: int(len(data) * cut)]
    for mode in ("auto", "eager"):
        ds = hr.Dataset.from_tensor_slices([data, broken, data])
        ds = ds.map(lambda b: I.crop_to_bounding_box(I.decode_jpeg(b, 3), 0, 0, 8, 8), mode=mode)
        it = iter(ds)
        assert next(it).shape == (8, 8, 3)
        with pytest.raises(hr.errors.ElementError, match="breaks off"):
            next(it)
        assert next(it).shape == (8, 8, 3)
    with pytest.raises(hr.errors.ParseError, match="breaks off"):
        I.decode_and_crop_jpeg(broken, (0, 0, 8, 8))


def test_bytes_with_any_byte_changed_are_cropped_as_before(decoder):
    data, rng = encoded(64, 80), np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.integers(len(data))] = rng.integers(256)
        results = []
        for decode in (
            lambda b: I.decode_jpeg(b, 3)[9:40, 11:60],
            lambda b: I.decode_and_crop_jpeg(b, (9, 11, 31, 49), 3),
        ):
            try:
                results.append(decode(bytes(changed)))
            except (hr.errors.ParseError, ValueError) as error:
                results.append(type(error))
        if isinstance(results[0], np.ndarray) and results[0].shape == (31, 49, 3):
            np.testing.assert_array_equal(*results)
        else:
            assert isinstance(results[1], type)


def test_a_window_beyond_its_image_is_an_error(decoder):
    with pytest.raises(ValueError, match="not within an image of 120 × 90"):
        I.decode_and_crop_jpeg(JPEGS[0], (100, 0, 30, 10))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("method", ["bilinear", "bicubic", "area", "nearest"])
def test_bytes_are_rounded_and_limited(method, dtype):
    images = np.stack([picture(20, 30, seed=i) for i in range(3)])
    floats = I.resize(images.astype(dtype) * dtype(1), (13, 44), method)
    made = I.resize(images.astype(dtype), (13, 44), method, dtype=np.uint8)
    assert made.dtype == np.uint8
    np.testing.assert_array_equal(made, np.clip(np.rint(floats), 0, 255).astype(np.uint8))


def test_floats_beyond_bytes_become_their_ends():
    pixels = np.array([[[-5.0], [300.0], [np.nan], [2.5]]], np.float32)
    assert I.resize(pixels, (1, 4), dtype=np.uint8).ravel().tolist() == [0, 255, 0, 2]


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="resized to float32, or to uint8"):
        I.resize(np.zeros((2, 2, 3)), (1, 1), dtype=np.int16)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_random_resized_crop_of_arrays_is_a_crop_and_a_resize(channels):
    image = picture(50, 70, channels)
    for seed in range(20):
        made = I.random_resized_crop(image, (16, 19), np.random.default_rng(seed))
        rounded = I.random_resized_crop(image, (16, 19), np.random.default_rng(seed), dtype=np.uint8)
        by_floats = I.random_resized_crop(image.astype(np.float32), (16, 19), np.random.default_rng(seed))
        np.testing.assert_array_equal(made, by_floats)
        np.testing.assert_array_equal(rounded, np.rint(by_floats).astype(np.uint8))


def test_scans_are_counted():
    files = [JPEGS[0], b"\xff\xda\xff", b"\xff\xda", b"", b"\xda"]
    found = np.empty(len(files), np.int64)
    offsets = np.cumsum([0, *map(len, files)])
    _native.count_jpeg_scans(np.frombuffer(b"".join(files), np.uint8), offsets, found)
    assert found.tolist() == [JPEGS[0].count(b"\xff\xda"), 1, 1, 0, 0]
