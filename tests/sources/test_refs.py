"""Records that are parsed out of their files some at a time, and the files that others look at before they are read."""

import os

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace import _native
from headrace.columns.refs import CorruptRecordsError, RecordRefs, box_records, join_refs
from headrace.errors import ElementError
from headrace.formats.shared import records as record_source
from headrace.formats.shared import scans_ahead
from headrace.formats.shared.files import LocalFile
from headrace.formats.shared.scans_ahead import ScansAhead
from headrace.io.parse import plan

FEATURES = {
    "text": hr.io.FixedLenFeature([], bytes),
    "number": hr.io.FixedLenFeature([], np.int64),
    "share": hr.io.FixedLenFeature([], np.float32),
}
SIZES = [0, 1, 15, 16, 17, 90, 127, 128, 129, 784, 16_383, 16_384, 40_000]


def examples(sizes):
    random = np.random.default_rng(0)
    return [
        hr.io.encode_example({"text": random.bytes(size), "number": [-i] if i % 3 else [i << 40], "share": [i / 7]})
        for i, size in enumerate(sizes)
    ]


@pytest.fixture
def mapped(tmp_path):
    """Write records to a file; return their offsets."""

    def write(rows, name="records"):
        path = tmp_path / name
        path.write_bytes(framed(rows))
        file = LocalFile(str(path))
        memory = file.map_memory()
        file.close()
        bounds, _, _ = _native.RecordScan(memory, 0).bounds(0, len(memory.data), len(rows))
        return path, RecordRefs([memory], bounds)

    return write


def as_lists(columns):
    return {
        name: column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
        for name, column in columns.items()
    }


@pytest.mark.parametrize("sizes", [[], SIZES, SIZES[::-1], [784] * 1000, [3] * 500 + [70_000] * 20 + [3] * 500])
def test_records_parse_the_same_where_they_lie_and_copied(mapped, sizes):
    rows = examples(sizes)
    if not rows:
        return
    _, text = mapped(rows)
    parse = plan(FEATURES, single=True).fixed_columns
    expected = as_lists(parse(rows))
    assert as_lists(parse(text)) == expected
    assert text.sound
    order = np.random.default_rng(1).permutation(len(rows))
    drawn = text.take(order)
    assert as_lists(parse(drawn)) == {name: [values[i] for i in order] for name, values in expected.items()}
    assert drawn.copy().to_pylist() == [rows[i] for i in order]


def test_records_of_several_files_are_boxed_in_any_order(mapped):
    random = np.random.default_rng(0)
    lanes = [[random.bytes(int(n)) for n in random.integers(0, 2000, 300)] for _ in range(3)]
    parts = [mapped(rows, str(lane))[1] for lane, rows in enumerate(lanes)]
    order = random.permutation(900)[:700]
    rows = [row for lane in lanes for row in lane]
    assert box_records(parts, order).tolist() == [rows[i] for i in order]
    some = [parts[1].cut(7, 7), parts[2].cut(3, 5)]
    assert box_records(some, np.array([1, 0])).tolist() == lanes[2][4:2:-1]
    for wrong in (-1, 900):
        with pytest.raises(ValueError, match="no such record"):
            box_records(parts, np.array([0, wrong]))
    with pytest.raises(ValueError, match="bounds out of range"):
        _native.box_records(parts[0].files, [parts[0].where + 10**9], order)


@pytest.mark.parametrize("byte", [0, 12, -1])
def test_a_corrupt_record_is_not_boxed(tmp_path, mapped, byte):
    path, refs = mapped([b"good" * 20, b"bad" * 20, b"good"])
    data = bytearray(path.read_bytes())
    data[refs.where[2 if byte < 0 else 1] + byte] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    assert box_records([refs], np.array([2, 0])).tolist() == [b"good", b"good" * 20]
    with pytest.raises(CorruptRecordsError) as caught:
        box_records([refs], np.array([0, 1]))
    assert str(path) in caught.value.where()


