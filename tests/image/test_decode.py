"""Bytes of files to pixels, good ones and bad ones."""

import struct
import zlib

import numpy as np
import pytest

import headrace as hr
from tests.image.pictures import picture, pictures

I = hr.image  # noqa: E741


def jpegs(count=12, sizes=((40, 50), (33, 71), (40, 50))):
    return [I.encode_jpeg(picture(*sizes[i % len(sizes)], seed=i)) for i in range(count)]


def test_a_column_of_jpegs_of_many_sizes_becomes_one_array_by_resize():
    data = jpegs()
    ds = hr.Dataset.from_tensor_slices(data).map(lambda b: I.resize(I.decode_jpeg(b, 3), (16, 24)))
    assert ds.element_spec == hr.TensorSpec((16, 24, 3), np.float32)
    assert "vectorised" in ds.explain()
    for ours, one in zip(ds, data, strict=True):
        np.testing.assert_array_equal(ours, I.resize(I.decode_jpeg(one), (16, 24)))
    (whole,) = list(ds.batch(12))
    assert whole.shape == (12, 16, 24, 3)


@pytest.mark.parametrize("threads", [None, 2, hr.AUTOTUNE])
def test_threads_change_nothing(threads):
    data = jpegs()
    plain = list(hr.Dataset.from_tensor_slices(data).map(I.decode_jpeg))
    again = list(hr.Dataset.from_tensor_slices(data).map(I.decode_jpeg, num_parallel_calls=threads))
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_spec_knows_dtype_and_channels():
    ds = hr.Dataset.from_tensor_slices(jpegs(2))
    assert ds.map(lambda b: I.decode_jpeg(b, channels=3)).element_spec == hr.TensorSpec((None, None, 3), np.uint8)
    assert ds.map(I.decode_image).element_spec == hr.TensorSpec((None, None, None), np.uint8)


