"""Triton kernels that read pixels at computed positions: no tensor of indices, and nothing between the steps.

Imported only by `Machine.kernels`, on a GPU. Products and sums are rounded one by one
(`enable_fp_fusion=False`), so that the results are those of PyTorch's operations to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import triton
import triton.language as tl

from headrace.device.pixels import Numbers, Pixels

if TYPE_CHECKING:
    from headrace.core.types import TorchTensor
    from headrace.device.machine import Machine

BLOCK = 1024
"""Values that one program computes at a time."""
MAX_HEIGHT = 65_535
"""The second axis of a grid has no more programs."""
DTYPES = {"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}


@triton.jit
def _gather_kernel(flat, out, table, rows, columns, height, row_values, channels: tl.constexpr, block: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    y = tl.program_id(1)
    here = table + image * 7
    down, across, deep = tl.load(here + 1), tl.load(here + 2), tl.load(here + 3)
    line = flat + tl.load(here) + tl.load(rows + image * height + y) * down
    to = out + (image * height + y) * row_values
    width = row_values // channels
    value = tl.program_id(2) * block + tl.arange(0, block)
    inside = value < row_values
    x = tl.load(columns + image * width + value // channels, mask=inside, other=0)
    found = tl.load(line + x * across + (value % channels).to(tl.int64) * deep, mask=inside)
    tl.store(to + value, found, mask=inside)


@triton.jit
def _copy_kernel(flat, out, table, height, row_values, channels: tl.constexpr, block: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    y = tl.program_id(1)
    here = table + image * 7
    down, across, deep = tl.load(here + 1), tl.load(here + 2), tl.load(here + 3)
    line = flat + tl.load(here) + y * down
    to = out + (image * height + y) * row_values
    value = tl.program_id(2) * block + tl.arange(0, block)
    inside = value < row_values
    x, channel = (value // channels).to(tl.int64), (value % channels).to(tl.int64)
    tl.store(to + value, tl.load(line + x * across + channel * deep, mask=inside), mask=inside)


@triton.jit
def _bilinear_kernel(flat, out, table, scales, height, row_values, channels: tl.constexpr, block: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    y = tl.program_id(1)
    here = table + image * 7
    down, across, deep = tl.load(here + 1), tl.load(here + 2), tl.load(here + 3)
    last_y, last_x = tl.load(here + 4) - 1, tl.load(here + 5) - 1
    at_y = (y.to(tl.float32) + 0.5) * tl.load(scales + image * 2) - 0.5
    above = tl.floor(at_y)
    part_y = at_y - above
    top = flat + tl.load(here) + tl.maximum(above.to(tl.int64), 0) * down
    bottom = flat + tl.load(here) + tl.minimum(tl.ceil(at_y).to(tl.int64), last_y) * down
    scale_x = tl.load(scales + image * 2 + 1)
    to = out + (image * height + y) * row_values
    value = tl.program_id(2) * block + tl.arange(0, block)
    inside = value < row_values
    at_x = ((value // channels).to(tl.float32) + 0.5) * scale_x - 0.5
    before = tl.floor(at_x)
    part_x = at_x - before
    channel = (value % channels).to(tl.int64) * deep
    left = tl.maximum(before.to(tl.int64), 0) * across + channel
    right = tl.minimum(tl.ceil(at_x).to(tl.int64), last_x) * across + channel
    a = tl.load(top + left, mask=inside, other=0).to(tl.float32)
    b = tl.load(top + right, mask=inside, other=0).to(tl.float32)
    c = tl.load(bottom + left, mask=inside, other=0).to(tl.float32)
    d = tl.load(bottom + right, mask=inside, other=0).to(tl.float32)
    upper = a + (b - a) * part_x
    lower = c + (d - c) * part_x
    tl.store(to + value, upper + (lower - upper) * part_y, mask=inside)


def fits(pixels: Pixels, height: int) -> bool:
    """Return whether the kernels read these images into `height` rows."""
    known = str(pixels.flat.dtype).removeprefix("torch.") in DTYPES
    return known and 0 < height <= MAX_HEIGHT and len(pixels) > 0 and bool((pixels.shapes[:, 2] > 0).all())


def gather(machine: Machine, pixels: Pixels, y: Numbers, x: Numbers) -> TorchTensor:
    """Return the pixels at rows `y[i]` and columns `x[i]` of image i."""
    count, height, width, channels = len(pixels), y.shape[1], x.shape[1], int(pixels.shapes[0, 2])
    out = machine.torch.empty((count, height, width, channels), dtype=pixels.flat.dtype, device=machine.device)
    tables = pixels.geometry(machine), machine.put(y.astype(np.int64)), machine.put(x.astype(np.int64))
    _gather_kernel[_grid(count, height, width * channels)](
        pixels.flat, out, *tables, height, width * channels, channels, BLOCK
    )
    return out


def copy(machine: Machine, pixels: Pixels) -> TorchTensor:
    """Return images of one shape as a tensor (images, height, width, channels)."""
    height, width, channels = map(int, pixels.shapes[0])
    out = machine.torch.empty((len(pixels), height, width, channels), dtype=pixels.flat.dtype, device=machine.device)
    _copy_kernel[_grid(len(pixels), height, width * channels)](
        pixels.flat, out, pixels.geometry(machine), height, width * channels, channels, BLOCK
    )
    return out


def bilinear(machine: Machine, pixels: Pixels, height: int, width: int) -> TorchTensor:
    """Return all images at one size, in float32, interpolated between the four nearest pixels."""
    count, channels = len(pixels), int(pixels.shapes[0, 2])
    out = machine.torch.empty((count, height, width, channels), dtype=machine.torch.float32, device=machine.device)
    scales = pixels.shapes[:, :2].astype(np.float32) / np.array([height, width], np.float32)
    tables = pixels.geometry(machine), machine.put(scales)
    _bilinear_kernel[_grid(count, height, width * channels)](
        pixels.flat, out, *tables, height, width * channels, channels, BLOCK, enable_fp_fusion=False
    )
    return out


def try_out(machine: Machine) -> None:
    """Compile and run a kernel. Raise whatever keeps Triton from it, such as a missing C compiler."""
    copy(machine, Pixels.of(machine.torch.zeros((1, 1, 1, 1), dtype=machine.torch.uint8, device=machine.device)))


def _grid(images: int, height: int, row_values: int) -> tuple[int, int, int]:
    """Return how many programs run: one for each block of values of each row of each image."""
    return images, height, -(-row_values // BLOCK)
