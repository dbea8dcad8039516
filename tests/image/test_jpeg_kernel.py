"""The kernel that decodes baseline JPEGs: the bits of libjpeg-turbo, or no pixels at all."""

from io import BytesIO
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import headrace as hr
from headrace import _native
from headrace.image.jpeg_check import has_same_pixels
from tests.image.pictures import picture

simplejpeg = pytest.importorskip("simplejpeg")
pytestmark = pytest.mark.skipif(not has_same_pixels(fast_dct=True), reason="simplejpeg rounds differently here")

SAMPLINGS = ["444", "422", "420", "440", "411", "grey"]
MODES = list(product([False, True], [False, True], [1, 3]))


def encoded(height, width, sampling, quality=90, seed=0):
    pixels = picture(height, width, seed=seed)
    if sampling == "grey":
        return simplejpeg.encode_jpeg(pixels[:, :, :1].copy(), quality, colorspace="GRAY")
    return simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling)


def saved(height, width, mode="RGB", **how):
    out = BytesIO()
    Image.fromarray(picture(height, width, seed=width)).convert(mode).save(out, "JPEG", **how)
    return out.getvalue()


def decoded(data, height, width, window=None, *, fast_dct=True, fast_upsampling=False, channels=3):
    """Return a window of an image, or None if the kernel does not decode it."""
    values, window = np.frombuffer(data, np.uint8), window or (0, 0, height, width, 0)
    out, made = np.full(window[2] * window[3] * channels + 8, 77, np.uint8), np.zeros(1, np.bool_)
    shapes, starts = np.array([[height, width, channels]]), np.array([4])
    _native.decode_jpegs(
        values, np.array([0, len(values)]), shapes, np.array([window]), fast_dct, fast_upsampling, starts, out, made
    )
    assert (out[:4] == 77).all() and (out[-4:] == 77).all()
    return out[4:-4].reshape(*window[2:4], channels) if made[0] else None


def by_simplejpeg(data, *, fast_dct=True, fast_upsampling=False, channels=3):
    colours = "GRAY" if channels == 1 else "RGB"
    return simplejpeg.decode_jpeg(data, colours, fastdct=fast_dct, fastupsample=fast_upsampling)


def check(data, height, width):
    for fast_dct, fast_upsampling, channels in MODES:
        how = {"fast_dct": fast_dct, "fast_upsampling": fast_upsampling, "channels": channels}
        np.testing.assert_array_equal(decoded(data, height, width, **how), by_simplejpeg(data, **how), str(how))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_images_of_any_size_have_the_bits_of_simplejpeg(sampling):
    for size in range(1, 71):
        check(encoded(size, 71 - size, sampling, quality=50 + size % 50), size, 71 - size)
        check(encoded(size, size, sampling), size, size)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("quality", [1, 5, 20, 40, 60, 75, 95, 100])
def test_any_quality_has_the_bits_of_simplejpeg(sampling, quality):
    check(encoded(50, 67, sampling, quality), 50, 67)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize(
    "how",
    [{"restart_marker_rows": 1}, {"restart_marker_blocks": 1}, {"restart_marker_blocks": 5}, {"optimize": True}],
    ids=str,
)
def test_restart_intervals_and_other_codes_have_the_bits_of_simplejpeg(subsampling, how):
    check(saved(90, 75, subsampling=subsampling, quality=85, **how), 90, 75)


@pytest.mark.parametrize("content", [0, 255, "noise", "checks"])
def test_extreme_pixels_have_the_bits_of_simplejpeg(content):
    pixels = np.full((40, 40, 3), content if isinstance(content, int) else 0, np.uint8)
    if content == "noise":
        pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    if content == "checks":
        pixels[::2, ::2] = pixels[1::2, 1::2] = 255
    for quality, sampling in product([1, 10, 50, 100], ["444", "420"]):
        check(simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling), 40, 40)


@given(
    st.tuples(st.integers(1, 80), st.integers(1, 300)),
    st.sampled_from(SAMPLINGS),
    st.tuples(*[st.floats(0, 1)] * 4),
    st.sampled_from(MODES),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_a_window_is_a_cut_of_the_image(size, sampling, place, mode, mirrored):
    (height, width), (fast_dct, fast_upsampling, channels) = size, mode
    tall, wide = 1 + int(place[0] * (height - 1)), 1 + int(place[1] * (width - 1))
    top, left = int(place[2] * (height - tall)), int(place[3] * (width - wide))
    data, how = (
        encoded(height, width, sampling),
        {"fast_dct": fast_dct, "fast_upsampling": fast_upsampling, "channels": channels},
    )
    made = decoded(data, height, width, (top, left, tall, wide, int(mirrored)), **how)
    wanted = by_simplejpeg(data, **how)[top : top + tall, left : left + wide]
    np.testing.assert_array_equal(made, wanted[:, ::-1] if mirrored else wanted)


@pytest.mark.parametrize("what", ["progressive", "CMYK", "RGB", "16 bits", "two scans", "another size"])
def test_rarer_files_are_left_to_simplejpeg(what):
    data, size = saved(40, 50), (40, 50)
    if what == "progressive":
        data = saved(40, 50, progressive=True)
    elif what == "CMYK":
        data = saved(40, 50, "CMYK")
    elif what == "RGB":
        data = saved(40, 50, keep_rgb=True)
    elif what == "16 bits":
        at = data.index(b"\xff\xc0") + 4
        data = data[:at] + b"\x0c" + data[at + 1 :]
    elif what == "two scans":
        data = data[:-2] + data[data.index(b"\xff\xda") :]
    else:
        size = (40, 51)
    assert decoded(data, *size) is None


def test_no_part_of_a_file_is_decoded_as_all_of_it():
    data = encoded(24, 31, "420")
    for stop in range(len(data)):
        assert decoded(data[:stop], 24, 31) is None
        assert decoded(data[:stop], 24, 31, (0, 0, 1, 1, 0)) is None


@pytest.mark.parametrize("how", [{}, {"restart_marker_blocks": 2}], ids=str)
def test_damage_is_noticed_or_gives_what_simplejpeg_gives(how):
    data, rng, agreed = saved(40, 33, **how), np.random.default_rng(0), 0
    for _ in range(3000):
        hurt = bytearray(data)
        for at in rng.integers(len(hurt), size=rng.integers(1, 3)):
            hurt[at] = rng.integers(256)
        for fast_dct in (False, True):
            made = decoded(bytes(hurt), 40, 33, fast_dct=fast_dct)
            if made is not None:
                np.testing.assert_array_equal(made, by_simplejpeg(bytes(hurt), fast_dct=fast_dct))
                agreed += 1
    assert agreed > 100


def test_bytes_after_the_end_are_ignored():
    data = encoded(40, 50, "420")
    np.testing.assert_array_equal(decoded(data + b"more", 40, 50), by_simplejpeg(data))


def test_images_of_different_kinds_share_the_memory_of_a_decoder():
    files = [encoded(9 + 13 * i, 70 - 7 * i, sampling, seed=i) for i, sampling in enumerate(SAMPLINGS)]
    files += [saved(20, 30, optimize=True), saved(20, 30, progressive=True), encoded(3, 3, "420")]
    for images in (files, files[::-1]):
        ds = hr.Dataset.from_tensor_slices(images).map(lambda b: hr.image.decode_jpeg(b, channels=3))
        for made, data in zip(ds, images, strict=True):
            np.testing.assert_array_equal(made, by_simplejpeg(data))
