"""Images for tests."""

import numpy as np


def picture(height, width, channels=3, seed=0):
    """Smooth, with some noise, as photographs are."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (5 + c)) * np.cos(y / (7 + c)) for c in range(channels)]
    noise = np.random.default_rng(seed).normal(0, 12, (height, width, channels))
    return (127 + 100 * np.stack(waves, 2) + noise).clip(0, 255).astype(np.uint8)


SIZES = [(20, 30), (31, 17), (20, 31), (8, 8), (40, 25), (20, 30), (64, 48), (5, 90)]
"""Of images in one dataset, some of them alike."""


def pictures(sizes=SIZES, channels=3):
    return [picture(*size, channels, seed=i) for i, size in enumerate(sizes)]