def test_features_that_come_in_another_order_are_told_apart_by_name(mapped):
    """Records of which one looks like the bytes of another where a name stood."""
    one = hr.io.encode_example({"a": [1], "b": [b"x" * 200]})
    other = hr.io.encode_example({"b": [b"y" * 200], "c": [1]})
    rows = [one, hr.io.encode_example({"a": [2], "b": [b"z" * 130]}), other] * 300
    features = {"a": hr.io.FixedLenFeature([], np.int64, -1), "b": hr.io.FixedLenFeature([], bytes)}
    parse = plan(features, single=True).fixed_columns
    assert as_lists(parse(mapped(rows)[1])) == as_lists(parse(rows))


@pytest.mark.parametrize("byte", [0, 9, 12, 30, -4, -1])
def test_a_changed_record_gives_no_row(mapped, byte):
    path, text = mapped(examples([50] * 10))
    where = int(text.where[4 if byte >= 0 else 5]) + byte
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    if byte == 9:  # of the checksum of a length that was seen to be good: the record is the same
        assert len(text.copy()) == 10
        return
    with pytest.raises(CorruptRecordsError) as error:
        plan(FEATURES, single=True).fixed_columns(text)
    assert not text.sound
    path_said = error.value.where()
    assert path_said == f" ({path})"


def test_what_a_record_lacks_is_said_as_of_one_that_was_copied(mapped):
    rows = [*examples([20] * 5), hr.io.encode_example({"number": [1], "share": [1.0]})]
    parse = plan(FEATURES, single=True).fixed_columns
    errors = []
    for records in (rows, mapped(rows)[1]):
        with pytest.raises(hr.ParseError) as error:
            parse(records)
        errors.append((str(error.value), error.value.row))
    assert errors[0] == errors[1]
    assert errors[0][1] == 5


def test_rows_of_several_files_are_one_column(mapped):
    first, second = examples([5, 6, 7]), examples([8, 9])
    both = join_refs([mapped(first, "a")[1], mapped(second, "b")[1]])
    assert both.copy().to_pylist() == [*first, *second]
    assert both.take(np.array([4, 0])).copy().to_pylist() == [second[1], first[0]]


@pytest.mark.parametrize(("start", "looked"), [(0, 0), (0, 1), (0, 3000), (0, 1 << 30), (57, 900), (50, 51)])
def test_records_are_found_the_same_whatever_was_scanned_before(tmp_path, start, looked):
    rows = [b"r" * (i * 7 % 90) for i in range(400)]
    data = framed(rows)
    wrong = bytearray(data)
    wrong[len(framed(rows[:300])) + 2] ^= 1  # the length of record 300
    for number, bytes_ in enumerate((data, bytes(wrong), data[:-5])):
        path = tmp_path / str(number)
        path.write_bytes(bytes_)
        file = LocalFile(str(path))
        memory = file.map_memory()
        file.close()
        plain = _native.RecordScan(memory)
        starts, _, _ = plain.bounds(0, len(bytes_), 1 << 40)
        scan = _native.RecordScan(memory, int(starts[start]), looked and int(starts[start]) + looked, load=start > 0)
        for begin in (0, *starts[[1, 57, -2]].tolist()):
            for end in {begin, begin + 1, min(begin + 500, len(bytes_)), len(bytes_)}:
                for most in (0, 1, 5, 1 << 40):
                    found, used, problem = scan.bounds(begin, end, most)
                    expected, used_there, problem_there = plain.bounds(begin, end, most)
                    assert found.tolist() == expected.tolist()
                    assert (used, problem) == (used_there, problem_there)


@pytest.fixture
def files_ahead(monkeypatch):
    """Small files, too, on few processors, are looked at before they are read; how often that came of use."""
    monkeypatch.setattr(record_source, "MIN_CPUS_FOR_SCAN_AHEAD", 1)
    monkeypatch.setattr(scans_ahead, "MIN_SCANNED_BYTES", 1)
    monkeypatch.setattr(scans_ahead, "FILES_AHEAD", 3)
    used = []
    plain = ScansAhead.take

    def take(self, path, file):
        found = plain(self, path, file)
        used.append(found is not None)
        return found

    monkeypatch.setattr(ScansAhead, "take", take)
    return used


