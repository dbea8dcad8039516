"""PNGs by the kernel and by the library: the same pixels, the same errors."""

import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.image.channels import with_channels, with_depth
from headrace.image.codecs import PNG, read_headers
from headrace.image.decode_rows import decode_with_opencv
from headrace.io.binary import bytes_column

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def chunk(name, content=b""):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def filtered(line, above, kind, step):
    """A line as differences from its neighbours, as PNG's specification has them."""
    left = np.concatenate([np.zeros(step, np.int64), line[:-step]])
    corner = np.concatenate([np.zeros(step, np.int64), above[:-step]])
    near = left + above - corner
    distances = np.abs(np.stack([near - left, near - above, near - corner]))
    nearest = np.choose(distances.argmin(0), [left, above, corner])
    taken = [np.zeros_like(line), left, above, (left + above) // 2, nearest][kind % 5]
    return bytes([kind]) + ((line - taken) % 256).astype(np.uint8).tobytes()


def png(
    rng,
    colours=RGB,
    size=(9, 7),
    *,
    filters=None,
    level=6,
    strategy=0,
    window=15,
    pieces=1,
    before=(),
    after=(),
    known=20,
):
    """A PNG written here, so that every encoding is available."""
    height, width = size
    step = CHANNELS[colours]
    most = 20 if colours == PALETTE else 256
    smooth = np.add.outer(np.arange(height) * 3, np.arange(width * step) // step) + rng.integers(0, 9, (height, 1))
    lines = (smooth + rng.integers(0, 5, smooth.shape)) % most
    kinds = filters if filters is not None else rng.integers(0, 5, height)
    above = np.zeros(width * step, np.int64)
    data = b""
    for line, kind in zip(lines, kinds, strict=False):
        data += filtered(line, above, kind, step)
        above = line
    packer = zlib.compressobj(level, zlib.DEFLATED, window, 9, strategy)
    packed = packer.compress(data) + packer.flush()
    cuts = np.linspace(0, len(packed), pieces + 1).astype(int)
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0))
    if colours == PALETTE:
        made += chunk(b"PLTE", rng.integers(0, 256, 3 * known, np.uint8).tobytes())
    made += b"".join(chunk(*each) for each in before)
    made += b"".join(chunk(b"IDAT", packed[a:b]) for a, b in pairwise(cuts))
    return made + b"".join(chunk(*each) for each in after) + chunk(b"IEND")


def by_the_kernel(data, channels=0):
    """Its pixels, or None where it leaves the image to the library."""
    values, offsets = parts(bytes_column([data]))
    (header,) = read_headers(values, offsets, 1 << 20, PNG)
    shape = np.array([[header[1], header[2], channels or header[3]]])
    out, made = np.zeros(shape.prod(), np.uint8), np.zeros(1, np.bool_)
    _native.decode_pngs(values, offsets, shape, np.zeros(1, np.int64), out, made)
    return out.reshape(shape[0]) if made[0] else None


def by_the_library(data, channels=0):
    values, offsets = parts(bytes_column([data]))
    (header,) = read_headers(values, offsets, None, PNG)
    return with_depth(with_channels(decode_with_opencv(values, PNG, header, 0), channels), np.dtype(np.uint8))


@pytest.mark.parametrize("colours", CHANNELS)
@pytest.mark.parametrize(
    "how",
    [
        {},
        *({"filters": [kind] * 40, "size": (33, 40)} for kind in range(5)),
        {"size": (1, 1)},
        {"size": (1, 300)},
        {"size": (300, 1), "level": 9},
        {"size": (120, 90), "pieces": 7},
        {"size": (200, 230), "level": 1},
        {"level": 0},
        {"size": (300, 300), "level": 0},
        {"strategy": zlib.Z_FIXED, "size": (64, 64)},
        {"strategy": zlib.Z_HUFFMAN_ONLY, "size": (64, 64)},
        {"strategy": zlib.Z_RLE, "size": (64, 64)},
        {"window": 9, "size": (64, 64)},
        {"before": [(b"gAMA", struct.pack(">I", 45455)), (b"tEXt", b"Title\0text")], "after": [(b"tIME", bytes(7))]},
    ],
)
def test_the_kernel_gives_the_librarys_pixels(colours, how):
    data = png(np.random.default_rng(0), colours, **how)
    for channels in range(5):
        made = by_the_kernel(data, channels)
        assert made is not None
        np.testing.assert_array_equal(made, by_the_library(data, channels))
        np.testing.assert_array_equal(made, hr.image.decode_png(data, channels))


