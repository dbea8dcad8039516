"""Readers of files, against tf.data's own, on the same files."""

from __future__ import annotations

import gzip
import zlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from tests.interop.conftest import ERROR, cases, differs, elements, sort, tf_data

pytestmark = pytest.mark.tensorflow


@cache
def tf():
    import tensorflow

    tf_data()
    return tensorflow


def reading(library):
    """The readers of one library, by tf.data's names."""
    if library == "headrace":
        kinds = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64, "string": str}
        return SimpleNamespace(**{n: getattr(hr, n) for n in READERS}, Dataset=hr.Dataset, **kinds)
    data = tf().data
    kinds = {n: getattr(tf(), n) for n in ("int32", "int64", "float32", "float64", "string")}
    readers = {n: getattr(data, n) for n in READERS if n != "CsvDataset"}
    return SimpleNamespace(**readers, CsvDataset=data.experimental.CsvDataset, Dataset=data.Dataset, **kinds)


READERS = ("TextLineDataset", "FixedLengthRecordDataset", "TFRecordDataset", "CsvDataset")


def assert_same(build, limit=50):
    """`build(R)` gives the same elements, errors, spec and cardinality with both libraries' readers."""
    expected, got = (build(reading(library)) for library in ("tf.data", "headrace"))
    assert elements(got, limit) == elements(expected, limit)
    assert sort(got.element_spec) == sort(expected.element_spec)


def assert_both_refuse(build):
    for library in ("tf.data", "headrace"):
        with pytest.raises((TypeError, ValueError, tf().errors.OpError)):
            list(build(reading(library)))


@pytest.fixture
def put(tmp_path):
    """Writes files; gives their names."""

    def write(*contents, suffix=""):
        names = []
        for i, content in enumerate(contents):
            path = tmp_path / f"file-{i}{suffix}"
            path.write_bytes(content)
            names.append(str(path))
        return names

    return write


PACKED = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}

TEXTS = {
    "nothing": b"",
    "an empty line": b"\n",
    "no last newline": b"a\nb",
    "CRLF": b"a\r\nb\r\n",
    "CR alone": b"a\rb\nc\r",
    "CRs": b"a\r\r\nb\n\n\nc",
    "a CR after the last newline": b"a\n\r",
    "zeros": b"\x00\n\x00a\n",
    "UTF-8": "é\n漢字\n".encode(),
    "long lines": b"x" * 300_000 + b"\n" + b"y" * 70_000,
}


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_lines(put, text, compression):
    names = put(PACKED[compression](text), PACKED[compression](b"last\n"))
    assert_same(lambda R: R.TextLineDataset(names, compression))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\n\n"]), max_size=30))
