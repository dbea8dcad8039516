"""JPEGs decoded by a GPU (nvJPEG, by torchvision), if it gives the pixels that were asked for.

nvJPEG has one transform and one upsampling: those of `dct_method="INTEGER_ACCURATE", fancy_upscaling=False`, and of
baseline files only. Other files are decoded by the CPU, and files that it refuses too, so that each error is the same.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns.arrow_text import parts
from headrace.core.frameworks import framework
from headrace.core.types import Argument, Component, TorchTensor
from headrace.device.forms import device_form
from headrace.device.machine import writable_view
from headrace.device.pixels import DeviceValue, Pixels
from headrace.image.codecs import JPEG, read_headers
from headrace.image.decode import FAST_DCT, decode_jpeg, decode_jpeg_column
from headrace.io.binary import bytes_column

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.device.machine import Machine
    from headrace.device.pixels import DeviceValue

REMEDY = (
    'give decode_jpeg dct_method="INTEGER_ACCURATE", fancy_upscaling=False, whose pixels the GPU gives to the bit, or '
    "give the map approximate=True"
)


def _why_not_there(*, approximate: bool, **given: Argument) -> str | None:
    """Return why the GPU would give other pixels."""
    if given["ratio"] != 1 or given["try_recover_truncated"]:
        return "with a ratio or try_recover_truncated the GPU cannot decode: do it in a map without device="
    other = FAST_DCT.get(given["dct_method"], True) or given["fancy_upscaling"]
    return f"the GPU decodes with another transform and upsampling: {REMEDY}" if other and not approximate else None


def is_baseline(content: NDArray[np.uint8]) -> bool:
    """Return whether a JPEG is a baseline file of 8 bits that has its end: what nvJPEG decodes like libjpeg."""
    data = content.data
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return marker == 0xC0 and bytes(data[at + 4 : at + 5]) == b"\x08" and bytes(data[-2:]) == b"\xff\xd9"
        if marker == 0xEE and bytes(data[at + 4 : at + 9]) == b"Adobe":
            return False  # its colours may be stored in another way
        at += 2 + size
    return False


@dataclass
class JpegFiles:
    """JPEGs of some rows, with the images (channels, height, width) of those that the GPU decodes like libjpeg."""

    rows: pa.LargeBinaryArray
    images: list[DeviceValue]


def _decode_ahead(
    machine: Machine, contents: Component, channels: int, max_pixels: int | None, **_: Argument
) -> dict[str, Argument]:
    rows = bytes_column(contents)
    data, offsets = parts(rows)
    headers = read_headers(data, offsets, max_pixels, JPEG)
    stored = headers[:, 3]
    alike = np.isin(stored, (1, 3)) & ((channels or stored) == 3) | (stored == 1) & (channels in (0, 1))
    cuts = offsets.tolist()
    on_gpu = [i for i in np.flatnonzero(alike).tolist() if is_baseline(data[cuts[i] : cuts[i + 1]])]
    images: list[DeviceValue] = [None] * len(rows)
    if on_gpu:
        held = machine.torch.from_numpy(writable_view(data))[cuts[0] : cuts[-1]]
        each = held.split(np.diff(offsets).tolist())
        with machine.queue():
            made = _by_gpu(machine, [each[i] for i in on_gpu], channels)
        for i, image in zip(on_gpu, made, strict=True):
            images[i] = image
    return {"contents": JpegFiles(rows, images)}


@device_form(
    "decode_jpeg", inspect.signature(decode_jpeg), on_cpu=("contents",), check=_why_not_there, prepare=_decode_ahead
)
def _decode(
    machine: Machine,
    contents: JpegFiles,
    channels: int,
    ratio: int,
    fancy_upscaling: bool,
    try_recover_truncated: bool,
    dct_method: str,
    max_pixels: int | None,
) -> DeviceValue:
    images = contents.images.copy()
    for number in [number for number, image in enumerate(images) if image is None]:
        arguments = (channels, ratio, fancy_upscaling, try_recover_truncated, dct_method)
        pixels = decode_jpeg_column(contents.rows.slice(number, 1), *arguments, max_pixels=max_pixels)[0]
        images[number] = machine.put(np.asarray(pixels)).permute(2, 0, 1)
    return _flat(machine, images)


def _by_gpu(machine: Machine, files: list[TorchTensor], channels: int) -> list[DeviceValue]:
    """Return images of the files (channels, height, width); None for all if one of them stops the decoder."""
    io = framework("torchvision.io", 'map(decode_jpeg, device="cuda")')
    mode = {0: io.ImageReadMode.UNCHANGED, 1: io.ImageReadMode.GRAY, 3: io.ImageReadMode.RGB}[channels]
    try:
        made: list[DeviceValue] = io.decode_jpeg(files, mode=mode, device=machine.device)
    except machine.torch.OutOfMemoryError:
        raise
    except RuntimeError:  # the CPU decodes them then, and finds the one at fault
        return [None] * len(files)
    return made


def _flat(machine: Machine, images: list[DeviceValue]) -> Pixels:
    shapes = np.array([x.shape for x in images], np.int64)[:, [1, 2, 0]]
    sizes = shapes.prod(1)
    flat = machine.torch.cat([x.reshape(-1) for x in images])
    strides = np.stack([shapes[:, 1], np.ones(len(shapes), np.int64), shapes[:, 0] * shapes[:, 1]], 1)
    return Pixels(flat, shapes, np.cumsum(sizes) - sizes, strides)
