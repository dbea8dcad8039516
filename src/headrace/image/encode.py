"""Pixels to bytes of image files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.columns import Column, values
from headrace.columns.arrow_text import binary
from headrace.core.types import Argument, Array, TensorLike
from headrace.image.codecs import image_library
from headrace.io.binary import bytes_column
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa


MAX_BYTES_AT_ONCE = 64 << 20
"""Of pixels: larger images are left to OpenCV, and more of them are encoded in several calls."""


def _bytes_spec(image: TensorLike, *_: object, **__: object) -> TensorSpec:
    if not isinstance(image, TensorSpec) or image.rank != 3:
        raise ValueError(f"it is given {image} where an image is needed")
    return TensorSpec((), "S")


def _each_image(encode: Callable[..., bytes]) -> Callable[..., Callable[[Column], Column]]:
    """Return the block form of a function that encodes one image."""

    def block(_: object, *how: object, **named: object) -> Callable[[Column], Column]:
        return lambda column: bytes_column([encode(row, *how, **named) for row in values(column)])

    return block


def _jpeg(
    image: TensorLike, format: str = "", quality: int = 95, progressive: bool = False, chroma_downsampling: bool = True
) -> bytes:
    pixels = _pixels(image, "a JPEG", (1, 3), (np.uint8,))
    if format not in ("", "grayscale", "rgb"):
        raise ValueError(f'format is "", "grayscale" or "rgb", not {format!r}')
    if format and pixels.shape[2] != {"grayscale": 1, "rgb": 3}[format]:
        raise ValueError(f"format is {format!r}, and the image has {pixels.shape[2]} channels")
    if not 0 <= quality <= 100:
        raise ValueError(f"quality must be between 0 and 100, not {quality}")
    grey = pixels.shape[2] == 1
    if progressive:
        return _with_opencv(pixels, ".jpg", "IMWRITE_JPEG_QUALITY", quality, "IMWRITE_JPEG_PROGRESSIVE", 1)
    sampling = "Gray" if grey else "420" if chroma_downsampling else "444"
    colours = "GRAY" if grey else "RGB"
    made: bytes = image_library("simplejpeg").encode_jpeg(pixels, max(1, quality), colours, sampling)
    return made


@traced_operation(spec=_bytes_spec, block=_each_image(_jpeg))
def encode_jpeg(
    image: TensorLike, format: str = "", quality: int = 95, progressive: bool = False, chroma_downsampling: bool = True
) -> bytes:
    """Return an image of one or three channels in uint8 as the bytes of a JPEG.

    Args:
        image: One image (height, width, channels) or a batch of images.
        format: "grayscale", "rgb", or "" for what the channels say.
        quality: Quality from 1 to 100.
        progressive: Whether to write a progressive JPEG.
        chroma_downsampling: Whether colors are stored at half resolution.

    >>> hr.image.encode_jpeg(np.zeros((2, 2, 3), np.uint8))[:3]
    b'\\xff\\xd8\\xff'
    """
    return _jpeg(image, format, quality, progressive, chroma_downsampling)


def _png(image: TensorLike, compression: int = -1) -> bytes:
    pixels = _pixels(image, "a PNG", (1, 2, 3, 4), (np.uint8, np.uint16))
    if not -1 <= compression <= 9:
        raise ValueError(f"compression must be between 0 and 9, or -1 for the default, not {compression}")
    if compression < 0 and pixels.dtype == np.uint8 and pixels.nbytes <= MAX_BYTES_AT_ONCE:
        return encode_pngs(pixels[None])[0].as_py()  # type: ignore[no-any-return]
    if pixels.shape[2] == 2:
        return _grey_with_alpha(pixels, compression)
    return _with_opencv(pixels, ".png", *(("IMWRITE_PNG_COMPRESSION", compression) if compression >= 0 else ()))


def encode_pngs(pixels: NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Return images of one shape as PNGs, compressed by all CPUs.

    Args:
        pixels: uint8 of shape (images, height, width, channels), with 1 to 4 channels.
    """
    return binary(*_native.encode_pngs(np.ascontiguousarray(pixels).reshape(-1), np.array(pixels.shape, np.int64)))


def _png_block(_: object, *how: Argument, **named: Argument) -> Callable[[Column], Column]:
    """The block form of `encode_png`."""
    default = not any(value != -1 for value in (*how, *named.values()))

    def encode(column: Column) -> Column:
        dense = isinstance(column, np.ndarray) and column.dtype == np.uint8 and column.ndim == 4
        if not default or not dense or not column.size or not 1 <= column.shape[3] <= 4:
            return bytes_column([_png(row, *how, **named) for row in values(column)])
        rows = max(1, MAX_BYTES_AT_ONCE // column[0].nbytes)
        if column[0].nbytes > MAX_BYTES_AT_ONCE:
            return bytes_column([_png(row) for row in column])
        made = [encode_pngs(column[first : first + rows]) for first in range(0, len(column), rows)]
        return made[0] if len(made) == 1 else bytes_column([each for part in made for each in part.to_pylist()])

    return encode


@traced_operation(spec=_bytes_spec, block=_png_block)
def encode_png(image: TensorLike, compression: int = -1) -> bytes:
    """Return an image of one to four channels in uint8 or uint16 as the bytes of a PNG.

    Args:
        image: An image (height, width, channels); two channels are grey and alpha.
        compression: Level from 0 (none) to 9 (slow, small). -1 is fast, and about as small as 6.

    >>> hr.image.encode_png(np.zeros((2, 2, 1), np.uint8))[:4]
    b'\\x89PNG'
    """
    return _png(image, compression)


def _grey_with_alpha(pixels: Array, compression: int) -> bytes:
    """Return a PNG of a kind that OpenCV does not write."""
    height, width, _ = pixels.shape
    depth = pixels.dtype.itemsize * 8
    lines = np.zeros((height, 1 + width * 2 * pixels.dtype.itemsize), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.astype(pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, depth, 4, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), compression)), (b"IEND", b"")):
        made += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return made


def _pixels(image: TensorLike, wanted: str, channels: tuple[int, ...], dtypes: tuple[Any, ...]) -> Array:
    pixels = np.ascontiguousarray(image)
    if pixels.ndim != 3 or pixels.shape[2] not in channels or not pixels.size:
        raise ValueError(
            f"{wanted} has height, width and {' or '.join(map(str, channels))} channels, not the shape {pixels.shape}"
        )
    if pixels.dtype not in dtypes:
        names = " or ".join(np.dtype(d).name for d in dtypes)
        raise TypeError(f"{wanted} is made of {names}, not {pixels.dtype}: hr.image.convert_image_dtype makes them")
    return pixels


def _with_opencv(pixels: Array, ending: str, *settings: object) -> bytes:
    cv2 = image_library("cv2")
    if pixels.shape[2] > 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGBA2BGRA if pixels.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    done, made = cv2.imencode(ending, pixels, [getattr(cv2, s) if isinstance(s, str) else s for s in settings])
    if not done:
        raise ValueError(f"an image of shape {pixels.shape} cannot be encoded as {ending}")
    return bytes(made)
