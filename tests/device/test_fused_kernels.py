"""Chains of operations on pixels as single kernels, run by Triton's interpreter: the bits of PyTorch's operations."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

SETUP = """
import numpy as np
import torch

import headrace as hr
from headrace.device import fused_kernels
from headrace.device.machine import machine_of

machine, image = machine_of("cpu"), hr.image
MEAN = np.float32([0.4, 0.5, 0.6])

def both(rows, change):
    made = []
    for fused in (None, fused_kernels):
        machine.__dict__["fused"] = fused
        elements = rows().random_map(change, seed=1, device="cpu")
        made.append([part for e in elements for part in (e if isinstance(e, tuple) else (e,))])
    for a, b in zip(*made, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (a.dtype, b.dtype)
    return made[0]
"""
CHAINS = """
colours = [
    image.random_flip_left_right,
    lambda x, rng: image.rot90(x),
    lambda x, rng: image.random_brightness(x, 0.2, rng),
    lambda x, rng: image.random_contrast(x, 0.5, 1.5, rng),
    lambda x, rng: image.random_saturation(x, 0.5, 1.5, rng),
    lambda x, rng: image.random_hue(x, 0.2, rng),
    lambda x, rng: image.grayscale_to_rgb(image.rgb_to_grayscale(x)),
    lambda x, rng: image.adjust_gamma(x, 0.7),
]
casts = [lambda x, rng, dtype=np.dtype(name): image.convert_image_dtype(x, dtype, saturate=True)
         for name in ("uint8", "int16", "int32", "float16", "float32")]
arithmetic = [
    lambda x, rng: (x / np.float32(255) - MEAN) / np.float32(0.3),
    lambda x, rng: np.clip(x * rng.random(), 0.1, 0.9).astype(np.float16),
    lambda x, rng: np.where(rng.random() < 0.5, x, 1 - x),
    lambda x, rng: np.maximum(-x, x - 1) + np.abs(x),
    lambda x, rng: x * np.float32(0.5) + x,
    lambda x, rng: (x > 100).astype(np.uint8) * x,
]
draws = np.random.default_rng(0)
pixels = draws.integers(0, 256, (4, 9, 11, 3), np.uint8)
pixels[0, :4] = 7  # grey
even = lambda: hr.Dataset.from_tensor_slices(pixels)
batches = lambda: even().batch(2)
uneven = lambda: hr.Dataset.from_generator(
    lambda: (pixels[i, : 4 + i] for i in range(4)), output_signature=hr.TensorSpec((None, None, 3), np.uint8))
for number in range(12):
    rows = (even, batches, uneven)[number % 3]
    steps = list(draws.choice(colours, 3)) + list(draws.choice(casts, 1)) + list(draws.choice(colours, 1))
    if rows is not uneven:
        steps += list(draws.choice(arithmetic, 2))

    def change(x, rng, steps=steps):
        for step in steps:
            before, x = x, step(x, rng)
        return x, before

    both(rows, change)
"""
NUMBERS = """
floats = np.float32([np.nan, np.inf, -np.inf, -0.0, 1e-40, 2.5, -7.9, 3e9, 255.4, 256.0, 1 / 3, 65504.0])
rows = lambda: hr.Dataset.from_tensor_slices(np.tile(floats, 9).reshape(1, 3, 12, 3))
for dtype in ("uint8", "int8", "int16", "int32", "float16", "float64"):
    both(rows, lambda x, rng: image.convert_image_dtype(x, np.dtype(dtype), saturate=True))
    both(rows, lambda x, rng: np.clip(x, 0, 200).astype(dtype) if dtype[0] == "f" else np.where(x > 0, x, 9) > 3)
both(rows, lambda x, rng: np.maximum(x, 1 / x) - np.minimum(x, np.float32(np.inf)))
assert np.isnan(both(rows, lambda x, rng: image.adjust_saturation(x.astype(np.float16), 2.0))[0]).any()
whole = lambda: hr.Dataset.from_tensor_slices(np.arange(-40, 41, dtype=np.int16).reshape(1, 3, 9, 3) * 800)
for change in (lambda x, rng: -(x * np.int16(3)) - x, lambda x, rng: image.convert_image_dtype(x, np.uint8)):
    both(whole, change)
fused_kernels.try_out(machine)
print("equal")
"""


def test_kernels_give_the_pixels_of_single_operations(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    command = [sys.executable, "-W", "ignore", "-c", SETUP + CHAINS + NUMBERS]  # some pixels compute 0 / 0
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
