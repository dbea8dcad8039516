"""Images turned, mirrored, cut and framed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns import Column
from headrace.core.types import Argument, Array, Tensor, TensorLike
from headrace.image.decode import decode_jpeg, encoded_jpegs
from headrace.image.encoded import EncodedJpegs, ResizedJpegs
from headrace.image.images import Images, column_of_images, new_images
from headrace.image.operation import Shape, drawn, each_row, image_operation, in_windows
from headrace.image.resize import place_images
from headrace.io.binary import bytes_column, one_record
from headrace.plan.spec import TensorSpec
from headrace.trace.symbols import Symbol
from headrace.trace.values import Deferred


def cut_images(images: Images | EncodedJpegs, cuts: NDArray[np.int64]) -> Tensor:
    """Crop each image to height × width from (top, left) on, mirrored if a fifth number is set."""
    if isinstance(images, EncodedJpegs):
        return images.cut(cuts)
    shapes = np.hstack([cuts[:, 2:4], images.shapes[:, 2:]])
    out, starts = new_images(shapes, images.dtype)
    size = images.dtype.itemsize
    _native.cut_images(images.data.view(np.uint8), size, images.starts, images.shapes, cuts, starts, out.view(np.uint8))
    return column_of_images(out, shapes)


def _whole(images: Images | EncodedJpegs, flip: TensorLike = 0) -> NDArray[np.int64]:
    cuts = np.zeros((len(images), 5), np.int64)
    cuts[:, 2:4] = images.shapes[:, :2]
    cuts[:, 4] = flip
    return cuts


def _each_array(images: Images, change: Callable[[Array], Array]) -> Column:
    """Return what a function of arrays (…, height, width, channels) makes of the images."""
    dense = images.dense()
    if dense is not None:
        made = np.ascontiguousarray(change(dense))
        return made.copy() if np.shares_memory(made, dense) else made
    rows = [change(row) for row in images.rows()]
    shapes = np.array([row.shape for row in rows], np.int64).reshape(len(rows), 3)
    return column_of_images(np.concatenate([images.data[:0], *(row.ravel() for row in rows)]), shapes)


def _mirror_rows(images: Images | EncodedJpegs) -> Column:
    return cut_images(images, _whole(images, 1))


def _mirror_later(images: Deferred) -> Column:
    if isinstance(images, ResizedJpegs):
        return images.flip(np.ones(len(images), np.int64))
    return _mirror_rows(images) if isinstance(images, EncodedJpegs) else None


@image_operation(_mirror_rows, deferred=_mirror_later)
def flip_left_right(image: TensorLike) -> Tensor:
    """Return the image as in a mirror.

    Args:
        image: One image (height, width, channels) or a batch of images.

    >>> hr.image.flip_left_right(np.arange(3).reshape(1, 3, 1)).ravel()
    array([2, 1, 0])
    """


@image_operation(lambda images: _each_array(images, lambda x: x[..., ::-1, :, :]))
def flip_up_down(image: TensorLike) -> Tensor:
    """Return the image upside down.

    Args:
        image: One image (height, width, channels) or a batch of images.

    >>> hr.image.flip_up_down(np.arange(3).reshape(3, 1, 1)).ravel()
    array([2, 1, 0])
    """


def _flip_rows(images: Images, flag: TensorLike, upside_down: bool) -> Column:
    flags = each_row(flag, len(images), np.int64)
    if not upside_down:
        return cut_images(images, _whole(images, flags))
    rows = [row[::-1] if flipped else row for row, flipped in zip(images.rows(), flags.tolist(), strict=True)]
    return column_of_images(np.concatenate([images.data[:0], *(row.ravel() for row in rows)]), images.shapes)


def _flip_later(images: Deferred, flag: TensorLike, upside_down: bool) -> Column:
    if upside_down:
        return None
    if isinstance(images, ResizedJpegs):
        return images.flip(each_row(flag, len(images), np.int64))
    return (
        cut_images(images, _whole(images, each_row(flag, len(images), np.int64)))
        if isinstance(images, EncodedJpegs)
        else None
    )


@image_operation(_flip_rows, lambda shape, dtype, **_: (shape, dtype), each=("flag",), deferred=_flip_later)
def flip_if(image: TensorLike, flag: TensorLike, upside_down: bool = False) -> Tensor:
    """Mirror the image, or turn it upside down, if the flag is true."""


@image_operation(
    lambda images, k: _each_array(images, lambda x: np.rot90(x, k, (-3, -2))),
    lambda shape, dtype, k: ((shape[1], shape[0], shape[2]) if k % 2 else shape, dtype),
)
def rot90(image: TensorLike, k: int = 1) -> Tensor:
    """Return the image turned by `k` quarters, against the clock.

    Args:
        image: One image (height, width, channels) or a batch of images.
        k: Number of quarter turns, counter-clockwise.

    >>> hr.image.rot90(np.arange(2).reshape(1, 2, 1))[..., 0]
    array([[1],
           [0]])
    """


@image_operation(
    lambda images: _each_array(images, lambda x: x.swapaxes(-3, -2)),
    lambda shape, dtype: ((shape[1], shape[0], shape[2]), dtype),
)
def transpose(image: TensorLike) -> Tensor:
    """Return rows as columns.

    Args:
        image: One image (height, width, channels) or a batch of images.

    >>> hr.image.transpose(np.arange(2).reshape(1, 2, 1))[..., 0]
    array([[0],
           [1]])
    """


def central_cuts(shapes: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """Return the crops of the middle: this part of height and width."""
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"central_fraction must be above 0 and at most 1, not {fraction}")
    sides = shapes[:, :2].astype(np.float64)
    corners = ((sides - sides * fraction) / 2).astype(np.int64)
    return np.hstack([corners, shapes[:, :2] - 2 * corners, np.zeros((len(shapes), 1), np.int64)])


def _central_shape(shape: Shape, dtype: DTypeLike, central_fraction: float) -> tuple[Shape, Any]:
    def side(size: int | None) -> int | None:
        return None if size is None else int(central_cuts(np.array([[size, size, 1]]), central_fraction)[0, 2])

    return (side(shape[0]), side(shape[1]), shape[2]), dtype


def _central_rows(images: Images | EncodedJpegs, central_fraction: float) -> Column:
    return cut_images(images, central_cuts(images.shapes, central_fraction))


@image_operation(_central_rows, _central_shape, deferred=in_windows(_central_rows))
def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """Return the middle of the image: this part of its height and of its width.

    Args:
        image: One image (height, width, channels) or a batch of images.
        central_fraction: Share of each side to keep, between 0 and 1.

    >>> hr.image.central_crop(np.zeros((8, 6, 3)), 0.5).shape
    (4, 4, 3)
    """


class Sized(Protocol):
    """Images, wherever they are, as far as their sizes matter."""

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Height, width and channels of each image."""
        ...

    def __len__(self) -> int: ...