def number(record):
    return hr.io.parse_single_example(record, {"n": hr.io.FixedLenFeature([], np.int64)})["n"]


def write_numbers(path, first, count):
    path.write_bytes(framed([hr.io.encode_example({"n": [first + i], "room": [b" " * 3000]}) for i in range(count)]))


@pytest.fixture
def names(tmp_path):
    made = []
    for i in range(8):
        write_numbers(tmp_path / f"{i}", 1000 * i, 100)
        made.append(str(tmp_path / f"{i}"))
    return made


def outcome(ds):
    found, it = [], iter(ds)
    while True:
        try:
            found.append(int(next(it)))
        except StopIteration:
            return found
        except ElementError as error:
            found.append(str(error).partition("\n  added at")[0])


@pytest.mark.parametrize("reads", [None, 2, 5, hr.AUTOTUNE])
@pytest.mark.parametrize("bad", [None, 0, 4, 7])
def test_rows_of_files_that_were_looked_at_ahead(names, files_ahead, reads, bad):
    if bad is not None:
        with open(names[bad], "r+b") as file:  # noqa: PTH123
            file.seek(200_000)
            file.write(b"?")
    expected = outcome(hr.TFRecordDataset(names, num_parallel_reads=reads, index=False).map(number))
    assert not any(files_ahead)
    drawn = hr.TFRecordDataset(names, num_parallel_reads=reads, index=False).map(number, 2).shuffle(50, 3)
    assert sorted(map(str, outcome(drawn))) == sorted(map(str, expected))
    ds = hr.TFRecordDataset(names, num_parallel_reads=reads, index=False).map(number, 2)
    assert outcome(ds) == expected
    assert any(files_ahead)
    assert outcome(ds.repeat(2)) == expected * 2


def test_files_that_come_in_another_order_are_found_all_the_same(names, files_ahead):
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    files = hr.Dataset.from_tensor_slices([names[i] for i in order])
    mixed = hr.TFRecordDataset(names, index=False)
    shuffled = files.interleave(lambda name: hr.TFRecordDataset(name, index=False), 3).map(number, 2)
    assert sorted(outcome(shuffled)) == sorted(outcome(mixed.map(number, 2)))
    both = hr.Dataset.zip(mixed.map(number, 2), mixed.map(number, 2))
    assert all(a == b for a, b in both)


@pytest.mark.parametrize("change", ["replace", "remove", "shrink"])
def test_a_file_that_changes_before_it_is_read_is_read_as_it_is_then(names, files_ahead, tmp_path, change):
    ds = hr.TFRecordDataset(names, index=False).map(number, 2).prefetch(1)
    with iter(ds) as it:
        assert next(it) == 0
        last = tmp_path / "7"
        if change == "replace":
            write_numbers(tmp_path / "new", 9000, 50)
            (tmp_path / "new").replace(last)
        elif change == "remove":
            last.unlink()
        else:
            os.truncate(last, len(last.read_bytes()) // 2 + 7)
        found = []
        while True:
            try:
                found.append(int(next(it)))
            except StopIteration:
                break
            except ElementError as error:
                found.append(type(error).__name__)
    first = [1000 * i + j for i in range(7) for j in range(100)][1:]
    assert found[:699] == first
    if change == "replace":
        assert found[699:] == list(range(9000, 9050))
    else:
        assert found[-1] == ("MissingFileError" if change == "remove" else "ElementError")


def test_files_that_are_never_read_are_closed(names, files_ahead):
    def mapped_files():
        with open("/proc/self/maps") as maps:  # noqa: PTH123
            return sum(os.path.dirname(names[0]) in line for line in maps)  # noqa: PTH120

    if not os.path.exists("/proc/self/maps"):  # noqa: PTH110
        pytest.skip("the mappings of the process are unknown")
    it = iter(hr.TFRecordDataset(names, index=False).map(number, 2))
    next(it)
    it.close()
    assert mapped_files() == 0
