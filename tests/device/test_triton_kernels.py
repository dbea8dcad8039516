"""The kernels of a GPU, run by Triton's interpreter: they give what PyTorch's operations give, to the bit."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

BOTH = """
import numpy as np
import torch

from headrace.device import triton_kernels as kernels
from headrace.device.machine import Machine
from headrace.device.pixels import Pixels
from headrace.image.on_device import resizing

machine, rng = Machine("cpu"), np.random.default_rng(0)

def check(made, wanted):
    assert made.dtype == wanted.dtype and torch.equal(made, wanted)

for dtype in ("uint8", "int16", "float16", "float32"):
    for channels in (1, 3):
        images = machine.put(rng.integers(0, 256, (3, 19, 23, channels)).astype(dtype))
        whole = Pixels.of(images)
        tops, lefts, heights, widths = np.array([[1, 0, 3], [2, 0, 1], [9, 19, 1], [7, 23, 11]])
        flags = np.array([True, False, True])
        crops = whole.cropped(tops, lefts, heights, widths).mirrored(flags, 1)
        for size in ((8, 13), (30, 41), (1, 1)):
            check(kernels.bilinear(machine, crops, *size), resizing._bilinear(machine, crops, *size))
        y, x = rng.integers(0, heights[:, None], (3, 6)), rng.integers(0, widths[:, None], (3, 400))
        check(kernels.gather(machine, crops, y, x), crops.gather(machine, y, x))
        turned = whole.transposed().mirrored(flags, 0)
        check(kernels.copy(machine, turned), turned.dense(machine))
kernels.try_out(machine)
assert not kernels.fits(Pixels.of(torch.zeros((1, 2, 2, 1), dtype=torch.bool)), 2)
print("equal")
"""


def test_kernels_give_the_pixels_of_pytorch(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run([sys.executable, "-c", BOTH], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
