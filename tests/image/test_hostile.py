"""Damaged and hostile images: refused before memory is taken, in little time, and with nothing on standard error."""

import io
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest
from PIL import Image

import headrace as hr
from headrace.image import jpeg_scans
from headrace.image.clean_png import SIGNATURE, clean_png
from tests.image.pictures import picture

I = hr.image  # noqa: E741


def chunk(kind, body, *, length=None, crc=None):
    size = struct.pack(">I", len(body) if length is None else length)
    return size + kind + body + struct.pack(">I", zlib.crc32(kind + body) if crc is None else crc)


def png(width=3, height=2, depth=16, colour=2, interlace=0, *, pixels=None, between=b"", **last):
    """A PNG of any kind, also of wrong ones."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    wide = 1 + (width * depth * samples + 7) // 8
    body = zlib.compress(bytes(wide * height) if pixels is None else pixels)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return SIGNATURE + chunk(b"IHDR", head) + between + chunk(b"IDAT", body, **last) + chunk(b"IEND", b"")


def saved(image, kind, **how):
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


HOSTILE = {
    "a chunk of 4 GB": png(length=0xFFFFFFFF),
    "67 bytes of a chunk of 4 GB": png(1, 1, 8, 0, length=0xFFFFFFFF)[:67],
    "a text of 2 GB": png(between=chunk(b"iTXt", b"x", length=0x7FFFFFFF)),
    "an unknown critical chunk": png(between=chunk(b"ABCD", b"x")),
    "a wrong checksum": png(crc=1),
    "too few pixels": png(pixels=bytes(5)),
    "too few bytes for its pixels": png(10_000, 10_000, pixels=bytes(100)),
    "a wrong filter": png(pixels=bytes([9]) * 38),
    "no palette": png(depth=8, colour=3),
    "a depth that is not": png(depth=8).replace(struct.pack(">IIB", 3, 2, 8), struct.pack(">IIB", 3, 2, 7)),
    "it ends": png()[:-14],
    "a huge JPEG of no bytes": b"\xff\xd8\xff\xc0\x00\x11\x08\x2d\x00\x2d\x00\x03" + b"\x01\x11\x00" * 3 + b"\xff\xd9",
}


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if "JPEG" not in kind])
def test_is_refused(kind):
    with pytest.raises(hr.ParseError, match=r"damaged|breaks off"):
        I.decode_png(HOSTILE[kind], dtype=np.uint16)


def test_is_refused_before_memory_is_taken():
    code = f"""
        import resource, sys
        import numpy as np
        import headrace as hr
        hr.image.decode_image(hr.image.encode_png(np.zeros((2, 2, 3), np.uint8)))
        hr.image.decode_image(hr.image.encode_jpeg(np.zeros((2, 2, 3), np.uint8)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for data in {list(HOSTILE.values())!r}:
            for dtype in ("uint8", "uint16"):
                try:
                    hr.image.decode_image(data, dtype=dtype)
                except hr.ParseError:
                    continue
                sys.exit("it was decoded")
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        sys.exit(f"{{taken}} kB were taken" if taken > 20_000 else 0)
    """
    made = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")


def test_nothing_is_printed(capfd):
    good = [I.encode_png(picture(9, 7)), I.encode_png(picture(9, 7).astype(np.uint16) * 99)]
    good += [I.encode_jpeg(picture(24, 24)), saved(Image.fromarray(picture(20, 20)).convert("CMYK"), "JPEG")]
    good += [saved(Image.fromarray(picture(20, 20)), kind) for kind in ("BMP", "GIF", "WEBP")]
    good += [saved(Image.fromarray(picture(20, 20)).convert("P"), "PNG"), png(depth=4, colour=0, interlace=1, width=8)]
    rng = np.random.default_rng(3)
    refused = 0
    for data in [*HOSTILE.values(), *good]:
        for _ in range(60):
            hurt = bytearray(data)
            for at in rng.integers(len(hurt), size=2):
                hurt[at] = int(rng.integers(256))
            try:
                I.decode_image(bytes(hurt[: int(rng.integers(len(hurt) // 2, len(hurt) + 1))]), max_pixels=1 << 20)
            except hr.ParseError:
                refused += 1
    assert refused > 500
    assert capfd.readouterr() == ("", "")


def gif(*frames, canvas=(4, 3)):
    """A GIF of frames of one pixel that state these sizes."""
    made = b"GIF89a" + struct.pack("<HH", *canvas) + bytes([0x80, 0, 0]) + bytes(6)
    for size in frames:
        made += b"," + struct.pack("<HHHHB", 0, 0, *size, 0) + b"\x02\x02\x44\x01\x00"
    return made + b";"


HOSTILE_GIFS = {
    "a later frame that is larger": (gif((4, 3), (60_000, 60_000)), "frame 1 goes beyond the 3 × 4 pixels"),
    "a first frame that is larger": (gif((60_000, 60_000)), "1 frames of 60000 × 60000 pixels, more than max_pixels"),
    "many frames": (gif(*[(4000, 4000)] * 20), "20 frames of 4000 × 4000 pixels, more than max_pixels"),
    "one that breaks off": (gif((4, 3))[:24], "the GIF breaks off"),
    "no frames": (gif(), "cannot be decoded"),
}


@pytest.mark.parametrize("what", HOSTILE_GIFS)
@pytest.mark.filterwarnings("error")
def test_the_frames_of_a_gif_are_measured_before_one_is_decoded(what):
    data, said = HOSTILE_GIFS[what]
    with pytest.raises(hr.ParseError, match=said):
        I.decode_gif(data)


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16"])
def test_a_clean_png_has_the_same_pixels(mode, interlace):
    cv2 = pytest.importorskip("cv2")
    if mode == "I;16":
        data = I.encode_png(picture(13, 17, 1).astype(np.uint16) * 200)
    else:
        data = saved(Image.fromarray(picture(13, 17)).convert(mode), "PNG", pnginfo=None)
    if interlace:
        data = interlaced(data)
    made = cv2.imdecode(clean_png(np.frombuffer(data, np.uint8), 0), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(made, cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED))


def interlaced(data):
    """The same size and kind of PNG, interlaced, with pixels at random."""
    head = list(struct.unpack(">IIBBBBB", data[16:29]))
    width, height, depth, colour = head[:4]
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    rng, rows = np.random.default_rng(1), []
    for x, y, dx, dy in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        wide = (-(-(width - x) // dx) * bits + 7) // 8
        rows += [b"\0" + rng.bytes(wide)] * -(-(height - y) // dy)
    start = data.index(b"PLTE") - 4 if b"PLTE" in data else 0
    palette = data[start : data.index(b"IDAT") - 4] if start else b""
    head[6] = 1
    body = chunk(b"IDAT", zlib.compress(b"".join(rows)))
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", *head)) + palette + body + chunk(b"IEND", b"")


def many_scans(count, size=(64, 64)):
    """A progressive JPEG whose last scan comes again and again."""
    data = I.encode_jpeg(picture(*size), progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + b"\xff\xd9"


def test_a_jpeg_of_many_scans_is_bounded_by_scans_times_pixels(monkeypatch):
    data = many_scans(300)
    assert jpeg_scans._count_scans(data) >= 300
    monkeypatch.setattr(jpeg_scans, "MAX_SCAN_PIXELS", 64 * 64 * 300)
    with pytest.raises(hr.ParseError, match=r"scans over 64 × 64 pixels"):
        I.decode_jpeg(data)
    monkeypatch.setattr(jpeg_scans, "MAX_SCAN_PIXELS", 64 * 64 * 400)
    assert I.decode_jpeg(data, try_recover_truncated=True).shape == (64, 64, 3)
    usual = I.encode_jpeg(picture(64, 64), progressive=True)
    monkeypatch.setattr(jpeg_scans, "MAX_SCAN_PIXELS", 0)
    np.testing.assert_array_equal(I.decode_jpeg(usual)[0], I.decode_jpeg(usual)[0])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_jpeg_of_four_colours_has_the_pixels_of_opencv(channels):
    cv2 = pytest.importorskip("cv2")
    data = saved(Image.fromarray(picture(40, 56)).convert("CMYK"), "JPEG", quality=90)
    flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR_RGB
    want = cv2.imdecode(np.frombuffer(data, np.uint8), flag).reshape(40, 56, channels)
    np.testing.assert_array_equal(I.decode_jpeg(data, channels=channels), want)
    with pytest.raises(hr.ParseError, match="breaks off"):
        I.decode_jpeg(data[: len(data) // 2], channels=channels)


def test_a_small_jpeg_of_one_colour_is_not_taken_for_one_that_breaks_off():
    plain = np.full((3000, 3000, 1), 200, np.uint8)
    data = saved(Image.fromarray(plain[:, :, 0]), "JPEG", quality=5, optimize=True, progressive=True)
    assert len(data) * 512 > plain.size
    np.testing.assert_allclose(I.decode_jpeg(data), plain, atol=8)


def with_wrong_table(data):
    """The same JPEG, the last Huffman table of which says that it has no length: no decoder reads on."""
    at = data.rindex(b"\xff\xc4")
    return data[: at + 2] + b"\x00\x01" + data[at + 4 :]


@pytest.mark.parametrize("recover", [False, True])
@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_that_the_decoder_gives_up_is_an_error(mode, ratio, recover):
    """And not the pixels that were in the memory before."""
    whole = saved(Image.fromarray(picture(40, 52)).convert(mode), "JPEG", progressive=True)
    assert I.decode_jpeg(whole, 3, ratio=ratio).shape == (40 // ratio, 52 // ratio, 3)
    with pytest.raises(hr.ParseError, match="damaged: Bogus marker length"):
        I.decode_jpeg(with_wrong_table(whole), 3, ratio=ratio, try_recover_truncated=recover)


FLAWS = {
    "bytes before the pixels": lambda data, pixels: data[:pixels] + b"\x07\xff\x00\x09\xff" + data[pixels:],
    "bytes before the size": lambda data, _: data.replace(b"\xff\xc0", b"\x07\xff\x00\x09\xff\xff\xc0", 1),
    "bytes before the end": lambda data, _: data[:-2] + bytes(9) + data[-2:],
    "JFIF 0.00": lambda data, _: data.replace(b"JFIF\x00\x01\x01", b"JFIF\x00\x00\x00"),
    "all of these": lambda data, pixels: FLAWS["JFIF 0.00"](
        FLAWS["bytes before the end"](FLAWS["bytes before the pixels"](data, pixels), 0), 0
    ),
}


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("value", [0, 90, 255])
def test_a_flaw_that_loses_no_pixels_is_skipped(flaw, mode, value):
    """As other decoders do, with a warning; such files are among the public datasets of photographs."""
    whole = saved(Image.new(mode, (16, 16), (value,) * len(mode) if len(mode) > 1 else value), "JPEG")
    if mode == "CMYK" and "JFIF" in flaw:
        pytest.skip("CMYK is not stored with this header")
    flawed = FLAWS[flaw](whole, whole.rindex(b"\xff\xda"))
    assert flawed != whole
    np.testing.assert_array_equal(I.decode_jpeg(flawed, 3), I.decode_jpeg(whole, 3))
    np.testing.assert_array_equal(I.decode_and_resize(flawed, (4, 4)), I.decode_and_resize(whole, (4, 4)))


def test_a_jpeg_with_a_flawed_header_that_breaks_off_is_an_error():
    whole = I.encode_jpeg(picture(40, 52))
    for data in (whole[: len(whole) // 2], whole[: len(whole) // 2] + whole[-2:], whole[:-2]):
        with pytest.raises(hr.ParseError, match="damaged or breaks off"):
            I.decode_jpeg(data.replace(b"JFIF\x00\x01\x01", b"JFIF\x00\x00\x00"), 3)
