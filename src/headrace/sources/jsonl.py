"""Objects of JSON lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.records.jsonl import JsonLines, parsed
from headrace.records.reader import first_bytes
from headrace.records.redact import shown
from headrace.records.transport import ALONE, Transport
from headrace.records.unpack import codec
from headrace.sources.files import read_files
from headrace.sources.list_files import matching

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

PROBED = 1 << 20


def JsonLinesDataset(  # noqa: N802 - as tf.data's readers are named
    file_pattern: Any,
    schema: pa.Schema | None = None,
    compression_type: str | None = None,
    *,
    nulls: Mapping[str, Any] | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    on_error: Any = "raise",
    storage_options: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """The objects of files with one a line, as dicts.

    The first lines tell the fields and their types, unless `schema` (of pyarrow's) does. A missing number with a
    fraction is NaN; what else may be missing needs a value in `nulls`. An object with other fields is an error.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.jsonl").write_text('{"id": 1, "tags": [1, 2]}\\n{"id": 2, "tags": []}\\n')
    ...     list(hr.JsonLinesDataset(f"{folder}/*.jsonl"))
    [{'id': np.int64(1), 'tags': array([1, 2])}, {'id': np.int64(2), 'tags': array([], dtype=int64)}]
    """
    files = matching(file_pattern, storage_options)
    compression = codec(compression_type)
    via = ALONE.using(storage_options)
    form = JsonLines(compression, schema or _inferred(files[0], compression, via), tuple(sorted((nulls or {}).items())))
    return read_files(
        "JsonLinesDataset",
        files,
        form,
        buffer_size=buffer_size,
        num_parallel_reads=num_parallel_reads,
        on_error=on_error,
        name=name,
        storage_options=storage_options,
    )


def _inferred(path: str, compression: str, via: Transport) -> pa.Schema:
    import pyarrow as pa

    data = first_bytes(path, compression, PROBED, via)
    whole = data if len(data) < PROBED else data[: data.rfind(b"\n") + 1]
    try:
        found = parsed(whole, None).schema
    except ValueError as error:
        raise ValueError(
            f"JsonLinesDataset: the first lines of {shown(path)} do not tell its fields: {error}"
        ) from None
    unknown = [field.name for field in found if pa.types.is_null(field.type)]
    if unknown:
        names = ", ".join(unknown)
        raise ValueError(f"JsonLinesDataset: {names} have no value in the first lines of {shown(path)}; give a schema")
    return pa.schema([_text_stays_text(field) for field in found])


def _text_stays_text(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    return field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
