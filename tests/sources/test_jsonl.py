"""JSON lines: objects, their types, and what is wrong with a line."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.jsonl import format as json_lines
from headrace.formats.shared.format import ScanHints
from headrace.iterator import Settings
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

LINES = b'{"a": 1, "b": "x", "c": {"d": 1.5}, "t": "2020-01-01"}\n{"a": 2, "b": "y", "c": {"d": 2}, "t": "2020-01-02"}'


GOOD = [b'{"a": 1, "b": "x"}', b'{"a": 2}', b'{"b": 3}', b'{"b": {"c": [1]}}', b'{"a": null}', b'{"a": NaN}']
BAD = [b'{"a": 18446744073709551615}', b'{"a": 1, "a": 2}', b'{"c": 1}', b'{"a": 1e999}', b'{"a": [[[]]]}', b"[1]"]
ODD = [b'{"b": "\xff"}', b'{"b": "\\ud800"}', b"{", b"}", b'"', b"null", b"\\", b"\0", b"\xef\xbb\xbf"]
PARTS = [*GOOD, *BAD, *ODD, b" ", b"\r", b"\r\n", *[b"\n"] * 8]
"""What lines are put together of, good ones and bad."""


def lines(*objects):
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def plain(row):
    return json.loads(json.dumps(row, default=lambda value: value.tolist()))


def test_objects(put):
    got = list(hr.JsonLinesDataset(put(LINES)))
    assert got[1] == {"a": 2, "b": "y", "c": {"d": 2.0}, "t": "2020-01-02"}


def test_in_chunks_of_any_size_and_compressed(put):
    data = b"".join(b'{"a": %d, "b": [%s]}\n' % (i, b",".join([b"1"] * (i % 3))) for i in range(50))
    (path,) = put(gzip.compress(data))
    ds = hr.JsonLinesDataset(path, compression_type="GZIP", buffer_size=30)
    got = list(ds)
    assert [(int(r["a"]), len(r["b"])) for r in got] == [(i, i % 3) for i in range(50)]
    check_transformation(ds, cuts=8)


def test_a_chat(put):
    (path,) = put(
        lines(
            {"messages": [{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Hello"}], "id": 1},
            {"messages": [], "id": 2},
        )
    )
    ds = hr.JsonLinesDataset(path)
    assert ds.element_spec["messages"] == {
        "role": hr.TensorSpec([None], str),
        "content": hr.TensorSpec([None], str),
    }
    assert [plain(row) for row in ds] == [
        {"messages": {"role": ["user", "bot"], "content": ["Hi", "Hello"]}, "id": 1},
        {"messages": {"role": [], "content": []}, "id": 2},
    ]
    check_transformation(ds)
    whole = list(hr.JsonLinesDataset(path, cast={"messages": object}))
    assert whole[0]["messages"].tolist()[1] == {"role": "bot", "content": "Hello"}


class TestTypes:
    def test_text_stays_text_whatever_it_looks_like_and_wherever(self, put):
        day = "2020-01-01"
        row = {"t": day, "in": {"t": day}, "l": [day], "ll": [[day]], "ls": [{"t": day}]}
        (path,) = put(lines(row, row))
        got = plain(next(iter(hr.JsonLinesDataset(path))))
        assert got == {**row, "ls": {"t": [day]}}

    @pytest.mark.parametrize(
        ("values", "dtype"),
        [
            ([1, -(2**63), 2**63 - 1], "int64"),
            ([1, 2**63], "uint64"),
            ([0, 2**64 - 1], "uint64"),
            ([1, 1.5], "float64"),
            ([1e30, 2], "float64"),
        ],
    )
    def test_numbers_keep_every_digit(self, put, values, dtype):
        (path,) = put(lines(*({"id": v, "in": {"id": v}, "l": [v]} for v in values)))
        ds = hr.JsonLinesDataset(path)
        assert ds.element_spec["id"] == ds.element_spec["in"]["id"] == hr.TensorSpec([], dtype)
        got = list(ds)
        assert [row["id"].item() for row in got] == values
        assert [row["l"].tolist() for row in got] == [[v] for v in values]

    @pytest.mark.parametrize("values", [[1, 2**64], [-1, 2**63], [-(2**63) - 1]])
    def test_numbers_beyond_any_type_are_refused_or_objects(self, put, values):
        (path,) = put(lines(*({"id": v} for v in values)))
        with pytest.raises(
            ValueError, match=rf"column 'id', line \d: {max(values, key=abs)} is beyond int64 and uint64"
        ):
            hr.JsonLinesDataset(path)
        assert [row["id"] for row in hr.JsonLinesDataset(path, cast={"id": object})] == values

    def test_a_number_that_turns_out_too_large_is_an_error_of_its_line(self, put):
        (path,) = put(lines(*({"id": i} for i in range(100_000)), {"id": 2**63}))
        ((kind, said),) = outcomes(iter(hr.JsonLinesDataset(path).skip(100_000)))
        assert kind == "error"
        assert "column 'id': 9223372036854775808 is beyond int64; cast={'id': np.uint64} or {'id': object}" in said
        assert "line 100001" in said
        last = list(hr.JsonLinesDataset(path, cast={"id": np.uint64}).skip(100_000))
        assert last == [{"id": 2**63}]

    def test_kinds_that_are_mixed(self, put):
        (path,) = put(lines({"a": 1, "b": 1}, {"a": "x", "b": 2}, {"a": [1], "b": 3}))
        with pytest.raises(ValueError, match=r"column 'a' holds number \(line 1\) and text \(line 2\) and list"):
            hr.JsonLinesDataset(path)
        assert [row["a"] for row in hr.JsonLinesDataset(path, cast={"a": str})] == ["1", "x", "[1]"]
        objects = [row["a"] for row in hr.JsonLinesDataset(path, cast={"a": object})]
        assert objects[:2] == [1, "x"] and objects[2].tolist() == [1]
        assert [int(row["b"]) for row in hr.JsonLinesDataset(path, exclude=["a"])] == [1, 2, 3]
        ds = hr.JsonLinesDataset(path, cast={"a": np.int64})
        got = outcomes(iter(ds))
        assert [kind for kind, _ in got] == ["value", "error", "error"]
        assert "column 'a' holds text, expected int64" in got[1][1]
        for cast in ({"a": str}, {"a": object}, {"a": np.int64}):
            check_transformation(hr.JsonLinesDataset(path, cast=cast, buffer_size=20))

    def test_fields_that_cannot_be_guessed(self, put):
        (path,) = put(lines({"a": None, "l": [], "in": {"x": None}, "b": 1}))
        for name in ("a", "l", "in.x"):
            others = [n for n in ("a", "l", "in.x") if n != name]
            with pytest.raises(ValueError, match=rf"column '{name}' has no value in the first lines; cast="):
                hr.JsonLinesDataset(path, exclude=others)
        cast = {"a": str, "l": np.float32, "in.x": np.float64}
        (row,) = hr.JsonLinesDataset(path, cast=cast, nulls={"a": "?"})
        assert row["a"] == "?" and row["l"].dtype == np.float32 and np.isnan(row["in"]["x"])
        with pytest.raises(ValueError, match=r"do not tell.*no object"):
            hr.JsonLinesDataset(put(b"[1]\n"))

    def test_a_schema_says_it_all(self, put):
        (path,) = put(lines({"when": "2020-01-01", "n": 1}))
        schema = pa.schema({"when": pa.timestamp("s"), "n": pa.int8()})
        (row,) = hr.JsonLinesDataset(path, schema)
        assert row["when"] == np.datetime64("2020-01-01") and row["n"].dtype == np.int8
        assert list(hr.JsonLinesDataset(path, schema, columns=["n"])) == [{"n": 1}]


class TestLines:
    def test_a_bad_line_is_an_error_in_its_place(self, put):
        (path,) = put(b'{"a": 1}\n\n{"a": }\n{"a": "x"}\n{"b": 1}\n{"a": 5}\n')
        schema = pa.schema({"a": pa.int64()})
        got = outcomes(iter(hr.JsonLinesDataset(path, schema)))
        assert [kind for kind, _ in got] == ["value", "error", "error", "error", "value"]
        assert "not JSON" in got[1][1]
        assert "line 3" in got[1][1]
        assert "column 'a' holds text, expected int64" in got[2][1]
        assert "field 'b' was not in the first lines" in got[3][1]
        check_transformation(hr.JsonLinesDataset(path, schema, buffer_size=5), cuts=8)
        assert [int(r["a"]) for r in hr.JsonLinesDataset(path, schema, on_error="skip")] == [1, 5]

    @pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 40])
    @pytest.mark.parametrize(
        "bad",
        [b'{"x": 1 "y": 2}', b'{"x": "no", "y": 2}', b'{"x": 1.5, "y": 2}', b"[1]", b'{"x": 1}{"x": 2}', b"x"],
        ids=lambda line: line.decode(),
    )
    def test_many_bad_lines_cost_no_good_one(self, put, bad, count):
        """Errors of Arrow's say which line is bad, and are believed a few times."""
        lines = [b'{"x": %d, "y": 2}' % i for i in range(100)]
        places = [2 + 97 * i // max(1, count - 1) for i in range(count)]
        for place in places:
            lines[place] = bad
        (path,) = put(b"\n\n".join(lines) + b"\n")
        schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
        got = outcomes(iter(hr.JsonLinesDataset(path, schema, nulls={"y": 0})))
        assert [i for i, (kind, _) in enumerate(got) if kind == "error"] == places
        assert [int(row["x"]) for kind, row in got if kind == "value"] == [i for i in range(100) if i not in places]
        assert all(f"record {i}, " in got[i][1] for i in places)

    @pytest.mark.parametrize("end", [b"\n", b""])
    def test_a_scan_makes_as_many_rows_as_are_wanted(self, end):
        data = np.frombuffer(b"\n".join([b'{"x": 1}', b"", b'{"x": 2}', b'{"x": 3}']) + end, np.uint8)
        form = json_lines.JsonLines(schema=pa.schema({"x": pa.int64()}))
        found, rows = [], 0
        while len(data):
            scan = form.scan(data, ScanHints(most=2))
            found.append([int(x) for part in scan.parts for x in part.columns[0]])
            rows, data = rows + scan.rows, data[scan.used :]
            assert scan.more == (len(data) > 0)
        assert found == [[1], [2, 3]]

    def test_one_bad_line_is_not_searched_for(self, put, monkeypatch):
        parsed = []
        parse = json_lines.parse_lines
        monkeypatch.setattr(json_lines, "parse_lines", lambda *given: parsed.append(len(given[0])) or parse(*given))
        lines = [b'{"x": %d}' % i for i in range(4_000)]
        lines[3_000] = b'{"x": "no"}'
        (path,) = put(b"\n".join(lines))
        ds = hr.JsonLinesDataset(path, pa.schema({"x": pa.int64()}), on_error="skip")
        parsed.clear()
        assert ds.with_options(hr.Options(cpu_budget=1)).count() == 3_999
        small = [size for size in parsed if size < 100]
        assert len(small) <= 2, "the bad line alone, and no lines beside it"

    def test_the_first_lines_may_be_bad(self, put):
        (path,) = put(b'{"a": \nno\n[1]\n{"a": 1}\n')
        assert [kind for kind, _ in outcomes(iter(hr.JsonLinesDataset(path)))] == ["error"] * 3 + ["value"]
        assert list(hr.JsonLinesDataset(path, on_error="skip")) == [{"a": 1}]

    def test_text_that_is_none(self, put):
        (path,) = put(b'{"a": "x"}\n{"a": "\xff"}\n{"a": "z"}\n')
        ds = hr.JsonLinesDataset(path)
        got = outcomes(iter(ds))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "column 'a' holds bytes that are no UTF-8" in got[1][1] and "line 2" in got[1][1]
        check_transformation(ds)

    def test_a_field_that_comes_twice(self, put):
        (path,) = put(b'{"a": 1}\n{"a": 2, "a": 3}\n{"a": 4}\n')
        ds = hr.JsonLinesDataset(path)
        got = outcomes(iter(ds))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "more than one field is called 'a'" in got[1][1]
        check_transformation(ds)

    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    def test_a_byte_order_mark_and_blank_lines(self, put, end):
        blank = end + b"  " + end
        (path,) = put(b"\xef\xbb\xbf" + blank + b'{"a": 1}' + blank + b' {"a": 2} ' + end)
        for size in (None, 3, 7):
            ds = hr.JsonLinesDataset(path, buffer_size=size)
            assert [int(row["a"]) for row in ds] == [1, 2]
            check_transformation(ds)
        assert [int(row["a"]) for row in hr.JsonLinesDataset(path, cast={"a": object})] == [1, 2]

    def test_a_mark_before_the_first_object(self, put):
        (path,) = put(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}')
        assert [int(row["a"]) for row in hr.JsonLinesDataset(path)] == [1, 2]

    @pytest.mark.parametrize(
        "data",
        [b'{"a": 1}{"a": 2}\n\n{"a": 3}\n', b'{"a": 1}{"a": 2}\n{"a":\n3}\n', b'{"a": 1} {"a": 2}\n{"a": {"a": 3}}\n'],
    )
    def test_an_object_is_a_line_however_they_are_read(self, put, data):
        """Two on a line are not made up for by one on two lines, nor by a blank one."""
        schema = pa.schema({"a": pa.int64()})
        for size in (None, 5, 10):
            check_transformation(hr.JsonLinesDataset(put(data), schema, buffer_size=size))

    @given(
        st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join),
        st.integers(1, 30),
        st.sampled_from([{}, {"columns": ["a"]}, {"exclude": ["b"]}, {"cast": {"b": object}}, {"cast": {"b": str}}]),
    )
    def test_any_bytes_are_read_line_by_line(self, tmp_path_factory, data, size, options):
        path = tmp_path_factory.mktemp("lines") / "a"
        path.write_bytes(b'{"a": 1, "b": "x"}\n' + data)
        try:
            ds = hr.JsonLinesDataset(path, buffer_size=size, **options)
        except ValueError as error:
            assert "do not tell its fields" in str(error) and "cast=" in str(error)
            return
        want = reference_outcomes(ds)
        for settings in (Settings(), Settings(block_rows=1)):
            assert difference(outcomes(ds._iterator(settings)), want) is None

    def test_many_blank_lines_cost_little(self, put):
        (path,) = put(b'{"a": 1}\n\n' * 50_000)
        ds = hr.JsonLinesDataset(path)
        blocks = [block.rows for block in iter(ds).blocks()]
        assert sum(blocks) == 50_000 and len(blocks) < 100


