"""JPEGs decoded by a GPU (nvJPEG), if it gives the pixels that were asked for.

nvJPEG has one transform and one upsampling: those of `dct_method="INTEGER_ACCURATE", fancy_upscaling=False`, and of
baseline files only. Other files are decoded by the CPU, and files that it refuses too, so that each error is the same.
It is called by `headrace.device.nvjpeg` if the GPU has a JPEG engine, else by torchvision.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns.arrow_text import Bytes, Offsets, parts
from headrace.core.frameworks import framework
from headrace.core.types import Argument, Component
from headrace.device.forms import device_form
from headrace.device.machine import writable_view
from headrace.device.nvjpeg import SAMPLINGS, Decoder, Files, destinations
from headrace.device.pixels import DeviceValue, Numbers, Pixels
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


def samplings(data: Bytes, offsets: Offsets) -> Numbers:
    """Return components, and columns and rows of luma for one of chroma, of each JPEG that nvJPEG decodes like libjpeg.

    Those are whole baseline files without a flaw in their headers, grey or YCbCr, of 8 bits. Others have zeros.
    """
    found = np.empty((len(offsets) - 1, 3), np.int64)
    _native.jpeg_samplings(data, offsets, found)
    found[~(found[:, None, 1:] == SAMPLINGS).all(2).any(1)] = 0
    return found


@dataclass
class JpegFiles:
    """JPEGs of some rows, and the images of those that the GPU decodes like libjpeg."""

    rows: pa.LargeBinaryArray
    on_gpu: NDArray[np.intp]
    """The numbers of their rows."""
    images: Pixels | None
    """None if there are none."""


def _decode_ahead(
    machine: Machine, contents: Component, channels: int, max_pixels: int | None, **_: Argument
) -> dict[str, Argument]:
    rows = bytes_column(contents)
    data, offsets = parts(rows)
    shapes = read_headers(data, offsets, max_pixels, JPEG)[:, 1:4]
    found = samplings(data, offsets)
    on_gpu = np.flatnonzero((found[:, 0] == 1) | (found[:, 0] == 3) & (channels != 1))
    images = None
    if len(on_gpu):
        shapes = shapes[on_gpu]
        shapes[:, 2] = channels or found[on_gpu, 0]
        files = Files(data, offsets[on_gpu], np.diff(offsets)[on_gpu])
        with machine.queue():
            if (decoder := machine.jpeg_decoder) is None:
                kept, images = _by_torchvision(machine, files, channels)
            else:
                kept, images = _by_engine(machine, decoder, files, shapes)
        on_gpu = on_gpu[kept]  # the CPU decodes the others, and finds what is wrong with them
    return {"contents": JpegFiles(rows, on_gpu, images)}


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
    images = [] if contents.images is None else [(contents.on_gpu, contents.images)]
    on_cpu = np.setdiff1d(np.arange(len(contents.rows)), contents.on_gpu)
    if len(on_cpu):
        arguments = (channels, ratio, fancy_upscaling, try_recover_truncated, dct_method)
        decoded = decode_jpeg_column(contents.rows.take(on_cpu), *arguments, max_pixels=max_pixels)
        images.append((on_cpu, Pixels.of_varied(machine, decoded)))
    return Pixels.merged(machine, images)


def _by_engine(machine: Machine, decoder: Decoder, files: Files, shapes: Numbers) -> tuple[Numbers, Pixels]:
    """Return the images of files of these shapes, and which of the files they are."""
    stored = shapes.copy()
    stored[:, 2] = 3  # of a grey file, too: its image is the first of them
    images = Pixels.empty(machine, stored)
    refused = decoder.decode(files, destinations(images.flat.data_ptr(), images.starts, shapes[:, 1]))
    kept = np.delete(np.arange(len(shapes)), refused)
    return kept, Pixels(images.flat, shapes, images.starts, images.strides).picked(kept)


def _by_torchvision(machine: Machine, files: Files, channels: int) -> tuple[Numbers, Pixels | None]:
    """Return the images of files, and which of the files they are: none if one of them stops the decoder."""
    io = framework("torchvision.io", 'map(decode_jpeg, device="cuda")')
    mode = {0: io.ImageReadMode.UNCHANGED, 1: io.ImageReadMode.GRAY, 3: io.ImageReadMode.RGB}[channels]
    data = machine.torch.from_numpy(writable_view(files.data))
    ends = files.starts + files.sizes
    each = [data[start:end] for start, end in zip(files.starts.tolist(), ends.tolist(), strict=True)]
    try:
        images = io.decode_jpeg(each, mode=mode, device=machine.device)
    except machine.torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return np.empty(0, np.int64), None
    shapes = np.array([x.shape for x in images], np.int64)[:, [1, 2, 0]]
    sizes = shapes.prod(1)
    flat = machine.torch.cat([x.reshape(-1) for x in images])
    strides = np.stack([shapes[:, 1], np.ones(len(shapes), np.int64), shapes[:, 0] * shapes[:, 1]], 1)
    return np.arange(len(images)), Pixels(flat, shapes, np.cumsum(sizes) - sizes, strides)