def cuts_at(
    images: Sized, tops: TensorLike, lefts: TensorLike, height: TensorLike, width: TensorLike
) -> NDArray[np.int64]:
    """Return crops of one size from these corners on. Raise if one is outside of its image."""
    cuts = np.zeros((len(images), 5), np.int64)
    cuts[:, 0], cuts[:, 1], cuts[:, 2], cuts[:, 3] = tops, lefts, height, width
    outside = (cuts[:, :2] < 0) | (cuts[:, 2:4] < 1) | (cuts[:, :2] + cuts[:, 2:4] > images.shapes[:, :2])
    if outside.any():
        row = int(outside.any(1).argmax())
        top, left, tall, wide, _ = cuts[row].tolist()
        sides = " × ".join(map(str, images.shapes[row, :2].tolist()))
        raise ValueError(f"{tall} × {wide} pixels from ({top}, {left}) on are not within an image of {sides}")
    return cuts


def _box_rows(
    images: Images | EncodedJpegs,
    offset_height: TensorLike,
    offset_width: TensorLike,
    target_height: int,
    target_width: int,
) -> Column:
    tops, lefts = (each_row(offset, len(images), np.int64) for offset in (offset_height, offset_width))
    return cut_images(images, cuts_at(images, tops, lefts, target_height, target_width))


@image_operation(
    _box_rows,
    lambda shape, dtype, target_height, target_width, **_: ((target_height, target_width, shape[2]), dtype),
    each=("offset_height", "offset_width"),
    deferred=in_windows(_box_rows),
)
def crop_to_bounding_box(
    image: TensorLike, offset_height: TensorLike, offset_width: TensorLike, target_height: int, target_width: int
) -> Tensor:
    """Crop an image to a box.

    Args:
        image: One image (height, width, channels) or a batch of images.
        offset_height: Distance from the top edge in pixels.
        offset_width: Distance from the left edge in pixels.
        target_height: Height of the result in pixels.
        target_width: Width of the result in pixels.

    >>> hr.image.crop_to_bounding_box(np.arange(9).reshape(3, 3, 1), 1, 0, 1, 2).ravel()
    array([3, 4])
    """


