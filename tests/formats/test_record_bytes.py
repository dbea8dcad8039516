"""A record that never ends takes no more memory than `max_record_bytes`."""

import gzip
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.formats.webdataset.npy import read_array

D = hr.Dataset
LIMIT = 64 << 20
ZEROS = LIMIT + (3 << 20)
"""Bytes of a record that is too long."""


def packed(kind, data=None):
    """A line, then bytes that never end a record."""
    data = b"1,2\n" + b"\0" * ZEROS if data is None else data
    if kind == "ZSTD":
        return pa.Codec("zstd").compress(data, asbytes=True)
    if kind == "ZLIB":
        return zlib.compress(data, 1)
    return gzip.compress(data, 1)


READERS = {
    "text": lambda name: hr.TextLineDataset(name, "GZIP"),
    "text of ZLIB": lambda name: hr.TextLineDataset(name, "ZLIB"),
    "text of ZSTD": lambda name: hr.TextLineDataset(name, "ZSTD"),
    "CSV": lambda name: hr.CsvDataset(name, [np.int64, np.int64], compression_type="GZIP"),
    "text on threads": lambda name: hr.TextLineDataset(name, "GZIP").map(len, num_parallel_calls=2),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_line_without_end(kind, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(packed({"ZLIB": "ZLIB", "ZSTD": "ZSTD"}.get(kind[-4:], "GZIP")))
    assert path.stat().st_size < 1 << 20
    it = iter(READERS[kind](str(path)).with_options(hr.Options(max_record_bytes=LIMIT)))
    tracemalloc.start()
    try:
        next(it)
        with pytest.raises(hr.ElementError, match=rf"more than {LIMIT} bytes.*max_record_bytes"):
            next(it)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()
    assert not list(it)


def test_a_longer_one_is_read_where_it_may_be(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(packed("GZIP"))
    lengths = [len(line) for line in hr.TextLineDataset(str(path), "GZIP")]
    assert lengths == [3, ZEROS]


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB", "ZSTD"])
def test_compressed_records(kind):
    bomb = packed(kind, b"\0" * 3_000_000)
    assert hr.io.decode_compressed(bomb, kind) == b"\0" * 3_000_000
    assert hr.io.decode_compressed(bomb, kind, max_record_bytes=3_000_000) == b"\0" * 3_000_000
    with pytest.raises(hr.ParseError, match="more than 2999999 bytes"):
        hr.io.decode_compressed(bomb, kind, max_record_bytes=2_999_999)
    ds = D.from_tensor_slices([bomb, packed(kind, b"x")])
    small = ds.map(lambda b: hr.io.decode_compressed(b, kind, max_record_bytes=1000))
    assert list(small.ignore_errors()) == [b"x"]
    for damaged in (b"nonsense", bomb[:40]):
        with pytest.raises(hr.ParseError, match=f"not compressed as {kind}"):
            hr.io.decode_compressed(damaged, kind)


def test_several_members():
    assert hr.io.decode_compressed(gzip.compress(b"ab") + gzip.compress(b"") + gzip.compress(b"c"), "GZIP") == b"abc"


def test_the_option():
    with pytest.raises(ValueError, match="at least 67108864"):
        hr.Options(max_record_bytes=1 << 20)
    with pytest.raises(TypeError):
        hr.Options(max_record_bytes=1e9)


def npy(head, data=b""):
    text = head.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" + "(" * 60,
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1in (2,),), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0if 1else 2,), }",
        r"{'descr': '<f8\d', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n (",
        "nonsense",
    ],
)
def test_an_array_of_a_tar_file_that_states_nonsense(head, tmp_path, recwarn):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    rows = D.range(2).map(lambda i: {"__key__": str(i), "npy": npy(head, bytes(8)) if i == 0 else array.tobytes()})
    ds = hr.WebDataset(rows.map(lambda row: row, mode="eager").write_webdataset(tmp_path / "t"))
    with pytest.raises(hr.ElementError, match="array"):
        next(iter(ds))
    assert not recwarn.list


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("descr", "field"), [("'<i2'", None), ("[('3L', '<i2')]", "3L"), ("[('a\\'b', '<i2')]", "a'b")]
)
def test_an_array_of_python_2_is_read_without_a_warning(descr, field):
    array = read_array(npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (2L, 1L), }}\n ", b"\1\0\2\0"))
    np.testing.assert_array_equal(array if field is None else array[field], [[1], [2]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_a_tar_file(order, tmp_path):
    array = np.asarray(np.arange(6, dtype=np.int16).reshape(2, 3), order=order)
    rows = D.range(2).map(lambda i: {"__key__": str(i), "x.npy": array * i}, mode="eager")
    (_, second) = hr.WebDataset(rows.write_webdataset(tmp_path / "t"))
    np.testing.assert_array_equal(second["x.npy"], array)
