"""Columns of numbers are read where Arrow holds them, and hostile buffers are errors."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from headrace.core.ragged import address_of
from headrace.errors import SpecError
from headrace.formats.tables import arrow
from headrace.formats.tables.choice import EVERYTHING, Choice
from headrace.formats.tables.tables import table_columns, table_spec

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
ROWS = 20


def random_bits(dtype, rows=ROWS):
    """Values of every bit pattern, among them signalling NaNs."""
    return np.frombuffer(np.random.default_rng(3).bytes(rows * np.dtype(dtype).itemsize), dtype)


def numbers_of(array):
    return arrow.numbers_of(pa.RecordBatch.from_arrays([array], ["x"]))[0]


def hostile(rows, values, present=None, *, first=0, nulls=-1, kind=None):
    return pa.Array.from_buffers(
        kind or pa.int64(), rows, [present and pa.py_buffer(present), pa.py_buffer(values)], nulls, first
    )


@pytest.mark.parametrize("start", [0, 3, 9, ROWS - 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_keep_their_bits_and_place(dtype, start):
    values = random_bits(dtype)
    whole = pa.Array.from_buffers(pa.from_numpy_dtype(dtype), ROWS, [None, pa.py_buffer(values)])
    got = numbers_of(whole.slice(start))
    assert got.dtype == values.dtype
    assert got.tobytes() == values[start:].tobytes() == whole.slice(start).to_numpy().tobytes()
    assert address_of(got) == address_of(values) + start * values.itemsize
    assert not got.flags.writeable


def test_a_bitmap_without_nulls_is_passed_over():
    array = pa.array([None, *range(1, ROWS)], pa.int32())
    assert numbers_of(array) is None
    assert numbers_of(array.slice(1)).tolist() == [*range(1, ROWS)]
    assert numbers_of(array.slice(0, 0)) is None


@pytest.mark.parametrize(
    "array",
    [
        pa.array([True, False]),
        pa.array(["a", "b"]),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([1.5, None]),
        pa.array([[1], [2]]),
        pa.array([1, 2, 1]).dictionary_encode(),
        pa.nulls(2),
        pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(np.arange(24, dtype=np.uint8)).slice(1)]),
    ],
    ids=lambda array: str(array.type),
)
def test_what_is_read_otherwise_is_left_to_arrow(array):
    got = numbers_of(array)
    assert got is None or got.flags.aligned


def batch_of(array):
    return pa.RecordBatch.from_arrays([array], ["x"])


DAMAGED_ROWS = 12_301
BITMAP_BYTES = (DAMAGED_ROWS + 7) // 8
MISSING = 77


def damaged(before, after, *, nulls=False):
    """A batch that was read from a stream in whose metadata a number was changed. Arrow does not check them."""
    absent = np.arange(DAMAGED_ROWS) < MISSING
    batch = pa.record_batch({"x": pa.array(np.full(DAMAGED_ROWS, -1), mask=absent if nulls else None)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content, number = sink.getvalue().to_pybytes(), struct.pack("<q", before)
    assert number in content
    with pa.ipc.open_stream(content.replace(number, struct.pack("<q", after))) as reader:
        return reader.read_next_batch()


HOSTILE = {
    "negative offset": lambda: batch_of(hostile(4, bytes(32), first=-1)),
    "negative offset with a bitmap": lambda: batch_of(hostile(4, bytes(32), b"\xff", first=-64)),
    "more rows than values": lambda: damaged(DAMAGED_ROWS, DAMAGED_ROWS + 1_000),
    "more rows than values, sliced": lambda: damaged(DAMAGED_ROWS, DAMAGED_ROWS + 1_000).slice(DAMAGED_ROWS - 5),
    "more rows than values, sliced beyond": lambda: damaged(DAMAGED_ROWS, DAMAGED_ROWS + 1_000).slice(DAMAGED_ROWS + 5),
    "rows that overflow": lambda: damaged(DAMAGED_ROWS, 2**62),
    "rows that overflow, sliced": lambda: damaged(DAMAGED_ROWS, 2**62).slice(2**61),
    "values cut within a row": lambda: damaged(8 * DAMAGED_ROWS, 8 * DAMAGED_ROWS - 1),
    "no values": lambda: damaged(8 * DAMAGED_ROWS, 0),
    "short bitmap": lambda: damaged(BITMAP_BYTES, 9, nulls=True),
    "short bitmap, sliced": lambda: damaged(BITMAP_BYTES, 9, nulls=True).slice(100, 8),
    "no bitmap": lambda: damaged(BITMAP_BYTES, 0, nulls=True),
    "more nulls than rows": lambda: damaged(MISSING, 2**40, nulls=True),
    "fewer nulls than none": lambda: damaged(MISSING, -9, nulls=True),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_buffers_are_an_error_that_names_the_column(name):
    batch = HOSTILE[name]()
    assert arrow.numbers_of(batch) == [None]
    with pytest.raises(SpecError, match=r"column 'x' (is damaged|has no value)"):
        table_columns(batch, table_spec(batch.schema, EVERYTHING).structure, EVERYTHING)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.timestamp("ns"), pa.decimal128(5)], ids=str)
def test_columns_of_other_types_do_not_begin_before_their_buffers_either(kind):
    batch = batch_of(hostile(4, bytes(64), first=-2, kind=kind))
    with pytest.raises(SpecError, match="column 'x' is damaged: it begins 2 rows before its values"):
        table_columns(batch, table_spec(batch.schema, EVERYTHING).structure, EVERYTHING)


@pytest.mark.parametrize(
    "choice", [Choice(cast=(("x", pa.float32()),)), Choice(nulls=(("x", 7),))], ids=["cast", "nulls"]
)
def test_columns_that_are_cast_or_filled_are_not_taken_as_they_are(choice):
    table = pa.table({"x": pa.array([1, 2, 3], pa.int64()), "y": pa.array([1, 2, 3], pa.int64())})
    x, y = table_columns(table, table_spec(table.schema, choice).structure, choice)
    assert x.dtype == (np.float32 if choice.targets else np.int64)
    assert x.tolist() == y.tolist() == [1, 2, 3]
    assert choice.changes("x")
    assert not choice.changes("y")


def test_the_table_may_be_dropped_before_its_numbers():
    got = numbers_of(pa.array(np.arange(100_000)))
    assert got.sum() == 99_999 * 50_000
