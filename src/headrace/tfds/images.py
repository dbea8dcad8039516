"""Pictures and their bytes, as TensorFlow decodes them: JPEG by the fast transform, PNG exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.image.codecs import image_library

Array = NDArray[Any]


def decode_picture(data: bytes, channels: int | None, dtype: np.dtype[Any]) -> Array:
    """The picture in some bytes: height, width and as many channels as were asked for, or as it has."""
    if dtype == np.float32:
        return np.ascontiguousarray(decode_picture(data, 4, np.dtype(np.uint8))).view(np.float32)
    if data[:3] == b"\xff\xd8\xff":
        return _jpeg(data, channels, dtype)
    if data[:4] in (b"GIF8",):
        return _gif(data)
    return _with_channels(_plain(data), channels, dtype)


def _jpeg(data: bytes, channels: int | None, dtype: np.dtype[Any]) -> Array:
    simplejpeg = image_library("simplejpeg")
    if not channels:
        channels = 1 if simplejpeg.decode_jpeg_header(data)[2] == "Gray" else 3
    made: Array = simplejpeg.decode_jpeg(data, "GRAY" if channels == 1 else "RGB", fastdct=True)
    return made.astype(dtype, copy=False)


def _plain(data: bytes) -> Array:
    cv2 = image_library("cv2")
    made: Array | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if made is None:
        raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r} are no picture that can be decoded")
    if made.ndim == 2:
        return made[:, :, None]
    order = [2, 1, 0, 3][: made.shape[2]]
    made = made[:, :, order]
    if made.shape[2] == 4 and data[25:26] == b"\x04":  # a PNG of gray and alpha
        return made[:, :, [0, 3]]
    return made


def _with_channels(picture: Array, channels: int | None, dtype: np.dtype[Any]) -> Array:
    if picture.dtype != dtype:
        picture = (picture >> 8).astype(np.uint8) if dtype == np.uint8 else picture.astype(dtype) * 257
    there = picture.shape[2]
    if not channels or channels == there:
        return picture
    if channels < there and channels == there - 1:  # without alpha
        return picture[:, :, :channels]
    if there <= 2 and channels >= 3:
        colours = [0, 0, 0] + ([1] if there == 2 else [])
        picture = picture[:, :, colours]
        there = picture.shape[2]
    if there == 3 and channels == 4:
        alpha = np.full((*picture.shape[:2], 1), np.iinfo(picture.dtype).max, picture.dtype)
        return np.concatenate([picture, alpha], axis=2)
    if channels == there:
        return picture
    if channels < there and channels >= 3:
        return picture[:, :, :channels]
    raise ValueError(f"a picture of {there} channels is no picture of {channels}")


def _gif(data: bytes) -> Array:
    """All frames, in colour."""
    import io

    image = image_library("PIL.Image").open(io.BytesIO(data))
    frames = []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)


def decode_pictures(column: Sequence[bytes], shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> list[Array]:
    """The pictures of several rows, each of which must be of the shape, as far as that is known."""
    channels = shape[-1]
    made = []
    gray = dtype == np.uint8 and channels == 1 and None not in shape
    imdecode = image_library("cv2").imdecode if gray else None
    for data in column:
        if imdecode is not None and data[:4] == b"\x89PNG":
            plain = imdecode(np.frombuffer(data, np.uint8), -1)
            if plain is not None and plain.dtype == np.uint8 and plain.shape == shape[:2]:
                made.append(plain[:, :, None])
                continue
        picture = decode_picture(data, channels, dtype)
        if len(picture.shape) != len(shape) or any(
            n not in (None, m) for n, m in zip(shape, picture.shape, strict=True)
        ):
            raise ValueError(f"a picture of shape {picture.shape} where {shape} was promised")
        made.append(picture)
    return made


def encode_picture(picture: Array, encoding: str | None) -> bytes:
    """A picture as PNG or JPEG."""
    if picture.dtype == np.float32:
        picture = np.ascontiguousarray(picture).view(np.uint8)
    if encoding == "jpeg":
        simplejpeg = image_library("simplejpeg")
        space = "GRAY" if picture.shape[2] == 1 else "RGB"
        data: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(picture), quality=95, colorspace=space)
        return data
    return png_bytes(picture)


def png_bytes(picture: Array) -> bytes:
    """A PNG: of one, two, three or four channels of 8 or 16 bits."""
    import struct
    import zlib

    height, width, channels = picture.shape
    depth = picture.dtype.itemsize * 8
    rows = np.ascontiguousarray(picture.astype(picture.dtype.newbyteorder(">")))
    lines = np.zeros((height, 1 + width * channels * depth // 8), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = rows.view(np.uint8).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, depth, (None, 0, 4, 2, 6)[channels], 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")):
        made += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return made
