"""Images turned, mirrored, cut and framed by JAX: exactly the pixels of the CPU."""

from __future__ import annotations

import numpy as np

from headrace.core.types import Argument, Array, Library, TensorLike
from headrace.device.on_jax.forms import JaxArray, Prepared
from headrace.image import geometry, random
from headrace.image.on_jax.form import Sizes, jax_image_form
from headrace.image.operation import each_row
from headrace.image.resize import two_sizes


@jax_image_form(geometry.flip_left_right)
def _flip_left_right(_jax: Library, image: JaxArray) -> JaxArray:
    return image[:, ::-1]


@jax_image_form(geometry.flip_up_down)
def _flip_up_down(_jax: Library, image: JaxArray) -> JaxArray:
    return image[::-1]


def _flags(images: Sizes, flag: object, upside_down: bool) -> Prepared:
    del upside_down
    return {"flag": each_row(flag, len(images), np.int64) != 0}


@jax_image_form(geometry.flip_if, each=("flag",), prepare=_flags)
def _flip_if(jax: Library, image: JaxArray, flag: JaxArray, upside_down: bool) -> JaxArray:
    return jax.numpy.where(flag, image[::-1] if upside_down else image[:, ::-1], image)


@jax_image_form(geometry.rot90)
def _rot90(jax: Library, image: JaxArray, k: int) -> JaxArray:
    return jax.numpy.rot90(image, k % 4)


@jax_image_form(geometry.transpose)
def _transpose(_jax: Library, image: JaxArray) -> JaxArray:
    return image.transpose(1, 0, 2)


@jax_image_form(geometry.central_crop)
def _central_crop(_jax: Library, image: JaxArray, central_fraction: float) -> JaxArray:
    top, left, height, width, _ = geometry.central_cuts(np.array([image.shape]), central_fraction)[0].tolist()
    return image[top : top + height, left : left + width]


def _corners(cuts: Array) -> Prepared:
    return {"corner": np.ascontiguousarray(cuts[:, :2], np.int32)}


def _cut(jax: Library, image: JaxArray, corner: JaxArray, height: int, width: int) -> JaxArray:
    return jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), (height, width, image.shape[2]))


def _drawn_corners(images: Sizes, size: object, draws: object) -> Prepared:
    return _corners(random.drawn_cuts(images, size, draws))


@jax_image_form(random.crop_by_draws, each=("draws",), prepare=_drawn_corners)
def _crop(jax: Library, image: JaxArray, size: TensorLike, corner: JaxArray) -> JaxArray:
    return _cut(jax, image, corner, *two_sizes(size[:2]))


def _given_corners(
    images: Sizes, offset_height: object, offset_width: object, target_height: int, target_width: int
) -> Prepared:
    tops, lefts = (each_row(offset, len(images), np.int64) for offset in (offset_height, offset_width))
    return _corners(geometry.cuts_at(images, tops, lefts, target_height, target_width))


@jax_image_form(geometry.crop_to_bounding_box, each=("offset_height", "offset_width"), prepare=_given_corners)
def _crop_to_box(jax: Library, image: JaxArray, target_height: int, target_width: int, corner: JaxArray) -> JaxArray:
    return _cut(jax, image, corner, target_height, target_width)


def framed(jax: Library, image: JaxArray, corner: JaxArray, height: int, width: int) -> JaxArray:
    """Return the image from its corner on within zeros."""
    frame = jax.numpy.zeros((height, width, image.shape[2]), image.dtype)
    return jax.lax.dynamic_update_slice(frame, image, (corner[0], corner[1], 0))


def _frame_corners(images: Sizes, **given: Argument) -> Prepared:
    return _corners(geometry.corners_within(images, **given))


@jax_image_form(geometry.pad_to_bounding_box, each=("offset_height", "offset_width"), prepare=_frame_corners)
def _pad(jax: Library, image: JaxArray, target_height: int, target_width: int, corner: JaxArray) -> JaxArray:
    return framed(jax, image, corner, target_height, target_width)


@jax_image_form(geometry.resize_with_crop_or_pad)
def _crop_or_pad(jax: Library, image: JaxArray, target_height: int, target_width: int) -> JaxArray:
    wanted = np.array(two_sizes((target_height, target_width)))
    spare = np.array(image.shape[:2]) - wanted
    top, left = np.maximum(spare // 2, 0).tolist()
    cut = image[top : top + int(wanted[0]), left : left + int(wanted[1])]
    return framed(jax, cut, np.maximum(-spare // 2, 0).tolist(), *wanted.tolist())
