"""encode_png: whatever the pixels are, any decoder gives them back, and files are about as small as zlib's."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native

Image = pytest.importorskip("PIL.Image")
RANDOM = np.random.default_rng(0)
SIZES = [(1, 1), (1, 2), (2, 1), (3, 5), (28, 28), (1, 700), (700, 1), (257, 129)]
KINDS = {
    "noise": lambda shape: RANDOM.integers(0, 256, shape, np.uint8),
    "nothing": lambda shape: np.zeros(shape, np.uint8),
    "white": lambda shape: np.full(shape, 255, np.uint8),
    "black and white": lambda shape: RANDOM.integers(0, 2, shape).astype(np.uint8) * 255,
    "a slope": lambda shape: np.broadcast_to(np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[..., None], shape),
    "smooth": lambda shape: np.cumsum(RANDOM.integers(-3, 4, shape), 1),
    "tiles": lambda shape: np.resize(RANDOM.integers(0, 256, 13, np.uint8), shape),
}


def pixels_of(data, shape):
    return np.asarray(Image.open(io.BytesIO(data))).reshape(shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_other_decoders_give_the_pixels_back(kind, channels):
    for height, width in SIZES:
        image = np.ascontiguousarray(KINDS[kind]((height, width, channels)).astype(np.uint8))
        data = hr.image.encode_png(image)
        assert (pixels_of(data, image.shape) == image).all()
        assert (hr.image.decode_png(data) == image).all()


@given(data=st.binary(min_size=1, max_size=3000), copies=st.integers(1, 40))
def test_any_bytes(data, copies):
    image = np.frombuffer(data * copies, np.uint8).reshape(1, -1, 1)
    made = hr.image.encode_png(image)
    length = struct.unpack(">I", made[33:37])[0]
    packed = made[41 : 41 + length]
    assert len(zlib.decompress(packed)) == image.size + 1
    assert (pixels_of(made, image.shape) == image).all()


def test_large_images_have_several_blocks():
    for kind in ("noise", "smooth", "nothing"):
        image = KINDS[kind]((600, 500, 3)).astype(np.uint8)
        assert (pixels_of(hr.image.encode_png(image), image.shape) == image).all()


def test_files_are_about_as_small_as_those_of_opencv():
    cv2 = pytest.importorskip("cv2")
    for kind in ("noise", "smooth", "a slope", "white"):
        image = np.ascontiguousarray(KINDS[kind]((64, 64, 3)).astype(np.uint8))
        theirs = len(cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 6])[1])
        assert len(hr.image.encode_png(image)) <= 1.15 * theirs + 40


def test_blocks_of_images_are_those_of_calls():
    images = np.stack([KINDS["smooth"]((9, 7, 3)).astype(np.uint8) for _ in range(100)])
    ds = hr.Dataset.from_tensor_slices(images)
    assert list(ds.map(hr.image.encode_png)) == [hr.image.encode_png(image) for image in images]
    small = list(ds.map(lambda image: hr.image.encode_png(image, 9)))
    assert all((pixels_of(data, (9, 7, 3)) == image).all() for data, image in zip(small, images, strict=True))


def test_arguments_of_the_kernel_are_checked():
    data = np.zeros(12, np.uint8)
    for shape in ((1, 2, 2, 4), (1, 0, 4, 3), (2, 2, 1, 5), (-1, 2, 2, 3), (1, 2, 2), (1, 2**40, 2**40, 3)):
        with pytest.raises(ValueError, match="image"):
            _native.encode_pngs(data, np.array(shape, np.int64))