def test_a_line_that_is_too_deep_costs_no_more_than_itself(put):
    """However the columns are chosen: Arrow would run out of stack, and Python would take too long."""
    deep = b'{"a": 1, "b": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    (path,) = put(b'{"a": 1}\n' + deep + b'{"a": 3}\n')
    for options in ({}, {"exclude": ["b"]}, {"cast": {"b": str}, "nulls": {"b": ""}}):
        got = outcomes(iter(hr.JsonLinesDataset(path, **options)))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "nested too deep" in got[1][1]
    assert len(list(hr.JsonLinesDataset(path, columns=["a"]))) == 3


class TestFields:
    DATA = lines({"a": 1, "b": "x", "c": [1]}, {"a": 2, "b": 3, "c": "y"}, {"a": 3, "b": None, "d": 5})

    def test_that_are_not_read_may_be_anything(self, put):
        (path,) = put(self.DATA)
        ds = hr.JsonLinesDataset(path, columns=["a"])
        assert [int(row["a"]) for row in ds] == [1, 2, 3]
        check_transformation(ds)
        ds = hr.JsonLinesDataset(path, exclude=["b", "c", "d"])
        assert [int(row["a"]) for row in ds] == [1, 2, 3]
        check_transformation(ds)

    def test_that_are_new_are_errors_unless_they_are_left_out(self, put):
        first = {"a": 1, "in": {"x": 1}, "l": [{"x": 1}], "b": 0}
        new = [{"new": 1}, {"in": {"x": 1, "new": 1}}, {"l": [{"x": 1, "new": 1}]}, {"b": "not a number"}]
        data = lines(*[first] * 100_000, *({**first, **more} for more in new))
        (path,) = put(data)
        got = outcomes(iter(hr.JsonLinesDataset(path, exclude=["b"]).skip(100_000)))
        assert [kind for kind, _ in got] == ["error"] * 3 + ["value"]
        for name, (_, said) in zip(("new", "in.new", "l.new"), got[:3], strict=True):
            assert f"field '{name}' was not in the first lines; cast={{'{name}': …}} says its dtype" in said
        left_out = ["b", "new", "in.new", "l.new"]
        assert len(outcomes(iter(hr.JsonLinesDataset(path, exclude=left_out).skip(100_000)))) == 4
        assert all(kind == "value" for kind, _ in outcomes(iter(hr.JsonLinesDataset(path, exclude=left_out))))

    def test_that_come_late_are_read_if_they_are_cast(self, put):
        (path,) = put(lines(*[{"a": 1}] * 100_000, {"a": 2, "late": 1.5}))
        ds = hr.JsonLinesDataset(path, cast={"late": np.float32})
        assert np.isnan(next(iter(ds))["late"])
        assert next(iter(ds.skip(100_000))) == {"a": 2, "late": 1.5}

    def test_that_are_missing(self, put):
        (path,) = put(b'{"a": 1}\n{}\n')
        assert len([k for k, _ in outcomes(iter(hr.JsonLinesDataset(path))) if k == "error"]) == 1
        assert [int(r["a"]) for r in hr.JsonLinesDataset(path, nulls={"a": 0})] == [1, 0]

    def test_that_is_unknown(self, put):
        with pytest.raises(hr.SpecError, match=r"no columns aa: did you mean 'a'\? there are 'a'"):
            hr.JsonLinesDataset(put(b'{"a": 1}\n'), columns=["aa"])
        with pytest.raises(hr.SpecError, match="no columns b"):
            hr.JsonLinesDataset(put(b'{"a": 1}\n'), nulls={"b": 0})
