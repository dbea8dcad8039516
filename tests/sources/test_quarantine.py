"""Bad records: named, skipped, or put aside up to a budget."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace.testing import outcomes

ROWS = [b"row %d" % i for i in range(2000)]


@pytest.fixture
def damaged(put):
    """A file with a flipped bit in the length of record 100 and in the data of record 1500."""
    data = bytearray(framed(ROWS))
    starts = np.cumsum([0, *(len(r) + 16 for r in ROWS)])
    data[starts[100] + 2] ^= 4
    data[starts[1500] + 13] ^= 4
    (path,) = put(bytes(data))
    return path, starts


def test_the_error_names_file_record_byte_and_what_is_wrong(damaged):
    path, starts = damaged
    (error,) = [value for kind, value in outcomes(iter(hr.TFRecordDataset(path))) if kind == "error"]
    assert "the checksum of the length is wrong" in error
    assert f"{path}, record 100, byte {starts[100]}" in error


def test_skipping_goes_on_at_the_next_good_record(damaged, caplog):
    got = list(hr.TFRecordDataset(damaged[0], on_error="skip"))
    assert got == ROWS[:100] + ROWS[101:1500] + ROWS[1501:]
    assert "record 100" in caplog.text


def test_the_quarantine_keeps_the_bytes_and_says_where_they_came_from(damaged, tmp_path):
    path, starts = damaged
    bad = hr.Quarantine(tmp_path / "bad", max_fraction=0.01)
    for _ in range(2):  # the second pass puts nothing aside again
        assert len(list(hr.TFRecordDataset(path, on_error=bad))) == len(ROWS) - 2
    lines = [json.loads(line) for line in (tmp_path / "bad" / "manifest.jsonl").read_text().splitlines()]
    assert [(line["record"], line["offset"]) for line in lines] == [(100, starts[100]), (1500, starts[1500])]
    kept, data = (tmp_path / "bad" / "records.bin").read_bytes(), Path(path).read_bytes()
    for line in lines:
        assert kept[line["at"] : line["at"] + line["length"]] == data[line["offset"] :][: line["length"]]
    assert [line["length"] for line in lines] == [len(ROWS[100]) + 16, len(ROWS[1500]) + 16]


def test_beyond_its_budget_reading_fails(damaged, tmp_path):
    bad = hr.Quarantine(tmp_path / "bad", max_fraction=0.0001)
    it = iter(hr.TFRecordDataset(damaged[0], on_error=bad))
    with pytest.raises(hr.QuarantineError, match=r"2 of \d+ records are bad.*max_fraction=0.0001"):
        list(it)
    with pytest.raises(hr.QuarantineError):  # and keeps failing
        next(it)


def test_a_range_of_bad_bytes_is_one_bad_record(put, tmp_path):
    (path,) = put(framed(ROWS[:5]) + random.Random(1).randbytes(3_000_000) + framed(ROWS[5:]))
    bad = hr.Quarantine(tmp_path / "bad")
    assert list(hr.TFRecordDataset(path, on_error=bad)) == ROWS
    assert bad.count == 1
    assert (tmp_path / "bad" / "records.bin").stat().st_size == 3_000_000


def test_rows_of_csv(put, tmp_path):
    (path,) = put(b"1,a\nx,b\n3\n4,d\n")
    bad = hr.Quarantine(tmp_path / "bad", max_fraction=1)
    assert [int(n) for n, _ in hr.CsvDataset(path, [np.int32, str], on_error=bad)] == [1, 4]
    assert (tmp_path / "bad" / "records.bin").read_bytes() == b"x,b\n3\n"
    lines = (tmp_path / "bad" / "manifest.jsonl").read_text().splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert reasons == ["column 0 holds no int32: 'x,b'", "2 fields were expected, there are too few: '3'"]


def test_a_file_that_is_not_there(tmp_path):
    bad = hr.Quarantine(tmp_path / "bad")
    with pytest.raises(FileNotFoundError, match="missing"):
        list(hr.TextLineDataset("missing", on_error=bad))
    assert list(hr.TextLineDataset("missing", on_error=bad, missing="skip")) == [] and bad.count == 0


def test_states_while_skipping(damaged):
    ds = hr.TFRecordDataset(damaged[0], on_error="skip", buffer_size=500)
    want = list(ds)
    for cut in (0, 99, 100, 101, 1499, 1998):
        it = iter(ds)
        for _ in range(cut):
            next(it)
        assert list(ds.iterator(state=it.state())) == want[cut:]


@pytest.mark.parametrize("wrong", ["ignore", 3])
def test_what_on_error_may_be(wrong):
    with pytest.raises(ValueError, match="on_error"):
        hr.TextLineDataset("x", on_error=wrong)


def test_a_fraction_is_one():
    with pytest.raises(ValueError, match="max_fraction"):
        hr.Quarantine("bad", max_fraction=2)


@pytest.mark.parametrize("joined", [False, True])
def test_lines_of_the_manifest_that_were_cut_short_are_named_and_the_others_read(put, tmp_path, caplog, joined):
    (path,) = put(b"1\nx\n3\ny\nz\n")

    def read():
        ds = hr.CsvDataset(path, [np.int32], on_error=hr.Quarantine(tmp_path / "bad", max_fraction=1))
        assert [int(n) for (n,) in ds] == [1, 3]
        lines = (tmp_path / "bad" / "manifest.jsonl").read_bytes().splitlines()
        return lines, (tmp_path / "bad" / "records.bin").read_bytes()

    lines, kept = read()
    assert kept == b"x\ny\nz\n" and not caplog.text
    cut = lines[0][:40] if joined else lines[0] + b"\n" + lines[1][:40] + b"\xff\n"
    (tmp_path / "bad" / "manifest.jsonl").write_bytes(cut + lines[2] + b"\n" + lines[1 - joined][:40])
    lines, kept = read()
    assert kept == b"x\ny\nz\n" + (b"x\ny\n" if joined else b"y\n")  # those whose lines were lost
    assert [f"line {i} of" in caplog.text for i in (1, 2, 3, 4)] == [joined, True, False, not joined]
    assert [json.loads(line)["offset"] for line in lines[-1 - joined :]] == ([2, 6] if joined else [6])
    assert read() == (lines, kept)


def test_a_bad_record_that_could_not_be_stored_is_stored_when_it_is_met_again(tmp_path):
    bad, manifest = hr.Quarantine(tmp_path / "bad", max_fraction=1), tmp_path / "bad" / "manifest.jsonl"
    bad.keep("data.csv", 2, 1, "bad", [b"x"])
    lines = manifest.read_bytes()
    manifest.unlink()
    manifest.mkdir()  # it cannot be written
    with pytest.raises(OSError, match="manifest"):
        bad.keep("data.csv", 9, 3, "bad", [b"y"])
    manifest.rmdir()
    manifest.write_bytes(lines)
    bad.keep("data.csv", 9, 3, "bad", [b"y"])
    assert [json.loads(line)["offset"] for line in manifest.read_text().splitlines()] == [2, 9]
