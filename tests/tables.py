"""Files of tables, whole and damaged, for the readers' tests and the fuzzer."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NO_TEXT = b"\xff\xfe no text"


def strings(values, kind=None):
    """An array of strings with unchecked bytes."""
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(kind or pa.string(), len(values), binary.buffers())


def write_parquet(table, path, rows=None):
    pq.write_table(table, path, row_group_size=rows or len(table), compression="none")


def write_arrow(table, path, rows=None):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, rows)


def write_stream(table, path, rows=None):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, rows)


def overwrite(path, offset, content):
    data = bytearray(path.read_bytes())
    data[offset : offset + len(content)] = content
    path.write_bytes(data)


def damage_group(path, group):
    """Have the first page of a row group be nonsense."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(0)
    overwrite(path, column.dictionary_page_offset or column.data_page_offset, b"\xff" * 24)


def damage_offset(path, array, row, value):
    """Change the offset of a row of an array in its file."""
    _, offsets, *_ = array.buffers()
    raw = offsets.to_pybytes()[: 4 * (len(array) + 1)]
    overwrite(path, path.read_bytes().index(raw) + 4 * row, np.int32(value).tobytes())
