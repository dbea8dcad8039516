"""Builds the fuzz targets with AddressSanitizer and UndefinedBehaviorSanitizer, and runs them.

python -m tests.fuzz.fuzz --seconds 600
"""

import argparse
import ctypes.util
import fcntl
import hashlib
import io
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from headrace import _native
from headrace.image import encode_jpeg, encode_png
from tests.by_hand import Generator, sequence_example, steps
from tests.cutting import tar
from tests.image.pictures import picture

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src" / "native"
KERNELS = {
    "records": ["crc32c", "records"],
    "example": ["encode", "example"],
    "csv": ["csv"],
    "cut": ["csv", "cut", "tar"],
    "hashing": ["features", "hashing", "id_program"],
    "sqlite": ["linked", "sqlite"],
    "image": ["image_colour", "image_header", "image_resize", "image_scale", "inflate", "png", "team"],
    "jpeg": [
        "image_header",
        "image_jpeg",
        "image_resize",
        "image_scale",
        "jpeg_decoder",
        "jpeg_file",
        "jpeg_huffman",
        "jpeg_pixels",
        "jpeg_pixels_avx2",
        "team",
    ],
    "text": ["byte_map", "text", "unicode"],
    "text_pool": ["text_pool"],
    "shuffle": ["packed_rows", "shuffle", "team"],
}
PLAIN = ["-std=c++17", "-O2", "-g1"]
CHECKS = [*PLAIN, "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SQLITE = ctypes.util.find_library("sqlite3")
if SQLITE is None:  # a Python that has it hidden in itself
    del KERNELS["sqlite"]
LIBRARIES = {"sqlite": ["-ldl", "-pthread"]}
OPTIONS = {
    "SQLITE_LIBRARY": SQLITE or "",
    "ASAN_OPTIONS": "handle_abort=1:max_allocation_size_mb=64:allocator_may_return_null=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def compiler():
    """A C++ compiler that can do it, or None."""
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if not found:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "x.cc"), Path(folder, "x")
        source.write_text("int main() {}\n")
        made = subprocess.run([found, *CHECKS, source, "-o", program], capture_output=True, check=False)
        works = made.returncode == 0 and subprocess.run([program], check=False).returncode == 0
    return found if works else None


def build(cxx, folder):
    """One program per target; only the kernels report coverage to the driver."""

    def compiled(source, *flags):
        made = folder / f"{source.parent.name}-{source.stem}.o"
        subprocess.run([cxx, *flags, "-c", source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor(2) as pool:
        common = [pool.submit(compiled, HERE / f"{name}.cc", *PLAIN) for name in ("driver", "memory")]
        objects = {name: [pool.submit(compiled, HERE / f"{name}.cc", *CHECKS)] for name in KERNELS}
        for name, kernels in KERNELS.items():
            watched = [*CHECKS, "-fsanitize-coverage=trace-pc"]
            objects[name] += [pool.submit(compiled, NATIVE / f"{kernel}.cc", *watched) for kernel in kernels]
        for name, jobs in objects.items():
            parts = [j.result() for j in (*common, *jobs)]
            subprocess.run([cxx, *CHECKS, *parts, "-o", folder / name, *LIBRARIES.get(name, [])], check=True)
    return {name: folder / name for name in KERNELS}


def build_once(cxx, folder):
    """Build into a folder that is kept, unless the programs there are of the same sources, compiler and flags."""
    sources = sorted(path for place in (HERE, NATIVE) for path in place.iterdir() if path.suffix in (".cc", ".h"))
    version = subprocess.run([cxx, "--version"], capture_output=True, check=True).stdout
    found = hashlib.sha256(version + repr((PLAIN, CHECKS, sorted(KERNELS.items()), LIBRARIES)).encode())
    for path in sources:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the same run may be building
        built = folder / "built"
        if not built.exists() or built.read_text() != found.hexdigest():
            built.unlink(missing_ok=True)
            build(cxx, folder)
            built.write_text(found.hexdigest())
    return {name: folder / name for name in KERNELS}


def seeds(folder):
    """Inputs to begin with, by target."""
    chance = random.Random(0)
    generator = Generator(chance)
    for name in KERNELS:
        (folder / name).mkdir(parents=True)
    for number in range(60):
        record = generator.example({"i": None, "f": None, "b": None, "i2": 2})
        lists = [steps(n.encode(), *(generator.feature(n, 2) for _ in range(3))) for n in ("i", "f", "b")]
        (folder / "example" / f"{number}").write_bytes(record if number % 2 else sequence_example([], lists) + record)
        offsets = np.array([0, chance.randint(0, 9), chance.randint(9, 99)])
        framed = _native.frame(np.zeros(200, np.uint8), offsets)
        (folder / "records" / f"{number}").write_bytes(framed.tobytes())
        values = [str(chance.randint(-(10**12), 10**12)), repr(chance.uniform(-9, 9)), '"a ""b""\n,;"', "NA", ""]
        lines = [",;"[number % 2].join(chance.choices(values, k=5)).encode() for _ in range(3)]
        end = chance.choice([b"\n", b"\r\n", b"\r"])
        (folder / "text" / f"{number}").write_bytes(
            chance.randbytes(2) + "a ,Bé €\t😀12.5".encode() * 3 + chance.randbytes(9)
        )
        (folder / "hashing" / f"{number}").write_bytes(chance.randbytes(chance.randint(1, 300)))
        (folder / "text_pool" / f"{number}").write_bytes(chance.randbytes(chance.randint(1, 300)))
        (folder / "shuffle" / f"{number}").write_bytes(chance.randbytes(chance.randint(1, 300)))
        stored = small_database(folder / "small.db", chance) if number % 2 else chance.randbytes(9 * (number % 20) + 3)
        (folder / "sqlite").mkdir(exist_ok=True)
        (folder / "sqlite" / f"{number}").write_bytes(bytes([number % 2, chance.randrange(256)]) + stored)
        pixels = bytes(chance.choices(range(number + 1), k=60))
        image = [
            encode_png(np.frombuffer(pixels, np.uint8).reshape(4, 5, 3)),
            encode_jpeg(np.frombuffer(pixels, np.uint8).reshape(4, 5, 3)),
            zlib.compress(pixels * 5, number % 10),
            pixels,
        ][number % 4]
        (folder / "image" / f"{number}").write_bytes(bytes([number % 4, chance.randrange(256)]) + image)
        file = small_jpeg(number, chance)
        (folder / "jpeg" / f"{number}").write_bytes(bytes([number % 8, chance.randrange(256)]) + file)
        (folder / "csv" / f"{number}").write_bytes(bytes([chance.randrange(256)]) + end.join(lines))
        archive = tar([(f"{i // 2}.{'xyX'[i % 3]}", chance.randbytes(9 * i)) for i in range(number % 4)])[:3000]
        cut = [end.join(lines * 4), archive, b'{"a": 1}\n \t\n\n{}\r\n' * 9][number % 3]
        (folder / "cut" / f"{number}").write_bytes(chance.randbytes(4) + cut)


def small_jpeg(number, chance):
    """The bytes of a JPEG of one of the kinds that are decoded."""
    pixels = picture(chance.randint(1, 40), chance.randint(1, 40), 1 if number % 5 == 0 else 3, seed=number)
    out = io.BytesIO()
    how = {"restart_marker_blocks": chance.randint(1, 5)} if number % 3 == 0 else {}
    Image.fromarray(pixels.squeeze(2) if number % 5 == 0 else pixels).save(
        out, "JPEG", quality=chance.choice([10, 60, 90]), subsampling=number % 3, optimize=number % 2 == 0, **how
    )
    return out.getvalue()


def small_database(path, chance):
    """The bytes of a file of SQLite's, of a few rows of all kinds of values."""
    path.unlink(missing_ok=True)
    values = [
        None,
        0,
        1,
        -(1 << 63),
        (1 << 63) - 1,
        0.5,
        float("inf"),
        "",
        "a\0b",
        "é" * 40,
        b"",
        b"\xff" * 30,
        "x" * 700,
    ]
    db = sqlite3.connect(path)
    encoding = chance.choice(["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"])
    db.executescript(
        f"PRAGMA page_size = 512; PRAGMA encoding = '{encoding}'; CREATE TABLE t (a, b INTEGER, c REAL, d TEXT)"
    )
    db.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?)", [chance.choices(values, k=4) for _ in range(chance.randint(0, 8))]
    )
    db.commit()
    db.close()
    return path.read_bytes()


def run(program, corpus, seconds, seed, crash):
    """What the run has to say; AssertionError if an input broke the target."""
    command = [program, str(seconds), str(seed), corpus, crash]
    environment = {**os.environ, **OPTIONS}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 600, env=environment)
    if done.returncode:
        raise AssertionError(f"{program.name} broke, the input is in {crash}\n{done.stderr}")
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for each target (default 600)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    cxx = compiler()
    if cxx is None:
        sys.exit("fuzzing needs a C++ compiler with address and undefined-behaviour sanitizers: g++ or clang++")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = build(cxx, folder)
        seeds(folder / "seeds")
        for target, program in programs.items():
            crash = Path(tempfile.gettempdir(), f"headrace-fuzz-{target}")
            said = run(program, folder / "seeds" / target, options.seconds, options.seed, crash)
            print(f"{target} (seed {options.seed}): {said}", flush=True)


if __name__ == "__main__":
    main()
