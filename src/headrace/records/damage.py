"""Arrays that come from a file: whether all they point to is there, and whether their text is text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.records.arrow import is_bytes, is_list, is_stored_as, is_text, list_size

if TYPE_CHECKING:
    import pyarrow as pa


def check_layout(array: pa.Array) -> None:
    """Raise ValueError where an offset or an index points to what is not there; nothing may read the array before.

    Only what lies between the array's own bounds is looked at, so that halves of it tell which row is wrong.
    """
    array.validate()  # that there are buffers, and that they are long enough
    _check_inside(array)


def _check_inside(array: pa.Array) -> None:
    from pyarrow import types as t

    kind = array.type
    if not len(array) or t.is_primitive(kind) or t.is_fixed_size_binary(kind):
        return
    if t.is_dictionary(kind):
        _check_indices(array)
        _check_inside(array.dictionary)
    elif isinstance(kind, _extension()):
        _check_inside(array.storage)
    elif t.is_string_view(kind) or t.is_binary_view(kind):
        _as_bytes(array).validate(full=True)
    elif is_text(kind) or is_bytes(kind):
        _bounds(array, _content_bytes(array))
    else:
        for child in _children(array):
            _check_inside(child)


def _children(array: pa.Array) -> Iterator[pa.Array]:
    """What the rows of an array hold, once it is known to be there."""
    from pyarrow import types as t

    kind = array.type
    if t.is_struct(kind):
        yield from (array.field(i) for i in range(kind.num_fields))
    elif t.is_map(kind):
        start, stop = _bounds(array, len(array.keys))
        yield from (array.keys[start:stop], array.items[start:stop])
    elif is_list(kind):
        size = list_size(kind)
        if size is not None:
            yield array.values.slice(array.offset * size, len(array) * size)
        else:
            start, stop = _bounds(array, len(array.values))
            yield array.values[start:stop]


def _bounds(array: pa.Array, end: int) -> tuple[int, int]:
    """The first and the last of what the offsets point to, of which there is as much as up to `end`."""
    from pyarrow import types as t

    kind = array.type
    if t.is_list_view(kind) or t.is_large_list_view(kind):
        width = 8 if t.is_large_list_view(kind) else 4
        starts, sizes = (_numbers(array, i, width, len(array)) for i in (1, 2))
        if ((starts < 0) | (sizes < 0) | (starts > end) | (sizes > end - starts)).any():
            raise ValueError("its offsets point beyond its values")
        return int(starts.min()), int((starts + sizes).max())
    wide = t.is_large_list(kind) or t.is_large_string(kind) or t.is_large_binary(kind)
    offsets = _numbers(array, 1, 8 if wide else 4, len(array) + 1)
    start, stop = int(offsets[0]), int(offsets[-1])
    if start < 0 or stop > end or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("its offsets point beyond its values")
    return start, stop


def _numbers(array: pa.Array, buffer: int, width: int, count: int) -> NDArray[Any]:
    return np.frombuffer(array.buffers()[buffer], np.int32 if width == 4 else np.int64, count, array.offset * width)


def _content_bytes(array: pa.Array) -> int:
    content = array.buffers()[2]
    return 0 if content is None else int(content.size)


def _check_indices(array: pa.Array) -> None:
    import pyarrow.compute as pc

    found = pc.min_max(array.indices)
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and (least < 0 or most >= len(array.dictionary)):
        raise ValueError(f"index {least if least < 0 else most} is none of its {len(array.dictionary)} categories")


def check_text(array: pa.Array) -> None:
    """Raise ValueError where a string is not UTF-8; of a column without fields, whose layout is right."""
    kind = array.type
    while is_list(kind) or is_stored_as(kind):
        array = array.storage if is_stored_as(kind) else array.flatten()
        kind = array.type
    if not len(array) or not is_text(kind) or _is_ascii(array):
        return
    try:
        array.validate(full=True)
    except ValueError:
        raise ValueError("holds no UTF-8") from None


def _is_ascii(array: pa.Array) -> bool:
    """Whether all the bytes are; several times as fast as to look at each string."""
    from pyarrow import types as t

    if t.is_string_view(array.type):
        return False
    start, stop = _bounds(array, _content_bytes(array))
    if start == stop:
        return True
    return bool(np.frombuffer(array.buffers()[2], np.uint8, stop - start, start).max() < 128)


def _as_bytes(array: pa.Array) -> pa.Array:
    """Views of strings as views of bytes, for which any bytes will do."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.binary_view(), len(array), array.buffers(), offset=array.offset)


def _extension() -> Any:
    import pyarrow as pa

    return pa.BaseExtensionType