def bomb(height, width):
    """A PNG of a few bytes that promises any number of pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_before_anything_is_allocated():
    good = I.encode_png(picture(4, 4))
    ds = hr.Dataset.from_tensor_slices([good, bomb(100_000, 100_000), good]).map(I.decode_png)
    it = iter(ds)
    assert next(it).shape == (4, 4, 3)
    with pytest.raises(hr.ElementError, match=r"element 1.*100000 × 100000 pixels, more than max_pixels"):
        next(it)
    assert next(it).shape == (4, 4, 3)
    with pytest.raises(hr.ParseError, match="max_pixels=15"):
        I.decode_png(good, max_pixels=15)
    assert I.decode_png(good, max_pixels=16).shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"not an image", "begins with b'not an i'"),
        (I.encode_png(picture(4, 4)), "JPEG is needed, and it is PNG"),
        (b"\xff\xd8\xff", "ends before it says how large it is"),
        (I.encode_jpeg(picture(64, 64))[:-200], "breaks off"),
    ],
)
def test_bad_bytes_are_the_elements_error(data, said):
    with pytest.raises(hr.ParseError, match=said):
        I.decode_jpeg(data)
    good = I.encode_jpeg(picture(8, 8))
    ds = hr.Dataset.from_tensor_slices([good, data, good]).map(lambda b: I.decode_jpeg(b))
    assert [x.shape for x in ds.ignore_errors()] == [(8, 8, 3)] * 2


def test_a_jpeg_that_breaks_off_can_be_recovered():
    whole = picture(64, 64)
    data = I.encode_jpeg(whole)
    half = I.decode_jpeg(data[: len(data) // 2], try_recover_truncated=True)
    assert half.shape == whole.shape
    np.testing.assert_array_equal(half[:8], I.decode_jpeg(data)[:8])


def test_damaged_pngs_never_give_pixels_in_silence():
    data = I.encode_png(picture(40, 40))
    with pytest.raises(hr.ParseError):
        I.decode_png(data[:60])


def test_bytes_with_any_byte_changed_are_an_image_or_an_error():
    rng = np.random.default_rng(0)
    for data in (I.encode_jpeg(picture(24, 24)), I.encode_png(picture(24, 24))):
        for _ in range(300):
            hurt = bytearray(data)
            for _ in range(int(rng.integers(1, 4))):
                hurt[int(rng.integers(len(hurt)))] = int(rng.integers(256))
            try:
                made = I.decode_image(bytes(hurt[: int(rng.integers(1, len(hurt) + 1))]), max_pixels=1 << 20)
            except hr.ParseError:
                continue
            assert made.ndim == 3
            assert made.dtype == np.uint8


def test_what_is_encoded_is_decoded():
    for channels in (1, 3, 4):
        image = picture(19, 23, channels)
        np.testing.assert_array_equal(I.decode_png(I.encode_png(image)), image)
    deep = picture(19, 23).astype(np.uint16) * 200
    np.testing.assert_array_equal(I.decode_png(I.encode_png(deep), dtype=np.uint16), deep)
    smooth = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None, None] * 4, (40, 40, 3))
    for progressive in (False, True):
        made = I.decode_jpeg(I.encode_jpeg(smooth, progressive=progressive)).astype(int)
        assert np.abs(made - smooth).mean() < 2


def test_a_wrong_image_is_not_encoded():
    with pytest.raises(ValueError, match="1 or 3 channels"):
        I.encode_jpeg(np.zeros((2, 2, 4), np.uint8))
    with pytest.raises(TypeError, match="convert_image_dtype"):
        I.encode_png(np.zeros((2, 2, 3), np.float32))


def test_decode_and_resize_is_decode_and_resize():
    images = [I.encode_jpeg(x) for x in pictures()] + [I.encode_png(x) for x in pictures()]
    ds = hr.Dataset.from_tensor_slices(images).map(lambda b: I.decode_and_resize(b, (10, 12)))
    for ours, data in zip(ds, images, strict=True):
        np.testing.assert_array_equal(ours, I.resize(I.decode_image(data, 3), (10, 12)))


def test_fast_decoding_is_near():
    smooth = np.broadcast_to(np.linspace(0, 255, 300).astype(np.uint8)[:, None, None], (300, 400, 3))
    data = I.encode_jpeg(smooth)
    exact, fast = (I.decode_and_resize(data, (32, 32), fast=fast) for fast in (False, True))
    assert np.abs(exact - fast).mean() < 4
    assert not np.array_equal(exact, fast)


def test_a_crop_while_decoding_is_a_crop():
    data = I.encode_jpeg(picture(40, 50))
    np.testing.assert_array_equal(I.decode_and_crop_jpeg(data, (3, 4, 10, 20)), I.decode_jpeg(data)[3:13, 4:24])
    (made,) = list(hr.Dataset.from_tensor_slices([data]).map(lambda b: I.decode_and_crop_jpeg(b, [3, 4, 10, 20])))
    np.testing.assert_array_equal(made, I.decode_jpeg(data)[3:13, 4:24])
    with pytest.raises(ValueError, match="are not within an image of 40 × 50"):
        I.decode_and_crop_jpeg(data, (35, 0, 10, 10))


def test_numbers_beyond_float16_are_cut_off_without_a_warning():
    bright = np.array([[[-2], [0], [0.5], [1], [2]]], np.float16)
    made = I.convert_image_dtype(bright, np.int16, saturate=True)
    assert made.ravel().tolist() == [-32768, 0, 16384, 32752, 32752]


def test_other_kinds_are_told_apart():
    import io

    from PIL import Image

    image = picture(20, 30)
    for kind in ("WEBP", "BMP", "GIF"):
        out = io.BytesIO()
        Image.fromarray(image).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
        made = I.decode_image(out.getvalue(), channels=3)
        assert made.shape == image.shape
        if kind != "GIF":
            np.testing.assert_array_equal(made, image)


def test_a_jpeg_of_four_colours_is_read():
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture(20, 30)).convert("CMYK").save(out, "JPEG", quality=95)
    made = I.decode_jpeg(out.getvalue(), channels=3).astype(int)
    assert made.shape == (20, 30, 3)
