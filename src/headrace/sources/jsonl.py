"""Objects of JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.records.choice import Choice
from headrace.records.json_text import first_objects
from headrace.records.json_types import infer
from headrace.records.jsonl import JsonLines
from headrace.records.kinds import FileFormat, register_format
from headrace.records.reader import first_bytes
from headrace.records.redact import show_path
from headrace.records.transport import ALONE, Transport
from headrace.records.unpack import codec
from headrace.sources.files import read_files
from headrace.sources.list_files import first_readable, matching
from headrace.sources.one_file import Missing

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

PROBED = 1 << 20
"""Types are inferred from no more than these first bytes."""


def JsonLinesDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: Any,
    schema: pa.Schema | None = None,
    compression_type: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    cast: Mapping[str, Any] | None = None,
    nulls: Mapping[str, Any] | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    on_error: Any = "raise",
    missing: Missing = "raise",
    storage_options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """The objects of files with one a line, as dicts.

    The first lines tell the fields and their types, unless `schema` (of pyarrow's) does. Whole numbers are int64, or
    uint64 where they must be; text is text, whatever it looks like; a list of objects is a dict of lists. Of fields
    that are not read (`columns`, `exclude`) nothing is asked; any other that was not in the first lines is an error.
    `cast={"id": np.uint64, "extra": object}` says what a column is; object takes whatever Python makes of it, None
    included. A missing number with a fraction is NaN; what else may be missing needs a value in `nulls`. A field of a
    column is called `column.field`.

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
    data = first_bytes(path, compression, PROBED, via)
    whole = data if len(data) < PROBED else data[: data.rfind(b"\n") + 1]
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
