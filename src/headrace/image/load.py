"""Image files by their names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.columns import Column, values
from headrace.core.types import Tensor, TensorLike
from headrace.errors import ParseError
from headrace.formats.shared.files import read_all
from headrace.image.codecs import MAX_PIXELS
from headrace.image.decode import decode_image_column
from headrace.image.resize import decode_and_resize_column, two_sizes
from headrace.io.binary import bytes_column
from headrace.plan.spec import TensorSpec
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE
from headrace.trace.operation import traced_operation


def _spec(path: TensorLike, size: TensorLike = None, channels: int = 3, **_: object) -> TensorSpec:
    if not isinstance(path, TensorSpec) or path.shape != ():
        raise ValueError(f"it is given {path} where the name of a file is needed")
    return (
        TensorSpec((None, None, channels or None), np.uint8)
        if size is None
        else TensorSpec((*two_sizes(size), channels), np.float32)
    )


@traced_operation(
    spec=_spec,
    block=lambda path, *how, **named: lambda rows: load_image_column(rows, *how, **named),  # noqa: ARG005
)
def load_image(
    path: TensorLike,
    size: TensorLike = None,
    channels: int = 3,
    *,
    fast: bool = False,
    max_pixels: int | None = MAX_PIXELS,
    storage_options: Mapping[str, object] | None = None,
) -> Tensor:
    """Return the pixels of an image file; of a `size`, in float32.

    Args:
        path: Path or URL of the image.
        size: Height and width to resize to. Default: the image's own.
        channels: Number of color channels; 0 keeps those of the file.
        fast: Whether JPEG files may be decoded at a reduced scale, which changes pixels slightly.
        max_pixels: Largest number of pixels to accept in one image; None accepts any.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    >>> (folder / "a.png").write_bytes(hr.image.encode_png(np.zeros((4, 6, 3), np.uint8))) > 0
    True
    >>> hr.image.load_image(str(folder / "a.png")).shape
    (4, 6, 3)
    """
    made = load_image_column(
        [str(path)], size, channels, fast=fast, max_pixels=max_pixels, storage_options=storage_options
    )
    return next(values(made))


def load_image_column(
    paths: Column,
    size: TensorLike = None,
    channels: int = 3,
    *,
    fast: bool = False,
    max_pixels: int | None = MAX_PIXELS,
    storage_options: Mapping[str, object] | None = None,
) -> Column:
    """Return the block form of `load_image`."""
    names = [str(path) for path in values(paths)]
    via = ALONE.using(storage_options)
    rows = bytes_column([read_all(name, via) for name in names])
    try:
        if size is None:
            return decode_image_column(rows, channels, max_pixels=max_pixels)
        return decode_and_resize_column(rows, size, channels, fast=fast, max_pixels=max_pixels)
    except ParseError as error:
        raise ParseError(f"{show_path(names[error.row])}: {error}", error.row) from None
