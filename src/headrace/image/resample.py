"""How much of which pixels goes into each pixel of a resized image, along one axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]


class Taps(NamedTuple):
    """Pixel i is the sum of those from `starts[i]` on, times `weights[i]`; outside of the image there is no weight."""

    starts: NDArray[np.int64]
    weights: Float


@lru_cache(maxsize=512)
def taps(method: str, size: int, wanted: int, antialias: bool) -> Taps:
    """Return the taps from `size` to `wanted` pixels."""
    if method == "area":
        return _area(size, wanted)
    if method == "bicubic" and not antialias:
        return _cubic(size, wanted)
    radius, kernel = KERNELS[method]
    return _smooth(size, wanted, radius, kernel, antialias=antialias)


def _smooth(size: int, wanted: int, radius: float, kernel: Callable[[Float], Float], *, antialias: bool) -> Taps:
    """Return taps of a kernel around the center of each pixel, as wide as a pixel of the smaller image if
    `antialias`.
    """
    scale = np.float32(np.float32(wanted) / np.float32(size))
    inverse = np.float32(1) / scale
    width = max(inverse, np.float32(1)) if antialias else np.float32(1)
    reach = np.float32(radius) * width
    middles = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * inverse
    starts = np.maximum(np.ceil(middles - reach - np.float32(0.5)), 0).astype(np.int64)
    stops = np.minimum(np.floor(middles + reach - np.float32(0.5)).astype(np.int64) + 1, size)
    places = np.arange(max(1, int((stops - starts).max())))
    at = starts[:, None] + places
    distances = np.abs(at.astype(np.float32) + np.float32(0.5) - middles[:, None]) / width
    weights = np.where(at < stops[:, None], kernel(distances), np.float32(0)).astype(np.float32)
    sums = weights.sum(1, dtype=np.float32, keepdims=True)
    return Taps(starts, np.divide(weights, sums, out=np.zeros_like(weights), where=np.abs(sums) > 1e-30))


CUBIC_TABLE_STEPS = 1024
"""The cubic kernel is read from a table of this many steps, like TensorFlow's."""


def _cubic(size: int, wanted: int) -> Taps:
    scale = np.float32(np.float32(size) / np.float32(wanted))
    at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    below = np.floor(at).astype(np.int64)
    step = np.rint((at - below.astype(np.float32)) * np.float32(CUBIC_TABLE_STEPS)).astype(np.float64)
    near, far = step / CUBIC_TABLE_STEPS, 1 - step / CUBIC_TABLE_STEPS
    weights = np.stack([_keys(1 + near), _keys(near), _keys(far), _keys(1 + far)], 1).astype(np.float32)
    places = below[:, None] - 1 + np.arange(4)
    weights[(places < 0) | (places >= size)] = 0
    return Taps(below - 1, weights / weights.sum(1, dtype=np.float32, keepdims=True))


def _area(size: int, wanted: int) -> Taps:
    """Return how much of each pixel a larger one covers, as TensorFlow rounds it; `area_scale` makes means of sums."""
    scale = np.float32(np.float32(size) / np.float32(wanted))
    starts = (np.arange(wanted, dtype=np.float32) * scale)[:, None]
    stops = (np.arange(1, wanted + 1, dtype=np.float32) * scale)[:, None]
    first = np.floor(starts[:, 0]).astype(np.int64)
    places = first[:, None] + np.arange(int((np.ceil(stops[:, 0]) - first).max()))
    edges = places.astype(np.float32)
    inside, ends = edges < starts, edges + 1 > stops
    covered = np.where(inside, np.where(ends, scale, edges + 1 - starts), np.where(ends, stops - edges, np.float32(1)))
    weights = np.maximum(covered, 0).astype(np.float32)
    beyond = places >= size  # by the rounding of `stops`: TensorFlow takes the last pixel again
    weights[places == size - 1] += np.where(beyond, weights, 0).sum(1)[(places == size - 1).any(1)]
    return Taps(first, np.where(beyond, np.float32(0), weights))


def area_scale(shape: NDArray[np.int64], height: int, width: int) -> np.float32:
    """Return what sums of areas are multiplied with."""
    scales = [np.float32(np.float32(n) / np.float32(wanted)) for n, wanted in ((shape[0], height), (shape[1], width))]
    return np.float32(np.float32(1) / (scales[0] * scales[1]))


def _triangle(x: Float) -> Float:
    return np.asarray(np.maximum(np.float32(0), np.float32(1) - x))


def _keys(x: NDArray[np.floating]) -> NDArray[np.floating]:
    inner = (1.5 * x - 2.5) * x * x + 1
    outer = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def _mitchell(x: Float) -> Float:
    inner = (7 * x / 6 - 2) * x * x + 8 / 9
    outer = ((-7 * x / 18 + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x < 1, inner, np.where(x < 2, outer, 0)).astype(np.float32)


def _lanczos(radius: float) -> Callable[[Float], Float]:
    def kernel(x: Float) -> Float:
        made = np.sinc(x.astype(np.float64)) * np.sinc(x.astype(np.float64) / radius)
        return np.where(x < radius, made, 0).astype(np.float32)

    return kernel


def _gaussian(x: Float) -> Float:
    return np.where(x < 1.5, np.exp(-2 * x.astype(np.float64) ** 2), 0).astype(np.float32)


KERNELS: dict[str, tuple[float, Callable[[Float], Float]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, lambda x: _keys(x).astype(np.float32)),
    "mitchellcubic": (2.0, _mitchell),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, _gaussian),
}
