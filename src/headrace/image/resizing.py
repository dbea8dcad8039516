"""How kernels resize windows of images to one size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.trace.values import Affine

FLOATS, NEAREST, TRUNCATED = range(3)
"""How resized pixels are given: in float32, or in uint8 rounded half to even, or towards 0."""

UNSCALED = Affine(np.empty(0, np.int64), np.empty((0, 1), np.float32))


@dataclass(frozen=True)
class Resizing:
    """The size and kind of resized images.

    Attributes:
        size: Height and width.
        rounding: FLOATS, NEAREST or TRUNCATED.
        mirrored: For each image, whether it is mirrored at last.
        scaling: Operations on floats.
    """

    size: tuple[int, int]
    rounding: int
    mirrored: NDArray[np.int64]
    scaling: Affine = UNSCALED

    def arguments(
        self, images: slice
    ) -> tuple[int, int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return some of the images' arguments of the kernels."""
        return (*self.size, self.rounding, self.mirrored[images], *self.scaling)
