"""Images on a device resized: the same weights as on the CPU, summed in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.device.arithmetic import cast
from headrace.device.columns import numpy_dtype_of
from headrace.device.pixels import DeviceValue, Numbers, Pixels, packed
from headrace.image import random, resize
from headrace.image.on_device.form import image_form
from headrace.image.on_device.geometry import framed
from headrace.image.operation import each_row
from headrace.image.resample import area_scale, taps

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

MAX_TAPS = 4096
"""How many pixels may go into one, at most: each is read by itself."""


def _to_dtype(machine: Machine, made: object, method: str, dtype: DTypeLike) -> DeviceValue:
    """Return resized images in the dtype that was asked for: floats are rounded half to even, and 0 to 255."""
    own = numpy_dtype_of(made)
    wanted = resize.resized_dtype(dtype, method, own)
    if wanted == own:
        return made
    if wanted == np.uint8:
        made = machine.torch.nan_to_num(machine.torch.round(made).clamp(0, 255))
    return cast(machine, made, wanted)


def resized(machine: Machine, pixels: Pixels, height: int, width: int, method: str, antialias: bool) -> DeviceValue:
    """Return all images at one size, in float32; in their own dtype by "nearest"."""
    if method not in resize.METHODS:
        raise ValueError(f"method is one of {', '.join(map(repr, resize.METHODS))}, not {method!r}")
    if len(pixels) and (pixels.shapes[:, :2] < 1).any():
        raise ValueError("an image without pixels has nothing to resize")
    if method == "nearest":
        y, x = (_nearest(pixels.shapes[:, i], size) for i, size in enumerate((height, width)))
        return pixels.gather(machine, y, x)
    if method == "bilinear" and not antialias:
        return _bilinear(machine, pixels, height, width)
    return _resampled(machine, pixels, height, width, method, antialias=antialias)


def _nearest(sizes: Numbers, wanted: int) -> Numbers:
    scale = (sizes.astype(np.float32) / np.float32(wanted))[:, None]
    at = np.floor((np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale).astype(np.int64)
    return np.minimum(at, sizes[:, None] - 1)


def _between(sizes: Numbers, wanted: int) -> tuple[Numbers, Numbers, NDArray[np.float32]]:
    """Return the two positions around each output position, and the weight between them."""
    scale = (sizes.astype(np.float32) / np.float32(wanted))[:, None]
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    below = np.floor(at)
    lower = np.maximum(below.astype(np.int64), 0)
    upper = np.minimum(np.ceil(at).astype(np.int64), sizes[:, None] - 1)
    return lower, upper, at - below


def _bilinear(machine: Machine, pixels: Pixels, height: int, width: int) -> DeviceValue:
    if (kernels := pixels.kernels(machine, height)) is not None:
        return kernels.bilinear(machine, pixels, height, width)
    top, bottom, down = _between(pixels.shapes[:, 0], height)
    left, right, across = _between(pixels.shapes[:, 1], width)
    part = machine.put(across)[:, None, :, None]
    rows = []
    for y in (top, bottom):
        a, b = (pixels.gather(machine, y, x).to(machine.torch.float32) for x in (left, right))
        rows.append(a + (b - a) * part)
    return rows[0] + (rows[1] - rows[0]) * machine.put(down)[:, :, None, None]


def _all_taps(method: str, sizes: Numbers, wanted: int, antialias: bool) -> tuple[Numbers, NDArray[np.float32]]:
    """Return where the taps of each output position begin, and their weights: (images, wanted, taps)."""
    found = [taps(method, int(size), wanted, antialias) for size in sizes]
    count = max(t.weights.shape[1] for t in found)
    weights = np.zeros((len(found), wanted, count), np.float32)
    for i, t in enumerate(found):
        weights[i, :, : t.weights.shape[1]] = t.weights
    return np.stack([t.starts for t in found]), weights


def _resampled(
    machine: Machine, pixels: Pixels, height: int, width: int, method: str, *, antialias: bool
) -> DeviceValue:
    tops, down = _all_taps(method, pixels.shapes[:, 0], height, antialias)
    lefts, across = _all_taps(method, pixels.shapes[:, 1], width, antialias)
    if down.shape[2] * across.shape[2] > MAX_TAPS:
        raise ValueError(
            f"{method} of images this large to {height} × {width} reads {down.shape[2] * across.shape[2]} pixels for "
            "each one: make them smaller first, with method='area' or a ratio of decode_jpeg, in a map without device="
        )
    made = None
    for k in range(down.shape[2]):
        row = None
        y = np.clip(tops + k, 0, pixels.shapes[:, :1] - 1)
        for j in range(across.shape[2]):
            x = np.clip(lefts + j, 0, pixels.shapes[:, 1:2] - 1)
            found = pixels.gather(machine, y, x).to(machine.torch.float32)
            found = found * machine.put(np.ascontiguousarray(across[:, :, j]))[:, None, :, None]
            row = found if row is None else row + found
        row = row * machine.put(np.ascontiguousarray(down[:, :, k]))[:, :, None, None]
        made = row if made is None else made + row
    if method == "area":
        scales = np.array([area_scale(shape, height, width) for shape in pixels.shapes], np.float32)
        made = made * machine.put(scales)[:, None, None, None]
    return made


def _refuse_ratio(preserve_aspect_ratio: object, **_: object) -> str | None:
    if preserve_aspect_ratio:
        return "preserve_aspect_ratio=True gives images of different sizes, which make no batch: use resize_with_pad"
    return None


@image_form(resize.resize, check=_refuse_ratio)
def _resize(
    machine: Machine,
    pixels: Pixels,
    size: object,
    method: str,
    preserve_aspect_ratio: bool,
    antialias: bool,
    dtype: DTypeLike,
) -> DeviceValue:
    del preserve_aspect_ratio
    made = resized(machine, pixels, *resize.two_sizes(size), method, antialias)
    return _to_dtype(machine, made, method, dtype)


@image_form(random.resized_crop_by_draws, each=("draws",))
def _resized_crop(
    machine: Machine,
    pixels: Pixels,
    size: object,
    draws: DeviceValue,
    scale: DeviceValue,
    ratio: DeviceValue,
    method: str,
    antialias: bool,
    dtype: DTypeLike,
) -> DeviceValue:
    cuts = random.drawn_windows(pixels, each_row(draws, len(pixels)), scale, ratio)
    made = resized(machine, pixels.cropped(*cuts[:, :4].T), *resize.two_sizes(size), method, antialias)
    return _to_dtype(machine, made, method, dtype)


@image_form(resize.resize_with_pad)
def _resize_with_pad(
    machine: Machine, pixels: Pixels, target_height: int, target_width: int, method: str, antialias: bool
) -> DeviceValue:
    sizes, margins = resize.sizes_with_pad(pixels.shapes, target_height, target_width)
    rows = [
        resized(machine, pixels.rows(i, i + 1), int(height), int(width), method, antialias)
        for i, (height, width) in enumerate(sizes.tolist())
    ]
    return framed(machine, Pixels.of(packed(machine, rows)), margins, target_height, target_width)