def test_lines_of_any_text(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "any-text"
    path.write_bytes(b"".join(parts))
    assert_same(lambda R: R.TextLineDataset(str(path)))


def test_bytes_that_are_no_text(put):
    names = put(b"\xff\xfe\n\x80\n")
    expected = elements(reading("tf.data").TextLineDataset(names))
    assert elements(hr.TextLineDataset(names, encoding=None)) == expected


def test_gzip_of_several_members(put):
    names = put(gzip.compress(b"a\nb\n") + gzip.compress(b"c\nd"))
    assert_same(lambda R: R.TextLineDataset(names, "GZIP"))


def test_what_follows_zlib_data_is_not_read(put):
    names = put(zlib.compress(b"a\nb\n") + zlib.compress(b"c\n"))
    assert_same(lambda R: R.TextLineDataset(names, "ZLIB"))


def shards(put, sizes=(3, 1, 0, 4, 2)):
    return put(*(b"".join(b"%d-%d\n" % (i, j) for j in range(n)) for i, n in enumerate(sizes)))


@pytest.mark.parametrize("reads", [None, 1, 2, 3, 4, 10])
def test_the_order_of_parallel_reads(put, reads):
    names = shards(put)
    assert_same(lambda R: R.TextLineDataset(names, num_parallel_reads=reads))


@pytest.mark.parametrize("cycle", [1, 2, 3, 7])
@pytest.mark.parametrize("block", [1, 2])
def test_the_order_of_interleave_over_shards(put, cycle, block):
    names = shards(put)
    assert_same(lambda R: R.Dataset.from_tensor_slices(names).interleave(R.TextLineDataset, cycle, block))


FILENAMES = {
    "one": lambda names: names[0],
    "a path": lambda names: Path(names[0]),
    "paths": lambda names: [Path(n) for n in names],
    "nested": lambda names: [[names[0]], [names[1]]],
    "an array": lambda names: np.array(names),
    "none": lambda names: [],
}


@pytest.mark.parametrize("given", FILENAMES.values(), ids=FILENAMES)
def test_what_filenames_may_be(put, given):
    names = shards(put)
    assert_same(lambda R: R.TextLineDataset(given(names)))


def test_filenames_from_a_dataset(put):
    names = shards(put)
    assert_same(lambda R: R.TextLineDataset(R.Dataset.from_tensor_slices(names).skip(1)))


@cases(
    {
        "numbers": lambda R: R.TextLineDataset([1]),
        "a dataset of numbers": lambda R: R.TextLineDataset(R.Dataset.range(2)),
        "a dataset of batches": lambda R: R.TextLineDataset(R.Dataset.from_tensor_slices(["a", "b"]).batch(2)),
        "an unknown compression": lambda R: R.TextLineDataset("a", "FOO"),
        "a compression in small letters": lambda R: R.TextLineDataset("a", "gzip"),
        "no reads at all": lambda R: R.TextLineDataset("a", num_parallel_reads=0),
        "records of no bytes": lambda R: R.FixedLengthRecordDataset("a", 0),
        "a negative header": lambda R: R.FixedLengthRecordDataset("a", 1, -1),
    }
)
def test_arguments_that_are_refused(pipeline):
    assert_both_refuse(pipeline)


FIXED = {
    "three records": b"HHaabbccFF",
    "no record": b"HHFF",
    "half a record": b"HHaabbcFF",
    "too short": b"HFF",
    "nothing": b"",
}


@pytest.mark.parametrize("body", FIXED.values(), ids=FIXED)
def test_fixed_length(put, body):
    names = put(body, b"HHxxFF")
    expected = elements(reading("tf.data").FixedLengthRecordDataset(names, 2, 2, 2), 5)
    got = elements(hr.FixedLengthRecordDataset(names, 2, 2, 2))
    assert got[: expected.index(ERROR) + 1 if ERROR in expected else None] == (
        expected[: expected.index(ERROR) + 1] if ERROR in expected else expected
    )
    assert got[-1] == elements(hr.FixedLengthRecordDataset(names[1], 2, 2, 2))[0]  # where tf.data fails for ever


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("body", FIXED.values(), ids=FIXED)
def test_fixed_length_compressed(put, body, compression):
    names = put(PACKED[compression](body))
    assert_same(lambda R: R.FixedLengthRecordDataset(names, 2, 2, 2, compression_type=compression))


RECORDS = [b"a" * 10, b"b" * 3, b"", b"c" * 5, b"\x00" * 100_000]


@pytest.fixture
def records(tmp_path):
    def write(rows, compression="", name="records"):
        path = str(tmp_path / name)
        with tf().io.TFRecordWriter(path, compression or None) as writer:
            for row in rows:
                writer.write(row)
        return path

    return write


@pytest.mark.parametrize("compression", PACKED)
def test_tfrecords(records, compression):
    names = [records(RECORDS, compression, "a"), records([], compression, "b"), records([b"x"], compression, "c")]
    assert_same(lambda R: R.TFRecordDataset(names, compression))
    assert_same(lambda R: R.TFRecordDataset(names, compression, num_parallel_reads=2))


FLIPPED = {"length": 26, "length checksum": 34, "data": 38, "data checksum": 42, "first length": 0, "last data": 75}


@pytest.mark.parametrize("place", FLIPPED.values(), ids=FLIPPED)
def test_a_damaged_record_ends_its_file(records, place):
    damaged = Path(records(RECORDS[:4], name="a"))
    data = bytearray(damaged.read_bytes())
    data[place] ^= 0xFF
    damaged.write_bytes(data)
    names = [str(damaged), records([b"x", b"y"], name="b")]
    assert_same(lambda R: R.TFRecordDataset(names))
    assert_same(lambda R: R.TFRecordDataset(names).ignore_errors())
    assert_same(lambda R: R.TFRecordDataset(names, num_parallel_reads=2).ignore_errors())


@pytest.mark.parametrize("missing", [2, 6])
def test_a_truncated_record_ends_its_file(records, missing):
    cut = Path(records(RECORDS[:4], name="a"))
    cut.write_bytes(cut.read_bytes()[:-missing])
    names = [str(cut), records([b"x"], name="b")]
    assert_same(lambda R: R.TFRecordDataset(names))


@differs("tf.data does not notice a file that ends within a length")
def test_a_truncated_length(records):
    cut = Path(records(RECORDS[:4], name="a"))
    cut.write_bytes(cut.read_bytes()[:-15])
    assert_same(lambda R: R.TFRecordDataset(str(cut)))


def test_truncated_gzip(put):
    names = put(gzip.compress(bytes(range(256)) * 1000)[:-50])
    assert_same(lambda R: R.FixedLengthRecordDataset(names, 1000, compression_type="GZIP"), limit=300)


@differs("tf.data takes the end of truncated gzip data for the end of the text")
def test_text_in_truncated_gzip(put):
    names = put(gzip.compress(b"".join(b"%d\n" % i for i in range(1000)))[:-50])
    assert_same(lambda R: R.TextLineDataset(names, "GZIP"), limit=2000)


def test_another_compression_than_the_file_s(records):
    packed, plain = records(RECORDS, "GZIP", "a"), records(RECORDS, "", "b")
    assert_same(lambda R: R.TFRecordDataset(packed))
    assert_same(lambda R: R.TFRecordDataset(plain, "GZIP"))
    assert_same(lambda R: R.TFRecordDataset(plain, "ZLIB"))


CSV = {
    "LF": (b"1,2\n3,4\n", "ii"),
    "CRLF": (b"1,2\r\n3,4\r\n", "ii"),
    "CR": (b"1,2\r3,4\r", "ii"),
    "line ends mixed": (b"1,2\r3,4\r\n5,6\n7,8", "ii"),
    "an empty file": (b"", "i"),
    "an empty line": (b"\n", "i"),
    "an empty line, with a default": (b"1\n\n2\n", [[7]]),
    "an empty line among several columns": (b"1,1\n\n2,2\n", "ii"),
    "CR CR": (b"1\r\r2\r", [[7]]),
    "LF CR": (b"1\n\r2\n", [[7]]),
    "only CR": (b"\r", [[5]]),
    "too few fields": (b"1,2\n3\n4,5\n", "ii"),
    "too many fields": (b"1,2\n3,4,5\n6,7\n", "ii"),
    "a delimiter too many": (b"1,2,\n3,4\n", "ii"),
    "required and empty": (b"1,\n2,3\n", "ii"),
    "defaults": (b"1,\n,3\n", [[8], [9]]),
    "defaults of every kind": (b",,\n", [[1], [2.5], ["s"]]),
    "quoted": (b'"a,b",1\n"c\nd",2\n"e""f",3\n', "si"),
    "quoted line ends": (b'"a\r\nb",1\r\n"x\ry",2\r\n', "si"),
    "quoted numbers": (b'"1","2"\n', "if"),
    "quoted and empty": (b'"",1\n"",\n', [["d"], [9]]),
    "quoted, empty and required": (b'"",1\n"a",2\n', "si"),
    "quoted at the end of the file": (b'"a"', "s"),
    "a quote within a field": (b'a"b,1\nc,2\n', "si"),
    "a quote after a space": (b' "a",1\nc,2\n', "si"),
    "quotes in every record": (b'a"b\nc"d,1\nx,2\n', "si"),
    "text behind a closing quote": (b'"a"b,1\nc,2\n', "si"),
    "text behind a closing quote, closed later": (b'"a"b,"c\nd",1\nx,2\n', "ssi"),
    "a space behind a closing quote": (b'"a" ,1\n', "si"),
    "quotes never closed": (b'x,1\n"a', "si"),
    "quotes opened at the end": (b'x,"', "ss"),
    "quotes doubled at the end": (b'"a""', "s"),
    "a delimiter at the end": (b"a,", [["d"], ["e"]]),
    "spaces around text": (b" a , b \n", "ss"),
    "zeros": (b"a\x00b,2\n", "si"),
    "bad numbers": (b"1,2\nx,y\n3,4\n5,z\n6,7", "ii"),
    "a bad number in a record over two lines": (b'x,"c\nd",1\n3,y,2\n', "isi"),
    "too few, over two lines": (b'"c\nd"\n3,y\n', "ss"),
    "too many, over two lines": (b'1,2,"a\nb",c\n2,3\n', "ii"),
}

PLAIN = (
    b"1 +1 -1 --1 +-1 0x10 1.0 1e3 007 -0 1_0 - + . -. 1e 1e+ e5 1e5. .5 5. -.5 +.5 1E-2 1.5.2 1f 1d3 inf -inf +inf "
    b"Infinity INFINITY infinit nan NaN NAN 0x1p3 0X1P+2 0x.8 -0x1 1e39 1e-50 1e400 -1e400 4.9e-325 1e-320 "
    b"2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808 "
    b"-9223372036854775809 99999999999999999999999 16777217 0.1 1.00000005960464477539062500000001 3.4028236e38 7e-46"
)
SPACED = [b" 1", b"1 ", b"\t1\t", b"\x0b1\x0c", b"- 1", b" ", b"1 2", b"\xc2\xa01"]
NUMBERS = [*PLAIN.split(b" "), *SPACED, b"0." + b"1" * 400]

CSV |= {
    f"numbers as {kind}": (b"\n".join(NUMBERS), letter)
    for letter, kind in zip("ilfd", ["int32", "int64", "float32", "float64"], strict=True)
}
KINDS = {"i": "int32", "l": "int64", "f": "float32", "d": "float64", "s": "string"}


def csv(R, names, defaults, **options):
    kinds = [getattr(R, KINDS[d]) for d in defaults] if isinstance(defaults, str) else defaults
    return R.CsvDataset(names, kinds, **options)


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize(("data", "defaults"), CSV.values(), ids=CSV)
def test_csv(put, data, defaults, compression):
    names = put(PACKED[compression](data))
    expected, got = (
        elements(csv(reading(library), names, defaults, compression_type=compression))
        for library in ("tf.data", "headrace")
    )
    assert [str(e) for e in got] == [str(e) for e in expected]


OPTIONS = {
    "a header": (b"x,y\n1,2\n", "ii", {"header": True}),
    "nothing but a header": (b"x,y", "ii", {"header": True}),
    "no header in an empty file": (b"", "ii", {"header": True}),
    "a quoted header over two lines": (b'"x\n",y\n1,2\n', "ii", {"header": True}),
    "a header of other length": (b"x\n1,2\n", "ii", {"header": True}),
    "a header with CR": (b"x,y\r1,2\r", "ii", {"header": True}),
    "semicolons": (b"a;1\n", "si", {"field_delim": ";"}),
    "tabs": (b"a\t1\n", "si", {"field_delim": "\t"}),
    "spaces": (b"a 1\n", "si", {"field_delim": " "}),
    "quotes as delimiters": (b'a"1\n', "si", {"field_delim": '"'}),
    "no quoting": (b'"a",1\na"b,2\n"c,d"\n', "si", {"use_quote_delim": False}),
    "no quoting, over two lines": (b'"a\nb",2\n', "s", {"use_quote_delim": False}),
    "NA": (b"NA,NA\n1,x\n", [[8], ["d"]], {"na_value": "NA"}),
    "NA and empty": (b"NA,\n1,2\n", [[8], [9]], {"na_value": "NA"}),
    "NA, required": (b"NA\n1\n", "i", {"na_value": "NA"}),
    "NA, quoted": (b'"NA",1\n', [["d"], [0]], {"na_value": "NA"}),
    "selected": (b"1,2,3\n4,5,6\n", "ii", {"select_cols": [0, 2]}),
    "selected, of records of any length": (b"1,2,x\n4\n5,6\n7,8,9,10\n", "ii", {"select_cols": [0, 1]}),
    "selected beyond the end": (b"1,2,3\n4,5,6,7\n", "i", {"select_cols": [3]}),
    "not selected but quoted": (b'"a\n,b",2,3\n4,5,6\n', "i", {"select_cols": [1]}),
    "a quote where nothing is selected": (b'1,a"b\n2,c\n', "i", {"select_cols": [0]}),
    "an unclosed quote where nothing is selected": (b'1,"a\n2,c\n', "i", {"select_cols": [0]}),
    "excluded": (b"1,2,3\n4,5,6\n", "ii", {"exclude_cols": [1]}),
    "excluded, too many": (b"1,2,3,4\n4,5,6\n", "ii", {"exclude_cols": [1]}),
    "excluded, too few": (b"1,2\n4,5,6\n", "ii", {"exclude_cols": [1]}),
    "excluded beyond the end": (b"1,2,3\n4,5\n", "ii", {"exclude_cols": [7]}),
    "excluded, with a quote": (b'a"b,1\nc,2\n', "i", {"exclude_cols": [0]}),
    "excluded, with a header": (b"a,b,c\n1,2,3\n", "ii", {"exclude_cols": [0], "header": True}),
}


@pytest.mark.parametrize(("data", "defaults", "options"), OPTIONS.values(), ids=OPTIONS)
def test_csv_options(put, data, defaults, options):
    names = put(data)
    assert_same(lambda R: csv(R, names, defaults, **options))


HEADERS = {
    "a quote inside a name": b'a"q,b\n1,2\n3,4\n',
    "a quote that is not doubled": b'a,"b"x\n1,2\n3,4\n',
    "quotes that are never closed": b'a,"b\n1,2\n3,4\n',
    "a doubled quote": b'"a""x",b\n1,2\n',
    "more names than fields": b"a,b,c\n1,2\n",
    "a byte order mark": b"\xef\xbb\xbfa,b\n1,2\n",
}


@pytest.mark.parametrize("data", HEADERS.values(), ids=HEADERS)
def test_csv_headers(put, data):
    names = put(data, b"a,b\n5,6\n")
    assert_same(lambda R: csv(R, names, "ii", header=True))


@differs("a header that swallows rows ends the file")
def test_csv_header_whose_quotes_are_closed_among_the_rows(put):
    names = put(b'a,"b"x\n1,"2"\n3,4\n')
    assert_same(lambda R: csv(R, names, "ii", header=True))


@differs("a byte order mark is no part of the first field")
def test_csv_with_a_byte_order_mark(put):
    names = put(b"\xef\xbb\xbf1,2\n")
    assert_same(lambda R: csv(R, names, "si"))


@differs("the header is the first line that is not blank")
def test_csv_with_a_blank_line_before_the_header(put):
    names = put(b"\na,b\n1,2\n")
    assert_same(lambda R: csv(R, names, "ss", header=True))


@differs("a byte order mark is no part of the first line")
def test_text_with_a_byte_order_mark(put):
    names = put(b"\xef\xbb\xbfa\nb\n")
    assert_same(lambda R: R.TextLineDataset(names))


DEFAULTS = {
    "0": 0, "0.5": 0.5, "[7]": [7], "[0.5]": [0.5], "(7,)": (7,), "nan": float("nan"), "-inf": float("-inf"),
    "-2**31": -(2**31), "2**31": 2**31, "[2**40]": [2**40], "text": "x", "bytes": b"x", "[text]": ["x"], "[]": [],
    "np.int64": np.int64(7), "np.int32": np.int32(7), "np.float64": np.float64(0.5), "np.float32": np.float32(0.5),
    "[np.float64]": [np.float64(0.5)], "np.array(7)": np.array(7), "np.array([7])": np.array([7]),
    "np.array([0.5])": np.array([0.5]), "np.array([])": np.array([]), "no int32": np.array([], np.int32),
    "a float32": np.array([0.5], np.float32), "no text": np.array([], str), "np.str_": np.str_("x"),
    "True": True, "None": None, "[None]": [None], "2**70": 2**70, "1e300": 1e300, "[1, 2]": [1, 2], "[[0]]": [[0]],
    "np.int8": np.int8(0), "np.uint8": np.uint8(0), "np.float16": np.float16(0),
}  # fmt: skip


def default_dtype(read, default):
    """The dtype of the column that a default makes, or that it is refused."""
    try:
        return np.dtype(read(default)).name
    except (TypeError, ValueError, tf().errors.InvalidArgumentError):
        return "refused"


@pytest.mark.parametrize("default", DEFAULTS.values(), ids=DEFAULTS)
def test_csv_defaults_have_one_type_wherever_they_stand(put, default):
    (name,) = put(b"a\n1\n")

    def theirs(value):
        return tf().io.decode_csv("1", [value])[0].dtype.as_numpy_dtype

    def decoded(value):
        (got,) = hr.io.decode_csv("1", [value])
        return object if isinstance(got, str | bytes) else got.dtype

    def specified(ds):
        dtype = next(
            iter(ds.element_spec.values()) if isinstance(ds.element_spec, dict) else iter(ds.element_spec)
        ).dtype
        return object if dtype.kind in "US" else dtype

    want = default_dtype(theirs, default)
    assert default_dtype(decoded, default) == want
    assert default_dtype(lambda d: specified(hr.CsvDataset(name, [d])), default) == want
    assert default_dtype(lambda d: specified(hr.Dataset.from_csv(name, column_defaults=[d])), default) == want
    traced = hr.Dataset.from_tensor_slices(["1"]).map(lambda r: hr.io.decode_csv(r, [default])[0])
    if want not in ("refused", "object"):
        assert traced.element_spec.dtype == want


@pytest.mark.parametrize("default", [0, 0.5, [7], np.int64(7), np.float64(0.5), "x", 2**40], ids=str)
def test_csv_defaults_stand_for_empty_fields(put, default):
    (name,) = put(b"1,1\n,2\n")
    want = tf().io.decode_csv([",2"], [default, 0])[0].numpy()[0]
    want = want.decode() if isinstance(want, bytes) else want
    for row in (list(hr.CsvDataset(name, [default, 0]))[1], hr.io.decode_csv(",2", [default, 0])):
        assert row[0] == want and np.asarray(row[0]).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("kind", [float, "int32", "int64", "float64", np.float64, np.int32, np.dtype("int64")], ids=str)
def test_csv_types_by_name(put, kind):
    (name,) = put(b"1\n")
    want = tf().data.experimental.CsvDataset(name, [kind]).element_spec[0].dtype.as_numpy_dtype
    assert hr.CsvDataset(name, [kind]).element_spec[0].dtype == want


class TestMakeCsvDataset:
    DATA = (b"a,b,c,d\n1,x,2.5,3000000000\n,y,,4\n5,,1,\n", b"a,b,c,d\n7,z,0.25,1\n")

    def both(self, names, *arguments, **options):
        makers = (tf().data.experimental.make_csv_dataset, hr.make_csv_dataset)
        return [make(names, *arguments, **options) for make in makers]

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"label_name": "c"},
            {"select_columns": ["a", "d"]},
            {"select_columns": [0, 3], "column_defaults": [[7], [2**40]]},
            {"column_names": ["p", "q", "r", "s"]},
            {"na_value": "x"},
            {"num_parallel_reads": 2},
            {"num_epochs": 3},
            {"prefetch_buffer_size": 1},
        ],
        ids=str,
    )
    def test_gives_the_same_batches(self, put, options):
        names = put(*self.DATA)
        expected, got = self.both(names, 3, **{"num_epochs": 1, "shuffle": False, **options})
        assert elements(got) == elements(expected)
        assert sort(got.element_spec) == sort(expected.element_spec)

    def test_for_ever_and_shuffled_by_default(self, put):
        names = put(b"a\n" + b"".join(b"%d\n" % i for i in range(50)))
        for ds in self.both(names, 10):
            rows = [int(x) for batch in list(ds.take(5)) for x in np.asarray(batch["a"])]
            assert sorted(rows) == list(range(50)) and rows != list(range(50))
        expected, got = self.both(names, 10)
        assert sort(got.element_spec) == sort(expected.element_spec)

    def test_errors_are_left_out(self, put):
        names = put(b"a,b\n1,2\n" * 1 + b"x,y\n3\n5,6\n")
        expected, got = self.both(
            names, 5, num_epochs=1, shuffle=False, ignore_errors=True, column_defaults=[np.array([], np.int32), [0]]
        )
        assert elements(got) == elements(expected)

    @cases(
        {
            "a label that is no column": {"label_name": "z"},
            "a column that is none": {"select_columns": ["z"]},
            "no names": {"header": False},
            "one name twice": {"column_names": ["a", "a", "b", "c"]},
            "another number of defaults": {"select_columns": ["a"], "column_defaults": [0, 0]},
        }
    )
    def test_refuses_the_same(self, put, pipeline):
        names = put(*self.DATA)
        for make in (tf().data.experimental.make_csv_dataset, hr.make_csv_dataset):
            with pytest.raises(ValueError):
                make(names, 2, **pipeline)


