"""CSV: headers, missing values, types, and what stands before the first line."""

import random

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.testing import check_transformation, outcomes

BOM = b"\xef\xbb\xbf"


def test_numbers_beyond_float32(put):
    ds = hr.Dataset.from_csv(put(b"x\n1.5\n1e300\n"))
    assert ds.element_spec["x"].dtype == np.float64
    assert [row["x"] for row in ds] == [1.5, 1e300]


class TestFromCsv:
    DATA = b"b,a,c,d\n1,x,2.5,3000000000\n2,y,1,4\n"

    def test_types_are_inferred(self, put):
        ds = hr.Dataset.from_csv(put(self.DATA))
        assert {k: v.dtype for k, v in ds.element_spec.items()} == {
            "a": np.dtype(str),
            "b": np.int32,
            "c": np.float32,
            "d": np.int64,
        }
        assert list(ds) == [{"b": 1, "a": "x", "c": 2.5, "d": 3000000000}, {"b": 2, "a": "y", "c": 1.0, "d": 4}]

    def test_a_label(self, put):
        assert list(hr.Dataset.from_csv(put(self.DATA), label_name="a", select_columns=["a", "b"])) == [
            ({"b": 1}, "x"),
            ({"b": 2}, "y"),
        ]

    def test_batches(self, put):
        (batch,) = hr.Dataset.from_csv(put(self.DATA), batch_size=5)
        assert batch["b"].tolist() == [1, 2]

    def test_types_that_are_given(self, put):
        ds = hr.Dataset.from_csv(put(self.DATA + b",z,0,0\n"), column_defaults={"b": np.int64(-1), "c": np.float64})
        assert [r["b"] for r in ds] == [1, 2, -1]
        assert ds.element_spec["b"].dtype == np.int64
        assert ds.element_spec["c"].dtype == np.float64

    def test_without_a_header(self, put):
        names = put(b"1,2\n3,4\n")
        assert list(hr.Dataset.from_csv(names, header=False, column_names=["x", "y"])) == [
            {"x": 1, "y": 2},
            {"x": 3, "y": 4},
        ]
        with pytest.raises(ValueError, match="need column_names"):
            hr.Dataset.from_csv(names, header=False)

    def test_a_file_with_another_header_is_one_error(self, put):
        got = outcomes(iter(hr.Dataset.from_csv(put(b"a,b\n1,2\n", b"b,a\n1,2\n", b"a,b\n3,4\n"))))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "names other columns than a, b" in got[1][1]

    def test_errors_name_the_column_and_the_line(self, put):
        (path,) = put(b'a,b\n"1\n",2\n' + b"1,2\n" * 200 + b"x,3\n")
        (error,) = [v for k, v in outcomes(iter(hr.Dataset.from_csv(path))) if k == "error"]
        assert "column 'a' holds no int32" in error
        assert "line 204" in error

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"label_name": "z"}, "none of the columns"),
            ({"select_columns": ["z"]}, "none of the columns"),
            ({"select_columns": [9]}, "none of the columns"),
            ({"column_defaults": [0]}, "1 entries for 4 columns"),
            ({"column_defaults": {"z": 0}}, "no columns that are read"),
        ],
    )
    def test_what_does_not_fit(self, put, options, message):
        with pytest.raises(ValueError, match=message):
            hr.Dataset.from_csv(put(self.DATA), **options)

    @pytest.mark.parametrize("options", [{}, {"header": False, "column_names": ["a", "a"]}, {"select_columns": [0]}])
    def test_two_columns_of_one_name(self, put, options):
        with pytest.raises(ValueError, match="two columns are named 'a'"):
            hr.Dataset.from_csv(put(b"a,a\n1,2\n"), **options)

    def test_shuffled_epochs(self, put):
        ds = hr.Dataset.from_csv(put(self.DATA), 2, shuffle=True, shuffle_seed=1, num_epochs=3)
        assert sum(len(b["a"]) for b in ds) == 6


BAD_HEADERS = {
    "a quote that is not doubled": b'a,"b"x\n1,2\n3,4\n',
    "and is followed by others": b'a,"b"x\n1,"2"\n3,"4"\n5,6\n',
    "quotes that are never closed": b'a,"b\n1,2\n3,4\n',
    "quotes that are closed far below": b'a,"b\n' + b"1,2\n" * 50_000 + b'",3\n4,5\n',
    "blank lines before it": b'\n\r\n\na,"b"x\n1,2\n3,4\n',
    "many blank lines before it": b"\n" * 3000 + b'a,"b"x\n1,2\n3,4\n',
}


