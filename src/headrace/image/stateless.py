"""Images changed at random by a seed that is given, under tf.image's names.

Equal seeds give equal results, on every machine. They are not those that TensorFlow draws for the seed.
"""

from __future__ import annotations

import numpy as np

from headrace.core.types import Tensor, TensorLike
from headrace.image import random
from headrace.image.decode import decode_jpeg
from headrace.image.encode import encode_jpeg


def _generator(seed: TensorLike) -> np.random.Generator:
    return np.random.default_rng([int(part) % (1 << 64) for part in np.ravel(seed)])


def stateless_random_flip_left_right(image: TensorLike, seed: TensorLike) -> Tensor:
    """Return the image, or its mirror image with probability 1/2.

    Args:
        image: One image (height, width, channels) or a batch of images.
        seed: Pair of integers; the same seed gives the same result.

    >>> hr.image.stateless_random_flip_left_right(np.arange(2).reshape(1, 2, 1), seed=(1, 2)).shape
    (1, 2, 1)
    """
    return random.random_flip_left_right(image, _generator(seed))


def stateless_random_flip_up_down(image: TensorLike, seed: TensorLike) -> Tensor:
    """Return the image, or upside down with probability 1/2.

    Args:
        image: One image (height, width, channels) or a batch of images.
        seed: Pair of integers; the same seed gives the same result.
    """
    return random.random_flip_up_down(image, _generator(seed))


def stateless_random_crop(value: TensorLike, size: TensorLike, seed: TensorLike, name: str | None = None) -> Tensor:  # noqa: ARG001
    """Return a part of the image, (height, width, channels) large.

    Args:
        value: The array.
        size: Shape of the result.
        seed: Pair of integers; the same seed gives the same result.
        name: Accepted for compatibility with tf.image.
    """
    return random.random_crop(value, tuple(int(n) for n in size), _generator(seed))


def stateless_random_brightness(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """Return the image, brighter or darker by up to `max_delta`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        max_delta: Largest change, in both directions.
        seed: Pair of integers; the same seed gives the same result.
    """
    return random.random_brightness(image, max_delta, _generator(seed))


def stateless_random_contrast(image: TensorLike, lower: float, upper: float, seed: TensorLike) -> Tensor:
    """Return the image with its contrast multiplied by a number from `lower` to `upper`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        lower: Lower bound of the random factor.
        upper: Upper bound of the random factor.
        seed: Pair of integers; the same seed gives the same result.
    """
    return random.random_contrast(image, lower, upper, _generator(seed))


def stateless_random_hue(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """Return the image with its hue moved by up to `max_delta`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        max_delta: Largest change, in both directions.
        seed: Pair of integers; the same seed gives the same result.
    """
    return random.random_hue(image, max_delta, _generator(seed))


def stateless_random_saturation(image: TensorLike, lower: float, upper: float, seed: TensorLike = None) -> Tensor:
    """Return the image with its saturation multiplied by a number from `lower` to `upper`.

    Args:
        image: One image (height, width, channels) or a batch of images.
        lower: Lower bound of the random factor.
        upper: Upper bound of the random factor.
        seed: Pair of integers; the same seed gives the same result.
    """
    return random.random_saturation(image, lower, upper, _generator(seed))


def stateless_random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: TensorLike
) -> Tensor:
    """Return the image as a JPEG of a quality between the two, the upper one excluded, shows it.

    Args:
        image: One image (height, width, channels) or a batch of images.
        min_jpeg_quality: Lowest quality.
        max_jpeg_quality: Highest quality.
        seed: Pair of integers; the same seed gives the same result.
    """
    quality = int(_generator(seed).integers(min_jpeg_quality, max_jpeg_quality))
    return decode_jpeg(encode_jpeg(image, quality=quality), channels=image.shape[-1])
