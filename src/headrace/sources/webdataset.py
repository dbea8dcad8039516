"""Samples of WebDataset files, decoded by what their files are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Column, text_column, values
from headrace.core.types import Component, FilePatterns, Nested
from headrace.errors import ParseError
from headrace.formats.shared.files import open_path
from headrace.formats.shared.format import ScanHints
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.list_files import readable_files
from headrace.formats.shared.many_files import file_names, read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.unpack import codec
from headrace.formats.shared.window import open_window
from headrace.formats.webdataset.format import KEY, TarSamples
from headrace.formats.webdataset.npy import read_array
from headrace.formats.webdataset.tar import BLOCK, samples
from headrace.image.decode import decode_image
from headrace.io.decode import decode_json
from headrace.options import AUTOTUNE
from headrace.plan.spec import TensorSpec
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine


def whole_numbers(rows: Column) -> Column:
    """Digits as int64: the block form of the decoder of `cls`."""
    made = []
    for row, value in enumerate(values(rows)):
        try:
            made.append(int(value))
        except ValueError:
            raise ParseError(f"a whole number is needed, not {bytes(value[:20])!r}", row) from None
    return np.array(made, np.int64)


def texts(rows: Column) -> Column:
    """UTF-8 as str: the block form of the decoder of `txt`."""
    return text_column([bytes(value).decode() for value in values(rows)])


@traced_operation(spec=lambda _: TensorSpec((), np.int64), block=lambda _: whole_numbers)
def _number(content: bytes) -> Component:
    return whole_numbers([content])[0]


@traced_operation(spec=lambda _: TensorSpec((), np.str_), block=lambda _: texts)
def _string(content: bytes) -> Component:
    return bytes(content).decode()


DECODERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "webp", "bmp", "gif"), decode_image),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), _number),
    **dict.fromkeys(("txt", "text", "transcript"), _string),
    "json": decode_json,
    "npy": read_array,
}
"""By the last part of an ending; what has none stays bytes."""


def WebDataset(  # noqa: N802 - as others name it
    filenames: FilePatterns,
    fields: Sequence[str] | None = None,
    decode: bool | Mapping[str, Callable[[Any], object]] = True,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    num_parallel_calls: int | None = AUTOTUNE,
    name: str | None = None,
    *,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    index: bool | str = "auto",
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Samples of WebDataset's tar files as dicts: `__key__`, and what each file of the sample holds, by its ending.

    A sample is files that stand together and are called alike up to the first dot. `fields` are the endings that are
    wanted; by default those of the first sample. Images, whole numbers (`cls`), texts, JSON and `npy` are decoded, by
    the last part of the ending; `decode` may add functions by ending, or be False for bytes. Pickles are never read.

    As for other files, `num_parallel_reads` are read at a time, what is damaged is one error, and `index=True` makes
    samples countable and addressable, by an index that is made once and kept in the user's cache folder;
    `index="beside"` writes it beside the files.

    Args:
        filenames: Path or URL, a list of these, or a dataset of them.
        fields: Names of the fields. Default: all of the first sample.
        decode: Whether to decode fields by their ending; or functions by ending, which are used in addition.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        num_parallel_calls: Number of parallel calls, or `hr.AUTOTUNE`. Default: no parallelism.
        name: Label of the operation in `explain()`, `stats()` and error messages.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        index: Whether elements can be found by number: True builds an index if needed, False never uses one, "auto"
            uses one that exists.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.

    Returns:
        A new dataset.

    >>> rows = hr.Dataset.range(3).map(lambda i: {"__key__": f"{i:03d}", "cls": i, "txt": f"number {i}"})
    >>> files = rows.write_webdataset(folder / "train")
    >>> hr.WebDataset(files, index=True)[2]
    {'__key__': '002', 'cls': np.int64(2), 'txt': 'number 2'}
    """
    form = TarSamples(codec(compression_type))
    if fields is None:
        _, known = file_names("WebDataset", filenames, storage_options)
        if known is None:
            raise ValueError("WebDataset: names of files that a dataset tells do not tell the endings: give fields")
        via = ALONE.using(storage_options)
        files = readable_files(known.names, missing, via)
        fields = next((endings for path in files if (endings := _first_fields(path, form, via))), ())
    form = TarSamples(form.compression, tuple(dict.fromkeys(fields)))
    if KEY in form.fields:
        raise ValueError(f"WebDataset: {KEY} is always there: fields are endings")
    ds = read_files(
        "WebDataset",
        filenames,
        form,
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        index=index,
        name=name,
        storage_options=storage_options,
    )
    if decode is False:
        return ds
    extra = dict(decode) if isinstance(decode, Mapping) else {}
    decoders = {field: found for field in form.fields if (found := _decoder(field, extra)) is not None}
    if not decoders:
        return ds
    names = (KEY, *form.fields)

    def decoded(row: Nested) -> Nested:
        return {name: decoders[name](row[name]) if name in decoders else row[name] for name in names}

    return ds.map(decoded, num_parallel_calls=num_parallel_calls)


def _decoder(field: str, extra: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    last = field.rpartition(".")[2]
    for name in (field, last):
        if name in extra:
            return extra[name]
    return DECODERS.get(last)


def _first_fields(path: str, form: TarSamples, via: Transport) -> tuple[str, ...]:
    """Return the endings of the files of the first sample."""
    file = open_path(path, via)
    try:
        view = open_window(file, form.compression, 0, None, max_record_bytes=via.max_record_bytes)
        try:
            while True:
                view.more()
                first = next(samples(view.data, final=view.final), None)
                if first is not None:
                    return tuple(sorted(first.members))
                if view.final:
                    return ()
        except ValueError as error:
            raise ValueError(f"{show_path(path)}: {error}: is this a tar file?") from None
        finally:
            view.close()
    finally:
        file.close()


def _begins(head: bytes) -> bool:
    """Return whether there is a header of a tar file, which has a checksum."""
    if len(head) < BLOCK or head[257:262] != b"ustar":
        return False
    return not TarSamples().scan(np.frombuffer(head[:BLOCK], np.uint8), ScanHints(first=True, final=False)).parts


register_format(
    FileFormat(
        "WebDataset", WebDataset, "hr.WebDataset", endings=(".tar",), matches=_begins, records=TarSamples, columns=False
    )
)
