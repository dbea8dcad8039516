"""Damage in Parquet and Arrow files: it costs the affected rows, and never the process."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import (
    NO_TEXT,
    damage_group,
    damage_offset,
    overwrite,
    strings,
    write_arrow,
    write_parquet,
    write_stream,
)

import headrace as hr
from headrace.testing import check_transformation, outcomes

KINDS = {
    "parquet": (write_parquet, hr.ParquetDataset),
    "arrow": (write_arrow, hr.ArrowDataset),
    "arrow stream": (write_stream, hr.ArrowDataset),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def errors(got):
    return [(i, value) for i, (what, value) in enumerate(got) if what == "error"]


class TestTextThatIsNone:
    ROWS = 20_000

    @pytest.fixture
    def path(self, kind, tmp_path):
        words = [b"word %d" % i for i in range(self.ROWS)]
        words[12_345] = NO_TEXT
        table = pa.table({"x": np.arange(self.ROWS), "name": strings(words)})
        kind[0](table, tmp_path / "a", 7_000)
        return str(tmp_path / "a")

    def test_is_one_error_that_names_file_row_and_column(self, path, kind):
        got = outcomes(iter(kind[1](path)))
        assert len(got) == self.ROWS
        ((place, error),) = errors(got)
        assert place == 12_345
        assert f"{path}, row 12345, group 1" in error
        assert "column 'name' holds bytes that are no UTF-8; cast={'name': bytes} reads them" in error

    def test_is_one_row_skipped(self, path, kind):
        got = [int(row["x"]) for row in kind[1](path, on_error="skip")]
        assert got == [x for x in range(self.ROWS) if x != 12_345]

    def test_is_put_aside(self, path, kind, tmp_path):
        bad = hr.Quarantine(tmp_path / "bad")
        assert len(list(kind[1](path, on_error=bad))) == self.ROWS - 1
        (line,) = [json.loads(line) for line in (tmp_path / "bad" / "manifest.jsonl").read_text().splitlines()]
        assert (line["record"], line["file"]) == (12_345, path)
        assert repr(NO_TEXT) in (tmp_path / "bad" / "records.bin").read_text()

    def test_can_be_read_as_bytes_or_left_out(self, path, kind):
        assert next(iter(kind[1](path, cast={"name": bytes}).skip(12_345)))["name"] == NO_TEXT
        for options in ({"columns": ["x"]}, {"exclude": ["name"]}):
            assert len(list(kind[1](path, **options))) == self.ROWS


@pytest.mark.parametrize(
    "column",
    [
        pa.ListArray.from_arrays([0, 1, 3, 3], strings([b"a", b"b", NO_TEXT])),
        pa.StructArray.from_arrays([strings([b"a", NO_TEXT, b"b"])], ["in"]),
        pa.DictionaryArray.from_arrays([0, 1, 0], strings([b"a", NO_TEXT])),
        pa.ListArray.from_arrays([0, 1, 3, 3], pa.DictionaryArray.from_arrays([0, 0, 1], strings([b"a", NO_TEXT]))),
        pa.ListArray.from_arrays([0, 1, 2, 2], pa.StructArray.from_arrays([strings([b"a", NO_TEXT])], ["in"])),
        pa.MapArray.from_arrays([0, 1, 2, 2], strings([b"a", NO_TEXT]), pa.array([1, 2])),
        strings([b"a", NO_TEXT, b"b"]).cast(pa.large_string()),
    ],
    ids=["lists", "structs", "categories", "lists of categories", "lists of structs", "maps", "large"],
)
def test_bad_text_is_found_wherever_it_is(kind, tmp_path, column):
    kind[0](pa.table({"c": column, "x": [1, 2, 3]}), tmp_path / "a")
    ds = kind[1](str(tmp_path / "a"))
    check_transformation(ds)
    wrong = errors(outcomes(iter(ds)))
    assert "column 'c" in wrong[0][1]
    if kind[1] is hr.ParquetDataset and "dictionary" in str(column.type):
        assert len(wrong) == 3, "Parquet's own reader looks at the categories of a group at once"
        return
    ((place, error),) = wrong
    assert place == 1 and "no UTF-8" in error


class TestADamagedGroup:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "a.parquet"
        write_parquet(pa.table({"x": np.arange(100), "s": [f"row {i}" for i in range(100)]}), path, 20)
        damage_group(path, 2)
        return path

    def test_costs_its_own_rows(self, path):
        ds = hr.ParquetDataset(path)
        got = outcomes(iter(ds))
        assert [place for place, _ in errors(got)] == list(range(40, 60))
        assert "row 41, group 2" in got[41][1] and "rows of group 2 are lost: column 'x': OSError" in got[41][1]
        assert "(exclude=['x'] reads the rest)" in got[41][1]
        assert [int(value["x"]) for kind, value in got if kind == "value"] == [*range(40), *range(60, 100)]
        assert len(ds) == 100
        check_transformation(ds, cuts=20)
        check_transformation(ds.shuffle(30, seed=1), cuts=10)
        check_transformation(ds.shuffle(seed=1), cuts=10)

    def test_is_passed_over(self, path):
        ds = hr.ParquetDataset(path, on_error="skip")
        assert [int(row["x"]) for row in ds] == [*range(40), *range(60, 100)]
        check_transformation(ds, cuts=20)

    def test_is_read_where_the_damage_is_not(self, path):
        """Only the first column is damaged."""
        assert len(list(hr.ParquetDataset(path, columns=["s"]))) == 100

    def test_counts_row_by_row(self, path, tmp_path):
        bad = hr.Quarantine(tmp_path / "bad", max_fraction=0.25)
        with pytest.raises(hr.QuarantineError, match="20 of 60 records are bad"):
            list(hr.ParquetDataset(path, on_error=bad))
        bad = hr.Quarantine(tmp_path / "more", max_fraction=0.5)
        assert len(list(hr.ParquetDataset(path, on_error=bad))) == 80
        assert (bad.count, bad.read) == (20, 100)
        (line,) = [json.loads(line) for line in (tmp_path / "more" / "manifest.jsonl").read_text().splitlines()]
        assert (line["record"], line["records"]) == (40, 20)

    def test_under_a_filter_is_one_error(self, path):
        """It is unknown how many of its rows would have passed."""
        ds = hr.ParquetDataset(path, filter=[("x", ">=", 30)])
        got = outcomes(iter(ds))
        assert len(errors(got)) == 1
        assert [int(value["x"]) for kind, value in got if kind == "value"] == [*range(30, 40), *range(60, 100)]
        check_transformation(ds, cuts=10)


def test_a_checksum_that_is_wrong_is_damage(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"x": pa.array(range(100), pa.int32())})
    pq.write_table(table, path, row_group_size=50, compression="none", use_dictionary=False, write_page_checksum=True)
    place = path.read_bytes().index(np.arange(50, 100, dtype=np.int32).tobytes())
    overwrite(path, place, b"\1\1\1\1")
    for options in ({}, {"filter": [("x", ">=", 0)]}):
        got = outcomes(iter(hr.ParquetDataset(path, **options)))
        assert [int(value["x"]) for kind, value in got if kind == "value"] == list(range(50))
        assert "checksum" in errors(got)[0][1]


ARRAYS = {
    "strings": pa.array([f"word {i}" for i in range(1000)]),
    "bytes": pa.array([b"word %d" % i for i in range(1000)]),
    "lists": pa.array([[i, i + 1] for i in range(1000)]),
    "lists of structs": pa.array([[{"a": i, "b": str(i)}] for i in range(1000)]),
    "maps": pa.array([[("k", i)] for i in range(1000)], pa.map_(pa.string(), pa.int64())),
}


class TestWrongOffsets:
    @pytest.mark.parametrize("name", ARRAYS)
    @pytest.mark.parametrize("value", [2**30, -5, 0])
    def test_are_errors_of_the_rows_they_belong_to(self, tmp_path, name, value):
        path, array = tmp_path / "a.arrow", ARRAYS[name]
        write_arrow(pa.table({"s": array, "x": np.arange(1000)}), path)
        damage_offset(path, array, 500, value)
        ds = hr.ArrowDataset(path)
        got = outcomes(iter(ds))
        assert len(got) == 1000
        wrong = errors(got)
        assert {place for place, _ in wrong} <= {499, 500} and wrong
        assert "column 's' is damaged" in wrong[0][1] and f"{path}, row" in wrong[0][1]
        assert len(list(hr.ArrowDataset(path, on_error="skip"))) == 1000 - len(wrong)
        assert len(list(hr.ArrowDataset(path, exclude=["s"]))) == 1000

    def test_of_categories_too(self, tmp_path):
        path = tmp_path / "a.arrow"
        kinds = [f"kind {i}" for i in range(7)]
        array = pa.DictionaryArray.from_arrays(pa.array(np.arange(1000) % 7, pa.int32()), kinds)
        write_arrow(pa.table({"s": array}), path)
        raw = (np.arange(1000) % 7).astype(np.int32).tobytes()
        overwrite(path, path.read_bytes().index(raw) + 4 * 10, np.int32(10**9).tobytes())
        got = outcomes(iter(hr.ArrowDataset(path)))
        ((place, error),) = errors(got)
        assert place == 10 and "index 1000000000 is none of its 7 categories" in error

    def test_do_not_end_the_process(self, tmp_path):
        path = tmp_path / "a.arrow"
        write_arrow(pa.table({"s": ARRAYS["strings"]}), path)
        damage_offset(path, ARRAYS["strings"], 500, 2**30)
        code = f"import headrace as hr; print(len(list(hr.ArrowDataset({str(path)!r}).ignore_errors())))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "998\n"), done.stderr


@pytest.mark.parametrize("size", [0, 3, 40])
def test_what_is_no_table_is_named(kind, tmp_path, size):
    (tmp_path / "a").write_bytes(b"x" * size)
    with pytest.raises((ValueError, OSError), match=str(tmp_path / "a")):
        kind[1](str(tmp_path / "a"))


def test_a_table_that_is_cut_while_it_is_read_is_errors_of_its_rows(tmp_path):
    rows = 200
    table = pa.table({"x": np.arange(rows), "s": [f"row {i}" for i in range(rows)]})
    write_parquet(table, tmp_path / "a", 10)
    it = iter(hr.ParquetDataset(str(tmp_path / "a")))
    assert next(it)["x"] == 0
    os.truncate(tmp_path / "a", (tmp_path / "a").stat().st_size // 3)
    got = outcomes(it)
    values = [int(value["x"]) for what, value in got if what == "value"]
    assert len(got) == rows - 1 and values == list(range(1, 1 + len(values))) and errors(got)


class TestFilesCutShort:
    TABLE = pa.table({"x": np.arange(100), "s": [f"row {i}" for i in range(100)]})

    @pytest.mark.parametrize("write", [write_arrow, write_stream])
    def test_what_is_whole_is_read(self, tmp_path, write):
        path = tmp_path / "a.arrow"
        write(self.TABLE, path, 20)
        data = path.read_bytes()
        path.write_bytes(data[: data.index(b"row 75")])
        ds = hr.ArrowDataset(path)
        got = outcomes(iter(ds))
        assert [int(value["x"]) for kind, value in got if kind == "value"] == list(range(60))
        assert len(errors(got)) == 20 + (write is write_arrow), "the batch that was cut, and the footer"
        assert "the file ends within a record batch" in errors(got)[0][1]
        check_transformation(ds, cuts=10)

    def test_a_footer_that_is_nonsense(self, tmp_path):
        path = tmp_path / "a.arrow"
        write_arrow(self.TABLE, path, 20)
        overwrite(path, path.stat().st_size - 100, b"\xff" * 80)
        got = outcomes(iter(hr.ArrowDataset(path)))
        assert len(got) == 101 and "no footer" in errors(got)[0][1]

    def test_any_cut_is_an_error(self, tmp_path):
        """Never fewer rows without a word."""
        for write, reader in KINDS.values():
            whole, path = tmp_path / "whole", tmp_path / "cut"
            write(self.TABLE, whole, 20)
            data = whole.read_bytes()
            good = tmp_path / "good"
            write(self.TABLE[:1], good)
            for stop in range(0, len(data) - 20, 97):
                path.write_bytes(data[:stop])
                got = outcomes(iter(reader([good, path])))
                assert got[0][0] == "value"
                values = [int(value["x"]) for kind, value in got[1:] if kind == "value"]
                assert values == list(range(len(values)))
                assert errors(got) or len(values) == 100
                if write is write_stream and stop == len(data) - 8:
                    assert len(values) == 100

    def test_a_stream_may_do_without_its_end(self, tmp_path):
        path = tmp_path / "a.arrow"
        write_stream(self.TABLE, path)
        path.write_bytes(path.read_bytes()[:-8])
        assert len(list(hr.ArrowDataset(path))) == 100


@pytest.mark.parametrize("encoded", [False, True])
def test_a_column_that_is_damaged_in_memory_is_an_error_of_its_row(run, encoded):
    words = strings([b"a", NO_TEXT, b"b"] * 100)
    table = pa.table({"s": words.dictionary_encode() if encoded else words, "x": np.arange(300)})
    ds = hr.Dataset.from_arrow(table)
    got = outcomes(iter(ds))
    assert [place for place, _ in errors(got)] == list(range(1, 300, 3))
    assert "component['s'] holds no UTF-8" in errors(got)[0][1]
    check_transformation(ds.shuffle(20, seed=1), cuts=5)
    with pytest.raises(hr.ElementError):
        run(ds)


def test_a_list_whose_offsets_are_gone_is_an_error_and_no_crash(tmp_path):
    """The memory of a column must not be computed from unchecked offsets."""
    path = tmp_path / "rows.arrow"
    table = pa.table({"words": pa.array([[["a"], ["b", "c"]]] * 25, pa.list_(pa.list_(pa.string())))})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write(table)
    length = struct.pack("<q", 4 * (25 + 1))  # of the outer offsets, in the description of the batch
    damaged = path.read_bytes().replace(length, bytes(8))
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    code = f"import headrace as hr; print(hr.ArrowDataset({str(path)!r}, on_error='skip').count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize("write", [write_arrow, write_stream])
def test_one_wrong_byte_gives_the_same_rows_in_order_and_by_number(write, tmp_path):
    path = tmp_path / "rows.arrow"
    words = pa.array(["a", "b", "c"] * 3).dictionary_encode()
    write(pa.table({"x": np.arange(9), "s": words}), path, 3)
    good = path.read_bytes()
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        try:
            ds = hr.ArrowDataset(path)
            rows = len(ds)
        except (hr.HeadraceError, ValueError, TypeError, OSError):  # nothing of it can be read
            continue
        got = outcomes(iter(ds))
        assert len(got) == rows, place
        for number in {0, rows // 2, rows - 1} & set(range(rows)):
            kind, value = got[number]
            try:
                assert (kind, repr(value)) == ("value", repr(ds[number])), place
            except hr.ElementError:
                assert kind == "error", place