def test_csv_of_several_files_of_which_one_lacks_its_header(put):
    names = put(b"x,y\n1,2\n", b"", b"x\n3,4")
    assert_same(lambda R: csv(R, names, "ii", header=True))


@cases(
    {
        "a long delimiter": {"field_delim": ";;"},
        "columns out of order": {"select_cols": [1, 0]},
        "a column twice": {"select_cols": [0, 0]},
        "a negative column": {"select_cols": [-1, 0]},
        "another number of columns": {"select_cols": [0]},
        "both": {"select_cols": [0, 1], "exclude_cols": [2]},
        "excluded out of order": {"exclude_cols": [2, 0]},
    }
)
def test_csv_arguments_that_are_refused(put, pipeline):
    names = put(b"1,2\n")
    assert_both_refuse(lambda R: csv(R, names, "ii", **pipeline))


FIELDS = st.sampled_from([b"1", b"-2.5", b"ab", b"", b'"x"', b'"a,b"', b'"p\nq"', b'""', b'"d""e"', b'"', b' "', b"NA"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b",", b",", b",", b""])


@settings(max_examples=120)
@given(st.lists(st.tuples(FIELDS, ENDS), max_size=14), st.sampled_from(["ss", "si", "s", "fs"]))
def test_csv_of_any_kind(tmp_path_factory, parts, kinds):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"".join(b"".join(part) for part in parts))
    expected, got = (elements(csv(reading(library), str(path), kinds)) for library in ("tf.data", "headrace"))
    assert got == expected


class TestListFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("b.txt", "a.txt", "c.csv", ".hidden.txt"):
            (tmp_path / name).touch()
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "d.txt").touch()
        return tmp_path

    @pytest.mark.parametrize(
        "patterns", [["*.txt"], ["*.txt", "*.csv"], ["a.txt", "*.txt"], ["*/*.txt"], ["?.txt"], ["[ab].txt"], ["**"]]
    )
    def test_matches_in_order(self, folder, patterns):
        given = [f"{folder}/{p}" for p in patterns]
        assert_same(lambda R: R.Dataset.list_files(given, shuffle=False))

    def test_shuffles_by_default(self, folder):
        for library in ("tf.data", "headrace"):
            ds = reading(library).Dataset.list_files(f"{folder}/*.txt", seed=1)
            orders = {tuple(e.items[0] for e in elements(ds)) for _ in range(20)}
            assert 1 < len(orders) <= 6
            assert {frozenset(order) for order in orders} == {frozenset(next(iter(orders)))}
            assert int(ds.cardinality()) == len(next(iter(orders)))

    def test_no_match_is_an_error(self, folder):
        for library, error in (("tf.data", tf().errors.InvalidArgumentError), ("headrace", FileNotFoundError)):
            with pytest.raises(error, match=r"nope-\*"):
                reading(library).Dataset.list_files(f"{folder}/nope-*")
