"""Pixels to bytes of image files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, values
from headrace.image.codecs import image_library
from headrace.io.binary import bytes_column
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation


def _bytes_spec(image: Any, *_: Any, **__: Any) -> TensorSpec:
    if not isinstance(image, TensorSpec) or image.rank != 3:
        raise ValueError(f"it is given {image} where an image is needed")
    return TensorSpec((), "S")


def _each_image(encode: Callable[..., bytes]) -> Callable[..., Callable[[Column], Column]]:
    """The block form of a function that encodes one image."""

    def block(_: Any, *how: Any, **named: Any) -> Callable[[Column], Column]:
        return lambda column: bytes_column([encode(row, *how, **named) for row in values(column)])

    return block


def _jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False, chroma_downsampling: bool = True
) -> bytes:
    pixels = _pixels(image, "a JPEG", (1, 3), (np.uint8,))
    if format not in ("", "grayscale", "rgb"):
        raise ValueError(f'format is "", "grayscale" or "rgb", not {format!r}')
    if format and pixels.shape[2] != {"grayscale": 1, "rgb": 3}[format]:
        raise ValueError(f"format is {format!r}, and the image has {pixels.shape[2]} channels")
    if not 0 <= quality <= 100:
        raise ValueError(f"quality lies between 0 and 100, not {quality}")
    grey = pixels.shape[2] == 1
    if progressive:
        return _with_opencv(pixels, ".jpg", "IMWRITE_JPEG_QUALITY", quality, "IMWRITE_JPEG_PROGRESSIVE", 1)
    sampling = "Gray" if grey else "420" if chroma_downsampling else "444"
    colours = "GRAY" if grey else "RGB"
    made: bytes = image_library("simplejpeg").encode_jpeg(pixels, max(1, quality), colours, sampling)
    return made


@traced_operation(spec=_bytes_spec, block=_each_image(_jpeg))
def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False, chroma_downsampling: bool = True
) -> bytes:
    """An image of one or three channels in uint8 as the bytes of a JPEG.

    >>> hr.image.encode_jpeg(np.zeros((2, 2, 3), np.uint8))[:3]
    b'\\xff\\xd8\\xff'
    """
    return _jpeg(image, format, quality, progressive, chroma_downsampling)


def _png(image: Any, compression: int = -1) -> bytes:
    pixels = _pixels(image, "a PNG", (1, 2, 3, 4), (np.uint8, np.uint16))
    if not -1 <= compression <= 9:
        raise ValueError(f"compression lies between 0 and 9, or is -1 for a sensible one, not {compression}")
    if pixels.shape[2] == 2:
        return _grey_with_alpha(pixels, compression)
    return _with_opencv(pixels, ".png", *(("IMWRITE_PNG_COMPRESSION", compression) if compression >= 0 else ()))


@traced_operation(spec=_bytes_spec, block=_each_image(_png))
def encode_png(image: Any, compression: int = -1) -> bytes:
    """An image of one to four channels in uint8 or uint16 as the bytes of a PNG; of two, they are grey and alpha.

    >>> hr.image.encode_png(np.zeros((2, 2, 1), np.uint8))[:4]
    b'\\x89PNG'
    """
    return _png(image, compression)


def _grey_with_alpha(pixels: NDArray[Any], compression: int) -> bytes:
    """A PNG of a kind that OpenCV does not write."""
    height, width, _ = pixels.shape
    depth = pixels.dtype.itemsize * 8
    lines = np.zeros((height, 1 + width * 2 * pixels.dtype.itemsize), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.astype(pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, depth, 4, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), compression)), (b"IEND", b"")):
        made += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return made


def _pixels(image: Any, wanted: str, channels: tuple[int, ...], dtypes: tuple[Any, ...]) -> NDArray[Any]:
    pixels = np.ascontiguousarray(image)
    if pixels.ndim != 3 or pixels.shape[2] not in channels or not pixels.size:
        raise ValueError(
            f"{wanted} has height, width and {' or '.join(map(str, channels))} channels, not the shape {pixels.shape}"
        )
    if pixels.dtype not in dtypes:
        names = " or ".join(np.dtype(d).name for d in dtypes)
        raise TypeError(f"{wanted} is made of {names}, not {pixels.dtype}: hr.image.convert_image_dtype makes them")
    return pixels


def _with_opencv(pixels: NDArray[Any], ending: str, *settings: Any) -> bytes:
    cv2 = image_library("cv2")
    if pixels.shape[2] > 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGBA2BGRA if pixels.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    done, made = cv2.imencode(ending, pixels, [getattr(cv2, s) if isinstance(s, str) else s for s in settings])
    if not done:
        raise ValueError(f"an image of shape {pixels.shape} cannot be encoded as {ending}")
    return bytes(made)
