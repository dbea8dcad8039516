"""A Triton kernel that makes colours of luma and chroma as libjpeg does, where one value of chroma is for some pixels.

Imported only where Triton is known to run: see `Machine.kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import triton
import triton.language as tl

if TYPE_CHECKING:
    from headrace.core.types import TorchTensor
    from headrace.device.machine import Machine
    from headrace.device.nvjpeg import Planes
    from headrace.device.pixels import Pixels

BLOCK = 512
"""Pixels of a row that one program computes."""


@triton.jit
def _colour_kernel(planes, out, table, channels: tl.constexpr, block: tl.constexpr):
    image = table + tl.program_id(0).to(tl.int64) * 9
    y = tl.program_id(1)
    if y < tl.load(image + 6):
        width, pitch = tl.load(image + 7).to(tl.int32), tl.load(image + 3)
        x = tl.program_id(2) * block + tl.arange(0, block)
        inside = x < width
        luma = tl.load(planes + tl.load(image) + y.to(tl.int64) * width + x, mask=inside, other=0).to(tl.int32)
        to = out + tl.load(image + 8) + y.to(tl.int64) * width * channels + x * channels
        if channels == 1:
            tl.store(to, luma.to(tl.uint8), mask=inside)
        else:
            # One value of chroma is for one or two columns and rows: a shift. Grey files have none.
            at = (y >> (tl.load(image + 5).to(tl.int32) - 1)) * pitch + (x >> (tl.load(image + 4).to(tl.int32) - 1))
            coloured = inside & (pitch > 0)
            blue = tl.load(planes + tl.load(image + 1) + at, mask=coloured, other=128).to(tl.int32) - 128
            red = tl.load(planes + tl.load(image + 2) + at, mask=coloured, other=128).to(tl.int32) - 128
            # 1.402, -0.34414, -0.71414 and 1.772 in units of 1 / 65536, as libjpeg rounds them.
            r = luma + ((91881 * red + 32768) >> 16)
            g = luma + ((-22554 * blue - 46802 * red + 32768) >> 16)
            b = luma + ((116130 * blue + 32768) >> 16)
            tl.store(to, tl.minimum(tl.maximum(r, 0), 255).to(tl.uint8), mask=inside)
            tl.store(to + 1, tl.minimum(tl.maximum(g, 0), 255).to(tl.uint8), mask=inside)
            tl.store(to + 2, tl.minimum(tl.maximum(b, 0), 255).to(tl.uint8), mask=inside)


def colours(machine: Machine, flat: TorchTensor, planes: Planes, pixels: Pixels) -> None:
    """Fill images of one channel or three, which lie one behind the other, with what planes in `flat` show."""
    shapes = pixels.shapes
    table = np.concatenate(
        [planes.starts, planes.pitches[:, 1:2], planes.columns_and_rows, shapes[:, :2], pixels.starts[:, None]], 1
    )
    height, width = shapes[:, :2].max(0).tolist()
    for channels in np.unique(shapes[:, 2]).tolist():
        rows = table[shapes[:, 2] == channels]
        grid = len(rows), height, -(-width // BLOCK)
        _colour_kernel[grid](flat, pixels.flat, machine.put(rows), channels, BLOCK)
