"""Fuzz all decoders of bytes that come from elsewhere, with a bound on the memory of the process.

    python -m tests.fuzz.decoders --runs 250000 --seed 1

Images (with OpenCV and simplejpeg underneath), JSON, tar files, gzip, zlib and zstd data, `.npy` files. An input either
decodes or raises ParseError or DamagedError; anything else, and any need for more memory than the bound, ends the run.
"""

import argparse
import gzip
import io
import json
import random
import resource
import struct
import sys
import tarfile
import tempfile
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

import headrace as hr
from headrace.formats.shared.format import Bad, ScanHints
from headrace.formats.shared.unpack import DamagedError, unpack_bytes
from headrace.formats.webdataset.format import TarSamples
from headrace.formats.webdataset.tar import samples
from headrace.sources.webdataset import DECODERS

MEMORY_BYTES = 1 << 30
MAX_PIXELS = 1 << 25
"""For kinds whose libraries hold several copies of an image; PNG and JPEG have the default."""
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def images():
    """Small pictures of all kinds."""
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (9, 14, 3), np.uint8))
    made = []
    for mode, kind, how in (
        ("RGB", "PNG", {}), ("L", "PNG", {}), ("P", "PNG", {}), ("1", "PNG", {}), ("LA", "PNG", {}),
        ("RGBA", "PNG", {}), ("RGB", "JPEG", {}), ("L", "JPEG", {}), ("CMYK", "JPEG", {}),
        ("RGB", "JPEG", {"progressive": True}),
        ("RGB", "GIF", {}), ("RGB", "BMP", {}), ("P", "BMP", {}), ("RGB", "WEBP", {}),
        ("RGBA", "WEBP", {"lossless": True}),
    ):  # fmt: skip
        out = io.BytesIO()
        picture.convert(mode).save(out, kind, **how)
        made.append(out.getvalue())
    deep = rng.integers(0, 65535, (5, 6, 3)).astype(np.uint16)
    return [*made, hr.image.encode_png(deep)]


def archive():
    """A tar file of two samples."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("a.cls", "a.txt", "b.cls", "b" + "long" * 40 + ".txt"):
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"12345"))
    return out.getvalue()


def pages():
    nested = {"x": [1, 2, [3, {"y": None}]], "z": "text\u2603", "w": 1e300, "v": True, "u": {"t": {"s": []}}}
    return [json.dumps(nested).encode(), b'{"x": 1}', b'{"x": ' + b"[" * 50 + b"]" * 50 + b"}"]


def packed():
    text = b"some lines\n" * 40
    zstd = pa.Codec("zstd").compress(text, asbytes=True)
    return [gzip.compress(text), gzip.compress(text) * 2, zlib.compress(text), zstd]


def arrays():
    out = io.BytesIO()
    np.save(out, np.arange(12, dtype=np.float32).reshape(3, 4))
    return [out.getvalue()]


def decode_picture(data, chance):
    small = data[:4] in (b"GIF8", b"RIFF") or data[:2] == b"BM"
    how = {"max_pixels": MAX_PIXELS} if small else {}
    if data[:4] == b"GIF8" and chance.random() < 0.5:
        hr.image.decode_gif(data, **how)
        return
    hr.image.decode_image(data, channels=chance.choice([0, 1, 3, 4]), dtype=chance.choice(["uint8", "uint16"]), **how)


def decode_archive(data, _):
    content = np.frombuffer(data, np.uint8)
    found = TarSamples("", ("cls", "txt")).scan(content, ScanHints(first=True, final=True))
    assert all(isinstance(part, Bad) or part.rows for part in found.parts)
    try:
        list(samples(content, final=True))
    except ValueError as error:
        raise hr.ParseError(str(error)) from None


def decode_page(data, chance):
    fields = chance.choice([None, {"x": "int64"}, {"x": np.float32, "w": 1.0}, {"z": "S", "q": 3}])
    hr.io.decode_json(data, fields)


def decode_packed(data, chance):
    kind = "GZIP" if data[:2] == b"\x1f\x8b" else "ZSTD" if data[:1] == b"\x28" else "ZLIB"
    kind = kind if chance.random() < 0.9 else chance.choice(["GZIP", "ZLIB", "ZSTD"])
    unpack_bytes(data, kind, 1 << 22)


def decode_array(data, _):
    DECODERS["npy"](data)


TARGETS = {
    "image": (images, decode_picture),
    "tar": (lambda: [archive()], decode_archive),
    "json": (pages, decode_page),
    "packed": (packed, decode_packed),
    "npy": (arrays, decode_array),
}
OUT_OF_MEMORY = ("Insufficient memory", "OutOfMemory", "bad_alloc", "MemoryError")
REFUSED = (hr.ParseError, DamagedError)


def mutated(data, chance):
    hurt = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        kind = chance.randrange(6)
        at = chance.randrange(len(hurt)) if hurt else 0
        if kind == 0 and hurt:
            hurt[at] = chance.randrange(256)
        elif kind == 1 and hurt:
            hurt[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            value, order = chance.choice(INTERESTING), chance.choice("<>")
            hurt[at : at + 4] = struct.pack(f"{order}I", value)[: max(1, len(hurt) - at)]
        elif kind == 3:
            hurt[at : at + chance.randrange(12)] = b""
        elif kind == 4:
            hurt[at:at] = hurt[at : at + chance.randrange(40)]
        elif kind == 5:
            hurt = hurt[: chance.randrange(len(hurt) + 1)]
    return bytes(hurt)


def repaired(data, chance):
    """The same with right checksums in a PNG, sometimes: else nothing behind them is reached."""
    if data[:4] != b"\x89PNG" or chance.random() < 0.3:
        return data
    made, at = bytearray(data), 8
    while at + 12 <= len(made):
        (length,) = struct.unpack_from(">I", made, at)
        if length > len(made) - at - 12:
            break
        struct.pack_into(">I", made, at + 8 + length, zlib.crc32(bytes(made[at + 4 : at + 8 + length])))
        at += 12 + length
    return bytes(made)


def run(runs, seed, names=tuple(TARGETS)):
    """Returns how many inputs of each target were decoded, and how many refused."""
    corpora = {name: TARGETS[name][0]() for name in names}
    with warnings.catch_warnings(record=True, action="always") as warned:
        return _run(runs, seed, corpora, warned)


def _run(runs, seed, corpora, warned):
    chance, counts, names = random.Random(seed), Counter(), tuple(corpora)
    for number in range(runs):
        name = names[number % len(names)]
        data = repaired(mutated(chance.choice(corpora[name]), chance), chance)
        try:
            TARGETS[name][1](data, chance)
            assert not warned, warned[0].message
        except REFUSED as error:
            if any(words in str(error) for words in OUT_OF_MEMORY):
                raise MemoryError(f"{name}: {error}") from error
            counts[f"{name} refused"] += 1
            assert not warned, warned[0].message
        except BaseException:
            kept = Path(tempfile.gettempdir(), f"headrace-fuzz-{name}")
            kept.write_bytes(data)
            print(f"seed {seed}, run {number}: the input is in {kept}", file=sys.stderr)
            raise
        else:
            counts[f"{name} decoded"] += 1
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TARGETS, action="append")
    how = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        counts = run(how.runs, how.seed, tuple(how.only or TARGETS))
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{how.runs} inputs, at most {peak / 1024:.0f} MB: {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    main()
