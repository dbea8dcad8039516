"""Fuzz the kernel of JPEGs against simplejpeg: a changed file has the same pixels, or is refused by the kernel.

python -m tests.fuzz.jpegs --seconds 600
"""

import io
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

from headrace import _native
from tests.fuzz import command
from tests.fuzz.decoders import mutated
from tests.image.pictures import picture

MOST_PIXELS = 1 << 20
LEAST = 300
"""So many inputs are tried, however busy the machine is."""


def files(chance):
    """Small baseline JPEGs of many kinds."""
    made = []
    for number in range(40):
        height, width = chance.randint(1, 60), chance.randint(1, 60)
        image = Image.fromarray(picture(height, width, seed=number)).convert("L" if number % 5 == 0 else "RGB")
        how = {"subsampling": number % 3, "quality": chance.choice([10, 50, 90, 100]), "optimize": number % 2 == 0}
        if number % 4 == 0:
            how["restart_marker_blocks"] = chance.randint(1, 9)
        out = io.BytesIO()
        image.save(out, "JPEG", **how)
        made.append(out.getvalue())
        for sampling in ("440", "411"):
            made.append(simplejpeg.encode_jpeg(picture(height, width, seed=number), 80, colorsubsampling=sampling))
    return made


def hurt_pixels(data, chance):
    """Change bytes of the entropy code only: more of these files are still decoded."""
    hurt = bytearray(data)
    start = data.rindex(b"\xff\xda")
    for _ in range(chance.randint(1, 3)):
        hurt[chance.randrange(start, len(hurt))] = chance.randrange(256)
    return bytes(hurt)


def agree(data, chance):
    """Return whether the kernel decodes a file; AssertionError if simplejpeg gives other pixels."""
    values, found = np.frombuffer(data, np.uint8), np.empty((1, 5), np.int64)
    offsets = np.array([0, len(values)])
    if _native.image_headers(values, offsets, 1, MOST_PIXELS, found) >= 0:
        return False
    height, width = found[0, 1:3].tolist()
    channels, fast_dct, fast_upsampling = chance.choice([1, 3]), chance.random() < 0.5, chance.random() < 0.5
    out, made = np.zeros(height * width * channels, np.uint8), np.zeros(1, np.bool_)
    shapes, windows = np.array([[height, width, channels]]), np.array([[0, 0, height, width, 0]])
    _native.decode_jpegs(values, offsets, shapes, windows, fast_dct, fast_upsampling, np.zeros(1, np.int64), out, made)
    if not made[0]:
        return False
    colours = "GRAY" if channels == 1 else "RGB"
    wanted = simplejpeg.decode_jpeg(data, colours, fastdct=fast_dct, fastupsample=fast_upsampling)
    np.testing.assert_array_equal(out.reshape(height, width, channels), wanted)
    return True


def run(seconds, seed):
    chance = random.Random(seed)
    known, until = files(chance), time.monotonic() + seconds
    runs = decoded = 0
    while time.monotonic() < until or runs < LEAST:
        data = chance.choice([mutated, hurt_pixels])(chance.choice(known), chance)
        try:
            decoded += agree(data, chance)
        except BaseException:
            kept = Path(tempfile.gettempdir(), "headrace-fuzz-jpegs")
            kept.write_bytes(data)
            print(f"seed {seed}, run {runs}: the input is in {kept}", file=sys.stderr)
            raise
        runs += 1
    return runs, decoded


if __name__ == "__main__":
    command.main("jpegs", __doc__, run, "changed", "decoded")
