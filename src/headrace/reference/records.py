"""What readers of records mean: the whole file in memory, one record after another."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from headrace.errors import is_unopenable
from headrace.formats.shared.files import read_all
from headrace.formats.shared.format import Format
from headrace.formats.shared.packed import packing, remedy
from headrace.formats.shared.reader import RecordAt
from headrace.formats.shared.records import Records
from headrace.reference.base import Place, Row, rows
from headrace.remote.transport import ALONE

NaiveRecord = tuple[Any, int, int]
"""A value or, as a Wrong or an OSError, why there is none; the byte and the line where it begins."""


class Wrong(str):
    """Why a record could not be read."""


@rows.register
def _(node: Records, at: Place) -> Iterator[Row]:
    for number, (value, offset, line) in enumerate(_records_of(node)):
        if not isinstance(value, Wrong | OSError):
            yield Row((at.path, number), value)
        elif node.leaves_out(value if isinstance(value, OSError) else None):
            return
        elif node.on_error is None or is_unopenable(value):
            yield Row((at.path, number), node.bad(value, RecordAt(offset, number, line)))


def _records_of(node: Records) -> Iterator[NaiveRecord]:
    form = node.format
    try:
        data = read_all(node.path, via=ALONE.using(node.storage_options))
    except OSError as error:
        yield error, 0, 0
        return
    if form.compression:
        data = _unpack(data, form.compression)
    elif form.is_text and (packed := packing(data)):
        yield Wrong(remedy(packed)), 0, 0
        return
    yield from read_records(form, data, go_on=node.on_error is not None)


@singledispatch
def read_records(form: Format, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:
    """Yield the records of a file of this format; with `go_on`, those after a damaged one too, if they can be found."""
    raise NotImplementedError(f"the reference executor does not know {type(form).__name__}")


def _unpack(data: bytes, compression: str) -> bytes:
    if compression == "GZIP":
        return gzip.decompress(data)
    if compression == "ZLIB":
        return zlib.decompress(data)
    import io

    import pyarrow as pa

    return bytes(pa.CompressedInputStream(io.BytesIO(data), "zstd").read())
