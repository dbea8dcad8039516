"""Small files, which are read many at a time."""

import os

import pytest

import headrace as hr
from headrace.formats.shared.small_files import SmallFiles
from headrace.testing import check_transformation

KINDS = {"lines": hr.TextLineDataset, "bytes": lambda files: hr.TextLineDataset(files, encoding=None)}


def records(path, *rows):
    with hr.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(row)
    return path.read_bytes()


def framed(tmp_path, *rows):
    return records(tmp_path / "scratch", *rows)


@pytest.fixture
def fills(monkeypatch):
    """What came of reading many files at once, time after time."""
    seen = []
    fill = SmallFiles.fill

    def noted(self, ctx, names):
        made = fill(self, ctx, names)
        seen.append(None if made is None else made.rows)
        return made

    monkeypatch.setattr(SmallFiles, "fill", noted)
    return seen


def test_many_small_files_are_read_at_once_and_every_promise_kept(tmp_path, put, fills):
    files = put(*(framed(tmp_path, *(b"%d %d" % (i, j) for j in range(i % 4))) for i in range(12)))
    ds = hr.TFRecordDataset(files)
    assert list(ds) == [b"%d %d" % (i, j) for i in range(12) for j in range(i % 4)]
    assert max(fills) > 1
    check_transformation(ds)


@pytest.mark.parametrize("kind", ["lines", "bytes"])
@pytest.mark.parametrize(
    "contents",
    [
        [b"a\nb\n", b"", b"c\r\n", b"\n"],
        [b"a\nb", b"c\n"],
        [b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"],
        [b"a\n", b"\xff\n", b"b\n"],
        [b"a\n", b"\x1f\x8b\x08\x00\n", b"b\n"],
        [b"", b""],
    ],
)
def test_lines_of_small_files_are_those_of_each_by_itself(put, kind, contents):
    check_transformation(KINDS[kind](put(*contents)))


def test_a_record_that_runs_from_one_file_into_the_next_is_none(tmp_path, put):
    whole = framed(tmp_path, b"first", b"second", b"third")
    for cut in range(1, len(whole)):
        ds = hr.TFRecordDataset(put(whole[:cut], whole[cut:]))
        alone = [hr.TFRecordDataset(p) for p in put(whole[:cut], whole[cut:])]
        assert outcome(ds) == outcome(alone[0]) + outcome(alone[1])


def outcome(ds):
    rows, it = [], iter(ds)
    while True:
        try:
            rows.append(next(it))
        except StopIteration:
            return rows
        except hr.ElementError as error:
            rows.append(str(error).partition("(")[0].rpartition("element")[0])


def test_damaged_missing_large_and_odd_files_are_met_in_their_places(tmp_path, put, fills):
    good = framed(tmp_path, b"a", b"b")
    bad = bytearray(good)
    bad[-1] ^= 1
    large = framed(tmp_path, b"x" * 70_000)
    files = [*put(good, bytes(bad), good, large, good), tmp_path / "missing", *put(good, name="last")]
    check_transformation(hr.TFRecordDataset(files))
    assert None in fills


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_not_opened_before_its_turn(tmp_path, put):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (first,) = put(b"a\nb\n")
    it = iter(hr.TextLineDataset([first, pipe]))
    assert [next(it), next(it)] == ["a", "b"]
    it.close()


def test_a_state_within_small_files_is_refused_once_one_has_changed(put):
    files = put(b"a\nb\n", b"c\nd\n", b"e\n")
    it = iter(hr.TextLineDataset(files))
    assert [next(it), next(it), next(it)] == ["a", "b", "c"]
    state = it.state()
    assert list(hr.TextLineDataset(files).iterator(state=state)) == ["d", "e"]
    files[1].write_bytes(b"c\nx\n")
    with pytest.raises(hr.StateError):
        list(hr.TextLineDataset(files).iterator(state=state))


def test_rows_of_many_small_files_are_passed_over(put, fills):
    files = put(*(b"".join(b"%d\n" % (5 * i + j) for j in range(5)) for i in range(20)))
    assert list(hr.TextLineDataset(files).skip(52).take(3)) == ["52", "53", "54"]
    assert max(fills) > 5


@pytest.fixture
def packs(monkeypatch):
    """How many files were read at once, time after time; 0 where they had to be looked at one by one."""
    seen = []
    fill_each = SmallFiles.fill_each

    def noted(self, ctx, names):
        made = fill_each(self, ctx, names)
        seen.append(0 if made is None else len(made))
        return made

    monkeypatch.setattr(SmallFiles, "fill_each", noted)
    return seen


@pytest.mark.parametrize("turns", [1, 3, 20])
def test_small_files_in_turn_are_read_in_packs_and_every_promise_kept(tmp_path, put, packs, turns):
    files = put(*(framed(tmp_path, *(b"%d %d" % (i, j) for j in range(i * 7 % 5))) for i in range(12)))
    ds = hr.TFRecordDataset(files, num_parallel_reads=turns)
    alone = hr.Dataset.from_tensor_slices([str(f) for f in files]).interleave(hr.TFRecordDataset, cycle_length=turns)
    assert list(ds) == list(alone)
    assert max(packs) > 1
    check_transformation(ds)
    check_transformation(ds.random_map(lambda row, rng: (row, rng.integers(1000))))


def test_odd_files_among_small_ones_in_turn_are_met_in_their_places(tmp_path, put, packs):
    good = framed(tmp_path, b"a", b"b", b"c")
    bad = bytearray(good)
    bad[-1] ^= 1
    large = framed(tmp_path, *(b"x" * 1000 for _ in range(300)))
    files = [*put(good, bytes(bad), good, large, good, b""), tmp_path / "missing", *put(*[good] * 9, name="last")]
    check_transformation(hr.TFRecordDataset(files, num_parallel_reads=3), cuts=8)
    assert 0 in packs and max(packs) > 1


@pytest.mark.parametrize("kind", ["lines", "bytes"])
def test_lines_of_small_files_in_turn(put, kind):
    files = put(b"a\nb\n", b"", b"c\r\n", b"\n", b"d\n\ne\n", b"\xef\xbb\xbff\n", b"g")
    reader = hr.TextLineDataset
    check_transformation(reader(files, num_parallel_reads=3, encoding=None if kind == "bytes" else "utf-8"))


def test_a_state_within_small_files_in_turn_is_refused_once_one_has_changed(put):
    files = put(b"a\nb\n", b"c\nd\n", b"e\n")

    def read(state=None):
        return hr.TextLineDataset(files, num_parallel_reads=2).iterator(state=state)

    it = read()
    assert [next(it), next(it), next(it)] == ["a", "c", "b"]
    state = it.state()
    assert list(read(state)) == ["d", "e"]
    files[1].write_bytes(b"c\nx\n")
    with pytest.raises(hr.StateError):
        list(read(state))
