"""JPEGs by simplejpeg, into memory that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, Varied
from headrace.columns.arrow_text import Bytes, Offsets
from headrace.columns.dense import pooled
from headrace.errors import ParseError
from headrace.image.codecs import image_library
from headrace.image.images import new_images


class JpegDecoder:
    """How JPEGs are decoded, into memory that is there."""

    def __init__(self, *, fast_dct: bool = True, fast_upsampling: bool = False, recover: bool = False) -> None:
        self._library = image_library("simplejpeg")
        self._fast_dct = fast_dct
        self._fast_upsampling = fast_upsampling
        self._recover = recover

    def decode_rows(
        self, values: Bytes, offsets: Offsets, headers: NDArray[np.int64], channels: int = 0, ratio: int = 1
    ) -> Column:
        """Decode all of a column, whose headers were read, into one array."""
        sizes = [
            (-(-height // ratio), -(-width // ratio), channels or (1 if stored == 1 else 3))
            for _, height, width, stored, _ in headers.tolist()
        ]
        cuts = offsets.tolist()
        column: Any
        if len(set(sizes)) == 1:
            column = pooled((len(sizes), *sizes[0]), np.uint8)
        else:
            shapes = np.array(sizes, np.int64).reshape(len(sizes), 3)
            column = Varied(new_images(shapes, np.uint8)[0], shapes)
        for i, into in enumerate(column):
            self.decode(values[cuts[i] : cuts[i + 1]], into, headers[i], i)
        made: Column = column
        return made

    def decode(self, content: Bytes, into: NDArray[np.uint8], header: NDArray[np.int64], row: int) -> None:
        """Fill `into` at its size: that of the image, or one that a scaled transform gives."""
        height, width, channels = into.shape
        _, whole_height, whole_width, stored, _ = header.tolist()
        scaled = (height, width) != (whole_height, whole_width)
        if stored == 4:
            self._decode_cmyk(content, into, row)
            return
        how = {
            "colorspace": "GRAY" if channels == 1 else "RGB",
            "fastdct": self._fast_dct,
            "fastupsample": self._fast_upsampling,
            "buffer": into,
        }
        if scaled:
            how |= {"min_height": height, "min_width": width}
        made = self._decode(content, how, row)
        if made.shape[:2] != (height, width):
            raise ParseError(
                f"a JPEG that says {height} × {width} and has {made.shape[0]} × {made.shape[1]} pixels", row
            )

    def _decode(self, content: Bytes, how: dict[str, Any], row: int) -> NDArray[np.uint8]:
        try:
            made: NDArray[np.uint8] = self._library.decode_jpeg(content, **how)
        except ValueError as error:
            return self._decode_with_flaws(content, how, error, row)
        return made

    def _decode_with_flaws(self, content: Bytes, how: dict[str, Any], error: ValueError, row: int) -> NDArray[np.uint8]:
        """Return what the library calls an error and a reader may skip: anything but pixels that are missing."""
        if not self._recover and ("remature end" in str(error) or not _ends(content)):
            raise ParseError(f"a JPEG that is damaged or breaks off: {error}", row) from None
        try:
            made: NDArray[np.uint8] = self._library.decode_jpeg(content, **how, strict=False)
            return made
        except ValueError as worse:
            raise ParseError(f"a JPEG that is damaged: {worse}", row) from None

    def _decode_cmyk(self, content: Bytes, into: NDArray[np.uint8], row: int) -> None:
        """Decode a JPEG of four colours, which stores them inverted, to the pixels that OpenCV gives."""
        height, width, channels = into.shape
        stored = self._decode(content, {"colorspace": "CMYK", "fastdct": False}, row)
        key = stored[:, :, 3:].astype(np.int32)
        made: NDArray[Any] = key - ((255 - stored[:, :, :3].astype(np.int32)) * key >> 8)
        if channels == 1:
            made = (made @ GREY_WEIGHTS + (1 << GREY_BITS - 1)) >> GREY_BITS
        made = made.astype(np.uint8)
        if made.shape[:2] != (height, width):
            cv2 = image_library("cv2")
            made = cv2.resize(made, (width, height), interpolation=cv2.INTER_AREA)
        into[...] = made.reshape(into.shape)


GREY_BITS = 14
GREY_WEIGHTS = np.array([4899, 9617, 1868], np.int32)
"""Those of red, green and blue in grey, as OpenCV has them."""


def _ends(content: Bytes) -> bool:
    """Return whether the marker of the end is among the last bytes."""
    return b"\xff\xd9" in content[-64:].tobytes()


def smallest_scale(height: int, width: int, least_height: int, least_width: int) -> tuple[int, int]:
    """Return the size at the smallest of the scales 1/8, 1/4 and 1/2 that covers this size, or the full size.

    Of others the transform takes longer than at the whole size.
    """
    for eighths in (1, 2, 4):
        scaled = -(-height * eighths // 8), -(-width * eighths // 8)
        if scaled[0] >= least_height and scaled[1] >= least_width:
            return scaled
    return height, width
