"""Images on a device turned, mirrored, cut and framed: exactly the pixels of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.core.types import Array
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image import geometry, random
from headrace.image.on_device.form import image_form, moving_form
from headrace.image.operation import each_row
from headrace.image.resize import two_sizes

if TYPE_CHECKING:
    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue


def _flags(pixels: Pixels, value: object = True) -> Array:
    return np.full(len(pixels), value)


@moving_form(geometry.flip_left_right)
def _flip_left_right(_machine: Machine, pixels: Pixels) -> DeviceValue:
    return pixels.mirrored(_flags(pixels), 1)


@moving_form(geometry.flip_up_down)
def _flip_up_down(_machine: Machine, pixels: Pixels) -> DeviceValue:
    return pixels.mirrored(_flags(pixels), 0)


@moving_form(geometry.flip_if, each=("flag",))
def _flip_if(_machine: Machine, pixels: Pixels, flag: object, upside_down: bool) -> DeviceValue:
    flags = each_row(flag, len(pixels), np.int64) != 0
    return pixels.mirrored(flags, 0 if upside_down else 1)


@moving_form(geometry.rot90)
def _rot90(_machine: Machine, pixels: Pixels, k: int) -> DeviceValue:
    turns = k % 4
    if turns == 0:
        return pixels
    if turns == 2:
        return pixels.mirrored(_flags(pixels), 0).mirrored(_flags(pixels), 1)
    turned = pixels.transposed()
    return turned.mirrored(_flags(turned), 0 if turns == 1 else 1)


@moving_form(geometry.transpose)
def _transpose(_machine: Machine, pixels: Pixels) -> DeviceValue:
    return pixels.transposed()


def _cut(pixels: Pixels, cuts: DeviceValue) -> Pixels:
    return pixels.cropped(*cuts[:, :4].T)


@moving_form(geometry.central_crop)
def _central_crop(_machine: Machine, pixels: Pixels, central_fraction: float) -> DeviceValue:
    return _cut(pixels, geometry.central_cuts(pixels.shapes, central_fraction))


@moving_form(random.crop_by_draws, each=("draws",))
def _crop(_machine: Machine, pixels: Pixels, size: object, draws: object) -> DeviceValue:
    return _cut(pixels, random.drawn_cuts(pixels, size, draws))


@moving_form(geometry.crop_to_bounding_box, each=("offset_height", "offset_width"))
def _crop_to_box(
    _machine: Machine,
    pixels: Pixels,
    offset_height: object,
    offset_width: object,
    target_height: int,
    target_width: int,
) -> DeviceValue:
    tops, lefts = (each_row(offset, len(pixels), np.int64) for offset in (offset_height, offset_width))
    return _cut(pixels, geometry.cuts_at(pixels, tops, lefts, target_height, target_width))


@moving_form(geometry.crop_to_window, each=("window",))
def _crop_to_window(_machine: Machine, pixels: Pixels, window: object) -> DeviceValue:
    windows = each_row(window, len(pixels), np.int64).reshape(len(pixels), 4)
    return _cut(pixels, geometry.cuts_at(pixels, *windows.T))


def framed(machine: Machine, pixels: Pixels, corners: DeviceValue, height: int, width: int) -> DeviceValue:
    """Return each image from its corner on within zeros of one size."""
    channels = int(pixels.shapes[0, 2])
    made = machine.torch.zeros((len(pixels), height, width, channels), dtype=pixels.flat.dtype, device=machine.device)
    tops, lefts = (corners[:, i : i + 1] for i in (0, 1))
    y, x = np.arange(height) - tops, np.arange(width) - lefts
    within_y, within_x = (y >= 0) & (y < pixels.shapes[:, :1]), (x >= 0) & (x < pixels.shapes[:, 1:2])
    found = pixels.gather(machine, np.where(within_y, y, 0), np.where(within_x, x, 0))
    inside = machine.put(within_y)[:, :, None, None] & machine.put(within_x)[:, None, :, None]
    return machine.torch.where(inside, found, made)


@image_form(geometry.pad_to_bounding_box, each=("offset_height", "offset_width"))
def _pad(
    machine: Machine, pixels: Pixels, offset_height: object, offset_width: object, target_height: int, target_width: int
) -> DeviceValue:
    corners = geometry.corners_within(pixels, offset_height, offset_width, target_height, target_width)
    return framed(machine, pixels, corners, target_height, target_width)


@image_form(geometry.resize_with_crop_or_pad)
def _crop_or_pad(machine: Machine, pixels: Pixels, target_height: int, target_width: int) -> DeviceValue:
    wanted = np.array(two_sizes((target_height, target_width)))
    spare = pixels.shapes[:, :2] - wanted
    corners = np.maximum(spare // 2, 0)
    cut = pixels.cropped(*corners.T, *np.minimum(pixels.shapes[:, :2], wanted).T)
    return framed(machine, cut, np.maximum(-spare // 2, 0), target_height, target_width)