ORIENTATION = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\1\0\0\0\6\0\0\0\0\0\0\0"


def special(rng):
    end, plain = chunk(b"IEND"), png(rng)
    yield "transparent colour", png(rng, RGB, before=[(b"tRNS", bytes(6))])
    yield "transparent grey", png(rng, GREY, before=[(b"tRNS", b"\0\3")])
    yield "a palette's alpha", png(rng, PALETTE, before=[(b"tRNS", bytes(range(20)))])
    yield "a colour that the palette lacks", png(rng, PALETTE, known=3)
    yield "an orientation", png(rng, RGB, before=[(b"eXIf", ORIENTATION)])
    yield "an animation", png(rng, RGBA, before=[(b"acTL", struct.pack(">II", 1, 0))])
    yield "bytes behind the pixels", plain.removesuffix(end) + chunk(b"IDAT", b"more") + end
    yield "no end", plain.removesuffix(end)
    yield "an unknown chunk that matters", png(rng, before=[(b"ABCD", b"")])
    yield "an unknown chunk that does not", png(rng, before=[(b"abCd", b"")])
    yield "a filter that there is not", png(rng, filters=[0, 0, 5, 0, 0, 0, 0, 0, 0])
    yield "a line too few", png(rng, filters=[0] * 8)
    yield "a distance beyond the window", png(rng, size=(200, 200)).replace(b"\x78\x9c", b"\x08\x1d", 1)


def outcome(decode, data, channels):
    try:
        return decode(data, channels)
    except hr.ParseError:
        return None


@pytest.mark.parametrize("channels", [0, 1, 3, 4])
def test_what_is_not_plain_is_what_the_library_makes_of_it(channels):
    for name, data in special(np.random.default_rng(1)):
        ours, theirs = (outcome(decode, data, channels) for decode in (hr.image.decode_png, by_the_library))
        assert (ours is None) == (theirs is None), name
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_of_damaged_bytes_the_kernel_makes_nothing_else_than_the_library():
    rng = np.random.default_rng(2)
    agreed = 0
    for _ in range(600):
        whole = png(rng, list(CHANNELS)[rng.integers(5)], (6, 5), pieces=int(rng.integers(1, 3)))
        data = b"".join(
            chunk(name, change(rng, content) if rng.random() < 0.3 else content) for name, content in chunks(whole)
        )
        try:
            made = by_the_kernel(whole[:8] + data)
        except hr.ParseError:
            continue
        if made is not None:
            agreed += 1
            np.testing.assert_array_equal(made, by_the_library(whole[:8] + data))
    assert 100 < agreed < 600, "some changes do not matter"


def chunks(data):
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def change(rng, content):
    """With one bit another, and a checksum that fits."""
    hurt = bytearray(content)
    if hurt:
        hurt[int(rng.integers(len(hurt)))] ^= 1 << int(rng.integers(8))
    return bytes(hurt)


def test_plain_and_rare_ones_go_together():
    rng = np.random.default_rng(3)
    plain, rare = png(rng, RGB, (9, 7)), png(rng, RGB, (9, 7), before=[(b"tRNS", bytes(6))])
    large = png(rng, RGB, (20, 10))
    data = [plain, rare, plain, large, rare]
    made = list(hr.Dataset.from_tensor_slices(data).map(lambda b: hr.image.decode_png(b, 3)))
    for ours, one in zip(made, data, strict=True):
        np.testing.assert_array_equal(ours, by_the_library(one, 3))


def test_a_damaged_one_is_one_error_among_good_ones():
    rng = np.random.default_rng(4)
    good = [png(rng, GREY, (8, 8)) for _ in range(5)]
    hurt = good[2][:-30] + bytes(18) + good[2][-12:]
    it = iter(hr.Dataset.from_tensor_slices([*good[:2], hurt, *good[3:]]).map(hr.image.decode_png))
    for one in good[:2]:
        np.testing.assert_array_equal(next(it), by_the_library(one))
    with pytest.raises(hr.ElementError, match=r"element 2.*PNG that is damaged"):
        next(it)
    assert [image.shape for image in it] == [(8, 8, 1)] * 2


def test_pngs_need_no_library_unless_they_are_rare(monkeypatch):
    from headrace.image import decode_rows

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(decode_rows, "image_library", missing)
    assert hr.image.decode_png(png(np.random.default_rng(0), RGBA)).shape == (9, 7, 4)
