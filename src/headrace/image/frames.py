"""All frames of a GIF, as TensorFlow's `decode_gif` draws them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.columns import Column, column_of
from headrace.columns.arrow_text import parts
from headrace.core.types import TensorLike
from headrace.errors import NONSENSE, ParseError
from headrace.image.codecs import GIF, MAX_PIXELS, image_library, read_headers
from headrace.io.binary import bytes_column, one_record, record
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

OPAQUE = 255


@traced_operation(
    spec=lambda contents, *_, **__: record(contents) and TensorSpec((None, None, None, 3), np.uint8),
    block=lambda contents, *how, **named: lambda rows: decode_gif_column(bytes_column(rows), *how, **named),  # noqa: ARG005
)
def decode_gif(
    contents: TensorLike, name: str | None = None, *, max_pixels: int | None = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Decode all frames of a GIF to frames × height × width × 3.

    As in TensorFlow, each frame is drawn over the one before, whatever the file says of its disposal, and the pixels
    that no frame has drawn are black. `decode_image` gives the first frame alone, with three axes.

    Args:
        contents: Bytes of a GIF, or an array of such.
        name: Accepted for compatibility with tf.image.
        max_pixels: Largest number of pixels to accept in all frames together; None accepts any.

    >>> from PIL import Image
    >>> with (folder / "two.gif").open("wb") as file:
    ...     Image.new("RGB", (6, 4)).save(file, save_all=True, append_images=[Image.new("RGB", (6, 4), "red")])
    >>> hr.image.decode_gif((folder / "two.gif").read_bytes())[:, 0, 0].tolist()
    [[0, 0, 0], [255, 0, 0]]
    """
    made: Column = decode_gif_column(bytes_column(one_record(contents)), name, max_pixels=max_pixels)
    return made[0]  # type: ignore[no-any-return]


def decode_gif_column(
    rows: pa.LargeBinaryArray,
    name: str | None = None,  # noqa: ARG001 - in its place as in TensorFlow
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> Column:
    """Return the block form of `decode_gif`."""
    values, offsets = parts(rows)
    read_headers(values, offsets, max_pixels, GIF)
    return column_of([decode_frames(each.as_py(), max_pixels, row) for row, each in enumerate(rows)])


def decode_frames(content: bytes, max_pixels: int | None, row: int) -> NDArray[np.uint8]:
    """Return all frames of a GIF, in colour; together they have no more than `max_pixels`."""
    library = image_library("PIL.Image")
    try:
        height, width, count = _measure(content)
    except IndexError:
        raise ParseError("frames that cannot be decoded: the GIF breaks off", row) from None
    except ValueError as error:
        raise ParseError(f"frames that cannot be decoded: {error}", row) from None
    if max_pixels is not None and count * height * width > max_pixels:
        raise ParseError(
            f"{count} frames of {height} × {width} pixels, more than max_pixels={max_pixels}: "
            "give a larger one if they are to be trusted",
            row,
        )
    refused = (*NONSENSE, SyntaxError, OSError, library.DecompressionBombError, library.DecompressionBombWarning)
    try:
        image = library.open(io.BytesIO(content), formats=["GIF"])
        return np.stack([_frame(image, number) for number in range(min(count, image.n_frames))])
    except refused as error:
        raise ParseError(f"frames that cannot be decoded: {type(error).__name__}: {error}", row) from None


def _frame(image: TensorLike, number: int) -> NDArray[np.uint8]:
    image.seek(number)
    drawn = np.array(image.convert("RGBA"))
    image.dispose = None  # the next frame is drawn over this one
    drawn[drawn[..., 3] != OPAQUE] = 0
    return np.ascontiguousarray(drawn[..., :3])


EXTENSION, FRAME, END = b"!,;"
HAS_TABLE = 0x80


def _measure(content: bytes) -> tuple[int, int, int]:
    """Return the height and width of a GIF and the number of its frames, before anything is decoded.

    Raises:
        IndexError: It breaks off.
        ValueError: A frame is larger than those before it.
    """
    width, height = _numbers(content, 6, 2)
    at = 13 + _table(content[10])
    count = 0
    while at < len(content) and content[at] != END:
        kind, at = content[at], at + 1
        if kind == EXTENSION:
            at = _after_data(content, at + 1)
        elif kind == FRAME:
            left, top, wide, high = _numbers(content, at, 4)
            if not count:
                width, height = max(width, left + wide), max(height, top + high)
            if left + wide > width or top + high > height:
                raise ValueError(f"frame {count} goes beyond the {height} × {width} pixels of those before")
            count += 1
            at = _after_data(content, at + 10 + _table(content[at + 8]))
    return height, width, count


def _numbers(content: bytes, at: int, count: int) -> list[int]:
    return [content[i] | content[i + 1] << 8 for i in range(at, at + 2 * count, 2)]


def _table(flags: int) -> int:
    """Return the bytes of a table of colours."""
    return 3 << (flags & 7) + 1 if flags & HAS_TABLE else 0


def _after_data(content: bytes, at: int) -> int:
    """Return where a sequence of blocks ends, or the file."""
    while at < len(content) and content[at]:
        at += content[at] + 1
    return at + 1
