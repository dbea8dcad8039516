"""Raw numbers, CSV, JSON, compressed bytes and tensors, where there is no TensorFlow to compare with."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from tests.by_hand import field, varint

import headrace as hr
from headrace.columns import MAX_AXES
from headrace.io.csv import decode_csv_columns
from headrace.io.decode import decode_compressed_column, decode_json_columns, decode_raw_column
from headrace.io.tensors import parse_tensor_column


def column(*rows):
    return pa.array(rows, pa.large_binary())


def test_raw_columns_are_dense_or_ragged_and_share_memory():
    rows = column(b"xxxx", b"\1\0\2\0", b"\3\0\4\0")[1:]
    dense = decode_raw_column(rows, np.int16)
    assert dense.tolist() == [[1, 2], [3, 4]]
    assert not dense.flags.writeable
    ragged = decode_raw_column(column(b"\1\0", b"", b"\2\0\3\0"), np.int16)
    assert ragged.to_list() == [[1], [], [2, 3]]
    assert decode_raw_column(column(b"ab", b"cd"), np.uint8).base is not None
    assert decode_raw_column(column(), np.float32).shape == (0, 0)
    unaligned = decode_raw_column(column(b"x", np.arange(3, dtype=np.float64).tobytes())[1:], np.float64)
    assert unaligned.flags.aligned
    assert unaligned.tolist() == [[0, 1, 2]]


def test_raw_errors_name_the_record():
    with pytest.raises(hr.ParseError, match="3 bytes is no whole number of int16") as caught:
        decode_raw_column(column(b"ab", b"abc"), np.int16)
    assert caught.value.row == 1
    with pytest.raises(hr.ParseError, match="record 1 has 4"):
        hr.io.decode_raw([b"ab", b"abcd"], np.int16)
    with pytest.raises(ValueError, match="multiple"):
        hr.io.decode_raw(b"ab", np.int16, fixed_length=3)
    with pytest.raises(ValueError, match="numbers"):
        hr.io.decode_raw(b"ab", object)


def test_csv_errors_name_the_line_and_what_is_wrong():
    def refused(*lines, said, defaults=(0, b"")):
        with pytest.raises(hr.ParseError, match=said) as caught:
            decode_csv_columns(column(*lines), defaults)
        return caught.value.row

    assert refused(b"1,a", b"2", said="fewer than the 2 fields") == 1
    assert refused(b"1,a", b"2,b", b"3,c,d", said="more than the 2 fields.*3,c,d") == 2
    assert refused(b"1,a", b"x,b", said="field 0 of the result is no int32") == 1
    assert refused(b",a", said="empty and has no default", defaults=(np.int64, b"")) == 0
    assert refused(b"1,a", b"", said="empty") == 1
    assert refused(b"1,a", b'2,"b', b'3,c"', said="quote") == 1
    assert refused(b"1,a", b"2,b\n3,c", said="line's end") == 1
    assert refused(b"1,a", b'2,x"y', said="field 1 holds a quote") == 1
    assert refused(b"1,\xff", said="UTF-8", defaults=(0, "")) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"field_delim": ";;"},
        {"field_delim": '"'},
        {"select_cols": [1, 0]},
        {"select_cols": [0]},
        {"record_defaults": [1j, 0]},
        {"record_defaults": [[1, 2], 0]},
        {"record_defaults": []},
    ],
)
def test_csv_arguments_are_checked(arguments):
    with pytest.raises(ValueError, match=r"must be|record_defaults\[0\]"):
        hr.io.decode_csv("1,2", **{"record_defaults": [0, 0], **arguments})


def test_csv_keeps_the_shape_of_its_records():
    lines = np.array([["1,a", "2,b"], ["3,c", "4,d"]], object)
    numbers, text = hr.io.decode_csv(lines, [0, ""])
    assert numbers.tolist() == [[1, 2], [3, 4]]
    assert text.tolist() == [["a", "b"], ["c", "d"]]
    assert hr.io.decode_csv([], [0])[0].shape == (0,)


def test_json():
    lines = ['{"a": [1, 2], "s": "x", "n": 1}', '{"a": [3], "s": "é", "n": null}']
    got = hr.io.decode_json(lines, {"a": np.int64, "s": str, "n": -1.5, "b": b"none"})
    assert got["a"].to_list() == [[1, 2], [3]]
    assert got["s"].tolist() == ["x", "é"]
    assert got["n"].tolist() == [1.0, -1.5]
    assert got["b"].tolist() == [b"none", b"none"]
    assert hr.io.decode_json('{"a": {"b": 1}}')["a"] == {"b": 1}


@pytest.mark.parametrize(
    ("line", "fields", "said"),
    [
        ("{", None, "not JSON"),
        ("[1]", None, "object is needed, not list"),
        ("{}", {"x": np.int64}, "'x' is missing"),
        ('{"x": 1.5}', {"x": np.int64}, "1.5, which is no int64"),
        ('{"x": "1"}', {"x": np.int64}, "no int64"),
        ('{"x": 300}', {"x": np.uint8}, "no uint8"),
    ],
)
def test_json_errors(line, fields, said):
    with pytest.raises(hr.ParseError, match=said) as caught:
        decode_json_columns(column(b'{"x": 1}', line.encode()), fields)
    assert caught.value.row == 1


def test_compressed_bytes():
    zstd = pa.Codec("zstd").compress(b"water" * 9, asbytes=True)
    assert hr.io.decode_compressed([zstd, zstd], "ZSTD").tolist() == [b"water" * 9] * 2
    with pytest.raises(hr.ParseError, match="GZIP") as caught:
        decode_compressed_column(column(gzip.compress(b"x"), b"not at all"), "GZIP")
    assert caught.value.row == 1
    with pytest.raises(ValueError, match="BROTLI"):
        hr.io.decode_compressed(b"", "BROTLI")


def shaped(*sizes, dtype=1):
    return varint(8) + varint(dtype) + field(2, b"".join(field(2, varint(8) + varint(s)) for s in sizes))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff", "not a TensorProto"),
        (b"", "number 0"),
        (shaped(2, dtype=99), "number 99"),
        (shaped(2, dtype=2), "float64 where float32 was asked"),
        (shaped(2) + field(4, b"1234"), "1 values where its shape"),
        (shaped(2) + field(4, b"123"), "whole number"),
        (shaped(-1), "cannot have the shape"),
        (shaped(2**40, 2**40), "cannot have the shape"),
        (shaped(2**50) + field(5, b"12345678"), "2 values where its shape needs"),
        (varint(8) + varint(1) + field(2, varint(3 << 3) + varint(1)), "rank is not known"),
    ],
)
def test_tensors_that_lie_are_refused(data, said):
    with pytest.raises(hr.ParseError, match=said):
        hr.io.parse_tensor(data, np.float32)


def test_one_value_for_a_huge_tensor_takes_no_memory():
    assert hr.io.parse_tensor(shaped(2**50) + field(5, b"\0\0\x80\x3f"), np.float32)[-1] == 1.0


def test_columns_of_tensors():
    rows = column(hr.io.serialize_tensor([1, 2]), hr.io.serialize_tensor([3, 4]))
    assert parse_tensor_column(rows, np.int64).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(hr.ParseError) as caught:
        parse_tensor_column(column(hr.io.serialize_tensor([1]), b"?"), np.int64)
    assert caught.value.row == 1
    with pytest.raises(TypeError, match="no place"):
        hr.io.serialize_tensor([object()])


def test_json_may_have_as_many_axes_as_an_array():
    def nested(depth):
        return '{"x": ' + "[" * depth + "1" + "]" * depth + "}"

    for depth in (MAX_AXES - 1, MAX_AXES):
        assert hr.io.decode_json(nested(depth))["x"].ndim == depth
        mapped = hr.Dataset.from_tensor_slices([nested(depth)] * 2).map(hr.io.decode_json)
        assert [element["x"].ndim for element in mapped] == [depth] * 2
    with pytest.raises(hr.ParseError, match=r"field 'x' is .* which is no array"):
        hr.io.decode_json(nested(MAX_AXES + 1))