class TestBadHeaders:
    @pytest.mark.parametrize("data", BAD_HEADERS.values(), ids=BAD_HEADERS)
    @pytest.mark.parametrize("chunk", [7, None])
    def test_are_one_error_that_names_the_file_and_the_line(self, put, data, chunk):
        names = put(data, b"a,b\n7,8\n")
        got = outcomes(iter(hr.CsvDataset(names, [0, 0], header=True, buffer_size=chunk)))
        assert [kind for kind, _ in got] == ["error", "value"]
        assert "header line" in got[0][1] and f"{names[0]}, record 0" in got[0][1]
        line = data[: data.index(b"a")].count(b"\n") + 1
        assert f"line {line}" in got[0][1]

    @pytest.mark.parametrize("data", [*BAD_HEADERS.values(), b'a"q,b\n1,2\n'], ids=[*BAD_HEADERS, "a quote inside"])
    def test_are_refused_where_they_name_the_columns(self, put, data):
        (name,) = put(data)
        with pytest.raises(ValueError, match=f"{name}, line (1|4|3001): its header line"):
            hr.Dataset.from_csv(name)
        good = put(b"a,b\n1,2\n", name="good")
        got = outcomes(iter(hr.Dataset.from_csv([*good, name])))
        assert sorted(kind for kind, _ in got) == ["error", "value"]

    def test_whose_end_is_known_cost_no_row(self, put, run):
        names = put(b'a"q,b\n1,2\n3,4\n')
        got = outcomes(iter(hr.CsvDataset(names, [0, 0], header=True)))
        assert [kind for kind, _ in got] == ["error", "value", "value"]

    def test_resume(self, put):
        for data in (*BAD_HEADERS.values(), b'\n\na"q,b\n1,2\n3,4\n', BOM + b'a"q,b\n1,2\n3,4\n'):
            check_transformation(hr.CsvDataset(put(data[-400:], b"a,b\n7,8\n"), [0, 0], header=True), cuts=12)

    def test_an_open_quote_is_seen_before_the_file_is_read(self, put):
        data = b'a,"b\n' + b"1,2\n" * 2_000_000
        (name,) = put(data)
        from headrace.formats.csv.format import Csv
        from headrace.formats.shared.reader import Reader

        form = Csv(header=True, columns=hr.CsvDataset(name, [0, 0])._node.format.columns)
        reader = Reader(str(name), form)
        (wrong,) = reader.read()
        assert "opens quotes that are not closed" in wrong.reason
        assert reader._window.offset + len(reader._window.data) < len(data) // 4
        reader.close()

    def test_a_header_of_another_encoding(self, put):
        (name,) = put("é,b\n1,2\n".encode("latin-1"))
        with pytest.raises(ValueError, match="line 1: its header line is not UTF-8"):
            hr.Dataset.from_csv(name)
        (name,) = put("a,b\n1,2\n".encode("utf-16"))
        with pytest.raises(ValueError, match="UTF-16; convert it"):
            hr.Dataset.from_csv(name)

    def test_a_long_name_is_a_name(self, put):
        name = "x" * 200_000
        (row,) = hr.Dataset.from_csv(put(f'"{name}",b\n1,2\n'.encode()))
        assert row == {name: 1, "b": 2}

    def test_a_name_of_several_lines(self, put):
        assert list(hr.Dataset.from_csv(put(b'"two\nlines","a ""b"""\n1,2\n'))) == [{"two\nlines": 1, 'a "b"': 2}]


