"""Objects of JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.types import FilePatterns
from headrace.formats.jsonl.format import JsonLines
from headrace.formats.jsonl.text import first_objects
from headrace.formats.jsonl.types import infer
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.list_files import first_readable, matching
from headrace.formats.shared.many_files import read_files
from headrace.formats.shared.one_file import Missing
from headrace.formats.shared.reader import first_bytes
from headrace.formats.shared.unpack import codec
from headrace.formats.tables.choice import Choice
from headrace.remote.redact import show_path
from headrace.remote.transport import ALONE, Transport

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset
    from headrace.formats.shared.quarantine import Quarantine

PROBE_BYTES = 1 << 20
"""Types are inferred from no more than these first bytes."""


def JsonLinesDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: FilePatterns,
    schema: pa.Schema | None = None,
    compression_type: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    on_error: str | Quarantine = "raise",
    missing: Missing = "raise",
    storage_options: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read files with one JSON object per line, as dicts.

    The fields and their types are inferred from the first lines, unless `schema` (a pyarrow schema) is given. Integers
    are int64, or uint64 if necessary; text is text, whatever it looks like; a list of objects is a dict of lists.
    Fields that are not read (`columns`, `exclude`) may hold anything; any other that was not in the first lines is an
    error. `cast={"id": np.uint64, "extra": object}` sets a column's type; object keeps the Python value, None included.
    A missing float is NaN; any other missing value needs a replacement in `nulls`. A field of a column is called
    `column.field`.

    Args:
        file_pattern: Path, URL or glob pattern, or a list of these.
        schema: A `pyarrow.Schema`. Default: inferred from the first lines.
        compression_type: "GZIP", "ZLIB", "ZSTD", or None for what the file itself says.
        columns: Names of the columns to read. Default: all.
        exclude: Names of the columns not to read.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        buffer_size: Number of bytes to read at a time. Default: chosen automatically.
        num_parallel_reads: Number of files whose rows take turns, or `hr.AUTOTUNE`. Default: one file after another.
            This sets the order, not the number of threads.
        on_error: What to do with bad records: "raise", "skip", or an `hr.Quarantine`.
        missing: "raise" an error for files that cannot be opened, or "skip" them with a warning.
        storage_options: Options of the file system, such as credentials; see `hr.Options`.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> line = '{"id": 7, "messages": [{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Hello"}]}'
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.jsonl").write_text(line)
    ...     for chat in hr.JsonLinesDataset(f"{folder}/*.jsonl"):
    ...         print(chat["id"], chat["messages"]["role"], chat["messages"]["content"])
    7 ['user' 'bot'] ['Hi' 'Hello']
    """
    files = matching(file_pattern, storage_options, keep_missing=missing == "skip")
    compression = codec(compression_type)
    choice = Choice.of(columns, exclude, cast, nulls)
    via = ALONE.using(storage_options)
    if schema is None:
        found = _infer_schema(first_readable(files, missing, via), compression, choice, via)
    else:
        found = _choose_fields(schema, choice)
    return read_files(
        "JsonLinesDataset",
        files,
        JsonLines(compression, found, choice),
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        missing=missing,
        name=name,
        storage_options=storage_options,
    )


def _choose_fields(schema: pa.Schema, choice: Choice) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(number) for number in choice.numbers(schema)])


def _infer_schema(path: str, compression: str, choice: Choice, via: Transport) -> pa.Schema:
    data = first_bytes(path, compression, PROBE_BYTES, via)
    whole = data if len(data) < PROBE_BYTES else data[: data.rfind(b"\n") + 1]
    try:
        found = infer(first_objects(whole), choice)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"JsonLinesDataset: the first lines of {show_path(path)} do not tell its fields: {error}"
        ) from None
    if not len(found) and whole.strip():
        raise ValueError(
            f"JsonLinesDataset: the first lines of {show_path(path)} do not tell its fields: there is no object"
        )
    return found


register_format(FileFormat("JSON lines", JsonLinesDataset, "hr.JsonLinesDataset", endings=(".jsonl", ".ndjson")))