def corners_within(
    images: Sized, offset_height: TensorLike, offset_width: TensorLike, target_height: int, target_width: int
) -> NDArray[np.int64]:
    """Return where images begin within a frame of this size. Raise if one does not fit into it."""
    corners = np.empty((len(images), 2), np.int64)
    corners[:, 0] = each_row(offset_height, len(images), np.int64)
    corners[:, 1] = each_row(offset_width, len(images), np.int64)
    wanted = np.array([target_height, target_width])
    if (corners < 0).any() or (corners + images.shapes[:, :2] > wanted).any():
        raise ValueError(f"an image with its offset does not fit into {target_height} × {target_width} pixels")
    return corners


def _frame_rows(
    images: Images, offset_height: TensorLike, offset_width: TensorLike, target_height: int, target_width: int
) -> Column:
    corners = corners_within(images, offset_height, offset_width, target_height, target_width)
    return place_images(images, corners, target_height, target_width)


@image_operation(
    _frame_rows,
    lambda shape, dtype, target_height, target_width, **_: ((target_height, target_width, shape[2]), dtype),
    each=("offset_height", "offset_width"),
)
def pad_to_bounding_box(
    image: TensorLike, offset_height: TensorLike, offset_width: TensorLike, target_height: int, target_width: int
) -> Tensor:
    """Return the image from an offset on within zeros.

    Args:
        image: One image (height, width, channels) or a batch of images.
        offset_height: Distance from the top edge in pixels.
        offset_width: Distance from the left edge in pixels.
        target_height: Height of the result in pixels.
        target_width: Width of the result in pixels.

    >>> hr.image.pad_to_bounding_box(np.ones((1, 1, 1), int), 0, 1, 1, 3).ravel()
    array([0, 1, 0])
    """


def _crop_or_pad_rows(images: Images, target_height: int, target_width: int) -> Column:
    wanted = np.array([target_height, target_width])
    if (wanted < 1).any():
        raise ValueError(f"a size has at least a pixel each way, not {target_height} × {target_width}")
    spare = images.shapes[:, :2] - wanted
    corners = np.maximum(spare // 2, 0)
    sides = np.minimum(images.shapes[:, :2], wanted)
    cut = Images.of_column(cut_images(images, np.hstack([corners, sides, np.zeros((len(images), 1), np.int64)])))
    return place_images(cut, np.maximum(-spare // 2, 0), target_height, target_width)


@image_operation(
    _crop_or_pad_rows,
    lambda shape, dtype, target_height, target_width: ((target_height, target_width, shape[2]), dtype),
)
def resize_with_crop_or_pad(image: TensorLike, target_height: int, target_width: int) -> Tensor:
    """Return the image at another size without a change of its pixels: cut in the middle, or with zeros around it.

    Args:
        image: One image (height, width, channels) or a batch of images.
        target_height: Height of the result in pixels.
        target_width: Width of the result in pixels.

    >>> hr.image.resize_with_crop_or_pad(np.arange(3).reshape(1, 3, 1), 1, 1).ravel()
    array([1])
    """


def _window_rows(images: Images | EncodedJpegs, window: TensorLike) -> Column:
    windows = each_row(window, len(images), np.int64).reshape(len(images), 4)
    return cut_images(images, cuts_at(images, *windows.T))


def _window_size(window: TensorLike) -> tuple[int | None, int | None]:
    if isinstance(window, TensorSpec):
        return None, None
    _, _, height, width = (int(n) for n in window)
    return height, width


@image_operation(
    _window_rows,
    lambda shape, dtype, window: ((*_window_size(window), shape[2]), dtype),
    each=("window",),
    deferred=in_windows(_window_rows),
)
def crop_to_window(image: TensorLike, window: TensorLike) -> Tensor:
    """Crop to (top, left, height, width)."""


@drawn
def decode_and_crop_jpeg(contents: TensorLike, crop_window: TensorLike, channels: int = 0, **how: Argument) -> Tensor:
    """Decode a JPEG and crop it to `crop_window`, (top, left, height, width).

    Args:
        contents: Bytes of an encoded image, or an array of such.
        crop_window: Top, left, height and width of the crop.
        channels: Number of color channels; 0 keeps those of the file.
        **how: Further options of `decode_jpeg`.

    >>> hr.image.decode_and_crop_jpeg(hr.image.encode_jpeg(np.zeros((9, 9, 3), np.uint8)), (1, 2, 3, 4)).shape
    (3, 4, 3)
    """
    if isinstance(contents, Symbol) or isinstance(crop_window, Symbol):
        return crop_to_window(decode_jpeg(contents, channels, **how), crop_window)
    images = encoded_jpegs(bytes_column(one_record(contents)), channels, **how)
    images = images if isinstance(images, EncodedJpegs) else Images.of_column(images)
    made = _window_rows(images, crop_window)
    return (made.column() if isinstance(made, Deferred) else made)[0]