class TestBeforeTheFirstLine:
    @pytest.mark.parametrize("lead", [BOM, b"\n", b"\r\n\r\n", BOM + b"\n"])
    def test_stands_nothing_that_belongs_to_the_header(self, put, run, lead):
        names = put(lead + b"a,b\n1,x\n", b"a,b\n2,y\n")
        want = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
        assert run(hr.Dataset.from_csv(names)) == want
        assert run(hr.CsvDataset(names, [0, str], header=True)) == [(1, "x"), (2, "y")]

    def test_a_byte_order_mark_is_no_part_of_the_first_field(self, put, run):
        names = put(BOM + b"1,x\n2,y\n")
        assert run(hr.CsvDataset(names, [np.int32, str])) == [(1, "x"), (2, "y")]
        assert run(hr.CsvDataset(names, [bytes, bytes])) == [(b"1", b"x"), (b"2", b"y")]
        assert run(hr.Dataset.from_csv(names, header=False, column_names=["a", "b"])) == [
            {"a": 1, "b": "x"},
            {"a": 2, "b": "y"},
        ]

    @pytest.mark.parametrize("index", [False, True])
    @pytest.mark.parametrize("encoding", ["utf-8", None, "latin-1"])
    def test_nor_of_the_first_line_of_text(self, put, run, index, encoding):
        ds = hr.TextLineDataset(put(BOM + b"one\ntwo\n", BOM, b"three"), encoding=encoding, index=index)
        want = [b"one", b"two", b"three"] if encoding is None else ["one", "two", "three"]
        assert run(ds) == want
        assert [len(list(ds.skip(n))) for n in range(4)] == [3, 2, 1, 0]
        assert ds.batch(3).get_single_element().tolist() == want
        if index:
            assert [ds[i] for i in range(3)] == want
        check_transformation(ds, cuts=12)


class TestMissingNumbers:
    def test_are_nan_in_columns_that_are_inferred(self, put, run):
        ds = hr.Dataset.from_csv(put(b"i,f,s\n1,,x\n,2.5,\n3,4,z\n"))
        assert {k: str(v.dtype) for k, v in ds.element_spec.items()} == {"i": "float64", "f": "float32", "s": "<U0"}
        rows = run(ds)
        assert [[str(v) for v in r.values()] for r in rows] == [
            ["1.0", "nan", "x"],
            ["nan", "2.5", ""],
            ["3.0", "4.0", "z"],
        ]

    def test_that_only_turn_up_later_are_errors_with_the_remedy(self, put):
        names = put(b"i,j\n" + b"1,1\n" * 150 + b",1\n2,2\n")
        got = outcomes(iter(hr.Dataset.from_csv(names)))
        assert [kind for kind, _ in got].count("value") == 151
        (error,) = [value for kind, value in got if kind == "error"]
        assert "column 'i' is empty, and has no default (nulls={'i': …} says what stands for it)" in error
        assert "line 152" in error

    def test_among_numbers_that_no_float_holds_are_errors(self, put):
        names = put(b"id,x\n9007199254740993,1\n,2\n")
        ds = hr.Dataset.from_csv(names)
        assert ds.element_spec["id"].dtype == np.int64
        got = outcomes(iter(ds))
        assert [kind for kind, _ in got] == ["value", "error"]
        assert got[0][1]["id"] == 9007199254740993

    @pytest.mark.parametrize(
        ("null", "dtype", "value"),
        [
            (-1, np.int32, -1),
            (np.int64(-1), np.int64, -1),
            (2**40, np.int64, 2**40),
            (0.5, np.float64, 0.5),
            (float("nan"), np.float64, float("nan")),
        ],
    )
    def test_are_what_one_says(self, put, run, null, dtype, value):
        ds = hr.Dataset.from_csv(put(b"i,s\n1,x\nNA,NA\n"), na_value="NA", nulls={"i": null, "s": "none"})
        assert ds.element_spec["i"].dtype == dtype
        (_, row) = run(ds)
        assert row["s"] == "none"
        np.testing.assert_equal(row["i"], dtype(value))

    def test_cannot_be_what_the_column_cannot_hold(self, put):
        with pytest.raises(ValueError, match="column 'i' holds int32: 'x' cannot stand"):
            hr.Dataset.from_csv(put(b"i\n1\n"), nulls={"i": "x"})
        with pytest.raises(ValueError, match=r"nulls names \['z'\]"):
            hr.Dataset.from_csv(put(b"i\n1\n"), nulls={"z": 0})

    def test_in_columns_of_text_that_looks_like_numbers_to_python_alone(self, put):
        ds = hr.Dataset.from_csv(put("a,b\n1_000,٣\n2_000,٤\n".encode()))
        assert [list(r.values()) for r in ds] == [["1_000", "٣"], ["2_000", "٤"]]


def test_line_ends_are_counted_as_python_counts_them():
    generator = random.Random(1)
    for size in (0, 1, 2, 127, 128, 129, 255, 256, 1000):
        for _ in range(50):
            data = bytes(generator.choices(b"a\r\n", k=size))
            assert _native.count_line_ends(data) == data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n"), data
