"""JPEGs by simplejpeg, into memory that is there; of four colours by OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.arrow_text import Bytes, Offsets
from headrace.columns import Column, Varied
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
        """All of a column, whose headers have been read, into one array."""
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
        try:
            made = self._library.decode_jpeg(content, **how)
        except ValueError as error:
            made = self._decode_with_flaws(content, how, error, row)
        if made.shape[:2] != (height, width):
            raise ParseError(
                f"a JPEG that says {height} × {width} and has {made.shape[0]} × {made.shape[1]} pixels", row
            )

    def _decode_with_flaws(self, content: Bytes, how: dict[str, Any], error: ValueError, row: int) -> NDArray[np.uint8]:
        """What the library calls an error and a reader may pass over: anything but pixels that are missing."""
        if not self._recover and ("remature end" in str(error) or not _ends(content)):
            raise ParseError(f"a JPEG that is damaged or breaks off: {error}", row) from None
        try:
            made: NDArray[np.uint8] = self._library.decode_jpeg(content, **how, strict=False)
            return made
        except ValueError as worse:
            raise ParseError(f"a JPEG that is damaged: {worse}", row) from None

    @staticmethod
    def _decode_cmyk(content: Bytes, into: NDArray[np.uint8], row: int) -> None:
        cv2 = image_library("cv2")
        height, width, channels = into.shape
        flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR_RGB
        made = cv2.imdecode(content, flag | cv2.IMREAD_IGNORE_ORIENTATION)
        if made is None:
            raise ParseError("a JPEG of four colours that is damaged", row)
        if made.shape[:2] != (height, width):
            made = cv2.resize(made, (width, height), interpolation=cv2.INTER_AREA)
        into[...] = made.reshape(into.shape)


def _ends(content: Bytes) -> bool:
    """Whether the marker of the end is among the last bytes."""
    return b"\xff\xd9" in content[-64:].tobytes()


def smallest_scale(height: int, width: int, least_height: int, least_width: int) -> tuple[int, int]:
    """The size at the smallest of the scales 1/8, 1/4 and 1/2 that is no smaller than this each way, or the whole.

    Of others the transform takes longer than at the whole size.
    """
    for eighths in (1, 2, 4):
        scaled = -(-height * eighths // 8), -(-width * eighths // 8)
        if scaled[0] >= least_height and scaled[1] >= least_width:
            return scaled
    return height, width
