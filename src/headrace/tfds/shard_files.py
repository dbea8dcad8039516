"""One file of records, in each of TFDS's formats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import _native
from headrace.columns.arrow_text import parts
from headrace.columns.kind import Column

if TYPE_CHECKING:
    pass


def write_shard(path: Path, records: Column, file_format: str) -> None:
    """Write one file of records, synced to disk."""
    if file_format == "array_record":
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(str(path), "group_size:1")
        for record in records:
            writer.write(record.as_py())
        writer.close()
        return
    with path.open("xb") as file:
        if file_format == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({"data": records.cast(pa.binary())}), file)
        else:
            file.write(_native.frame(*parts(records)).data)
        file.flush()
        os.fsync(file.fileno())
