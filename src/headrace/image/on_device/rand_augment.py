"""RandAugment on a device: the changes that the CPU draws, each on all images that drew it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import TorchTensor
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image.on_device.form import image_form
from headrace.image.operation import each_row
from headrace.image.rand_augment import BINS, around_middle, augment_by_draws, check_magnitude
from headrace.image.rand_augment import CHANGES as ON_CPU

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

    pass

Amounts = NDArray[np.float64]
Matrices = NDArray[np.float64]


def _warped(machine: Machine, x: TorchTensor, matrices: Matrices, fill: int) -> DeviceValue:
    """Warp by nearest neighbor: each matrix maps positions of the result to those of the image.

    Positions are computed as OpenCV does it, in float32 with one rounding for a product and a sum.
    """
    torch = machine.torch
    count, height, width, _ = x.shape
    factors = machine.put(matrices.astype(np.float32)).to(torch.float64)
    down, across = (torch.arange(n, dtype=torch.float64, device=x.device) for n in (height, width))
    places = []
    for a, b, c in factors.permute(1, 2, 0):
        of_row = (down * b[:, None] + c[:, None]).to(torch.float32).to(torch.float64)
        position = (across * a[:, None])[:, None, :] + of_row[:, :, None]
        places.append(position.to(torch.float32).round().to(torch.int64))
    left, top = places
    inside = (left >= 0) & (left < width) & (top >= 0) & (top < height)
    image = torch.arange(count, device=x.device)[:, None, None]
    found = x[image, top.clamp(0, height - 1), left.clamp(0, width - 1)]
    return torch.where(inside[..., None], found, torch.full_like(found, fill))


def _matrices(amounts: Amounts, **places: Callable[[float], float]) -> Matrices:
    """Return one matrix for each amount: the identity, with the given functions of the amount at their places."""
    made = np.tile(np.array([[1.0, 0, 0], [0, 1, 0]]), (len(amounts), 1, 1))
    for place, value in places.items():
        made[:, int(place[1]), int(place[2])] = [value(float(x)) for x in amounts]
    return made


def _turned(machine: Machine, x: TorchTensor, amounts: Amounts, fill: int) -> DeviceValue:
    height, width = x.shape[1:3]
    made = []
    for degrees in amounts.tolist():
        sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
        made.append(around_middle(height, width, cosine, sine, -sine, cosine))
    return _warped(machine, x, np.array(made), fill)


def _blended(machine: Machine, x: TorchTensor, other: TorchTensor | float, amounts: Amounts) -> DeviceValue:
    factors = machine.put((1 + amounts).astype(np.float32))[:, None, None, None]
    return (other + (x.to(machine.torch.float32) - other) * factors).clamp(0, 255).to(machine.torch.uint8)


def _grey(machine: Machine, x: TorchTensor) -> DeviceValue:
    own = x.to(machine.torch.float32)
    if x.shape[3] != 3:
        return own
    red, green, blue = (own[..., i : i + 1] * float(np.float32(w)) for i, w in enumerate((0.2989, 0.587, 0.114)))
    return ((red + green) + blue).floor()


def _sharpened(machine: Machine, x: TorchTensor, amounts: Amounts) -> DeviceValue:
    height, width = x.shape[1:3]
    if min(height, width) < 3:
        return x
    soft = x.to(machine.torch.float32)
    total = 4 * soft[:, 1:-1, 1:-1]
    for i in range(3):
        for j in range(3):
            total = total + soft[:, i : i + height - 2, j : j + width - 2]
    blurred = soft.clone()
    blurred[:, 1:-1, 1:-1] = (total / 13).round()
    return _blended(machine, x, blurred, amounts)


def _stretched(machine: Machine, x: TorchTensor) -> DeviceValue:
    torch = machine.torch
    low, high = (v.to(torch.float32) for v in (x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)))
    spread = high > low
    most = torch.full_like(low, 255)  # a number divided by a tensor would be a product with its reciprocal
    scale = torch.where(spread, most / (high - low), torch.ones_like(low))
    made = (x.to(torch.float32) - torch.where(spread, low, torch.zeros_like(low))) * scale
    return made.clamp(0, 255).to(torch.uint8)


def _equalized(machine: Machine, x: TorchTensor) -> DeviceValue:
    torch = machine.torch
    count, height, width, channels = x.shape
    flat = x.permute(0, 3, 1, 2).reshape(count * channels, height * width).to(torch.int64)
    counts = torch.zeros((count * channels, 256), dtype=torch.int64, device=x.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat))
    last = counts.gather(1, flat.amax(1, keepdim=True))
    step = torch.div(height * width - last, 255, rounding_mode="floor")
    shift = torch.div(step, 2, rounding_mode="floor")
    table = torch.div(counts.cumsum(1) - counts + shift, step.clamp(min=1), rounding_mode="floor").clamp(0, 255)
    made = torch.where(step > 0, table.gather(1, flat), flat)
    return made.reshape(count, channels, height, width).permute(0, 2, 3, 1).to(torch.uint8)


Change = Callable[["Machine", TorchTensor, Amounts, int], TorchTensor]
CHANGES: list[Change] = [
    lambda machine, x, amounts, fill: x,  # noqa: ARG005
    lambda machine, x, a, fill: _warped(machine, x, _matrices(a, p01=float), fill),
    lambda machine, x, a, fill: _warped(machine, x, _matrices(a, p10=float), fill),
    lambda machine, x, a, fill: _warped(machine, x, _matrices(a, p02=lambda v: -int(v)), fill),
    lambda machine, x, a, fill: _warped(machine, x, _matrices(a, p12=lambda v: -int(v)), fill),
    _turned,
    lambda machine, x, a, _: _blended(machine, x, 0.0, a),
    lambda machine, x, a, _: _blended(machine, x, _grey(machine, x), a),
    lambda machine, x, a, _: _blended(machine, x, _grey(machine, x).mean((1, 2, 3), keepdim=True), a),
    lambda machine, x, a, _: _sharpened(machine, x, a),
    lambda machine, x, a, _: x & (256 - (1 << (8 - int(a[0])))),  # noqa: ARG005 - all of one strength
    lambda machine, x, a, _: machine.torch.where(x >= math.ceil(a[0]), 255 - x, x),
    lambda machine, x, *_: _stretched(machine, x),
    lambda machine, x, *_: _equalized(machine, x),
]
"""Those of `headrace.image.rand_augment.CHANGES`, in their order."""


@image_form(augment_by_draws, each=("draws",))
def _augment(machine: Machine, pixels: Pixels, draws: object, magnitude: int, fill: int) -> DeviceValue:
    if pixels.flat.dtype != machine.torch.uint8:
        dtype = str(pixels.flat.dtype).removeprefix("torch.")
        raise TypeError(f"rand_augment works on uint8, not {dtype}: use it before images become floats")
    check_magnitude(magnitude)
    strength = magnitude / (BINS - 1)
    numbers = each_row(draws, len(pixels))

    def change(x: TorchTensor, part: slice) -> DeviceValue:
        x = x.clone()
        for drawn in np.moveaxis(numbers[part], 1, 0):
            which = (drawn[:, 0] * len(CHANGES)).astype(np.int64)
            for kind in np.unique(which[which > 0]).tolist():
                rows = np.flatnonzero(which == kind)
                _, amount, signed = ON_CPU[kind]
                much = amount(strength, *x.shape[1:3])
                amounts = np.where(signed & (drawn[rows, 1] < 0.5), -much, much).astype(np.float64)
                index = machine.put(rows)
                x[index] = CHANGES[kind](machine, x[index], amounts, fill)
        return x

    return pixels.each(machine, change)
