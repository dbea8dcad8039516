"""Files cut into pieces: read one by one they give what the whole file gives, to the record, line and byte."""

import gzip
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cutting import FORMS, check, csv_form, cuts, tar
from tests.framing import framed

from headrace.formats.fixed.format import FixedLength
from headrace.formats.shared.files import open_path
from headrace.formats.shared.format import Format, PreferredRows
from headrace.formats.shared.reader import START, Reader, RecordAt
from headrace.formats.shared.window import Buffered, Fetched, Mapped
from headrace.formats.text.format import Lines
from headrace.formats.tfrecord.format import TFRecords
from headrace.formats.webdataset.format import TarSamples
from headrace.io.from_tfrecord import Examples

HOW = st.fixed_dictionaries(
    {
        "target": st.sampled_from([1, 2, 5, 16, 64, 600, 2000]),
        "window": st.sampled_from([1, 3, 10, 40, 1000, 1 << 20]),
        "chunk": st.sampled_from([1, 5, 50, 700, None]),
        "go_on": st.booleans(),
    }
)
BOM = "\N{BYTE ORDER MARK}".encode()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("cut") / "file"


def texts(*tokens):
    """Files made of these tokens, perhaps after a byte order mark."""
    body = st.lists(st.sampled_from(tokens), max_size=60).map(b"".join)
    return st.tuples(st.sampled_from([b"", b"", BOM, BOM[:2]]), body).map(b"".join)


def damaged(data):
    """Files in which a few bytes are changed, or the end is missing."""

    def change(drawn):
        whole, changes, kept = drawn
        raw = bytearray(whole)
        for where, value in changes:
            if raw:
                raw[where % len(raw)] = value
        return bytes(raw[: len(raw) * kept // 100])

    changes = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=2)
    return st.tuples(data, changes, st.sampled_from([100, 100, 100, 99, 90, 50])).map(change)


LINES = texts(b"\n", b"\n", b"\r\n", b"\r", b"word", b"\xff", "äö".encode(), b"\r\r", b"x" * 40)
JSON = texts(
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b" \t\x0b\x0c",
    b'{"x": 1, "s": "a"}\n',
    b'{"x": 1, "s": "a"}\n',
    b'{"x": "no"}\n',
    b'{"x":',
    b"\x00",
    b"\x1f\n",
    b"7\n",
    b' {"x": 2} ',
    BOM,
)
CSV = texts(
    b"\n",
    b"\r",
    b"\r\n",
    b",",
    b",",
    b";",
    b'"',
    b'"',
    b'""',
    b"1",
    b"a",
    b"1,a\n",
    b'2,"b\r\n""c"\n',
    b"a,b\n",
    b"x" * 40,
)
RECORDS = damaged(st.lists(st.binary(max_size=60) | st.just(framed([b"inner"])), max_size=25).map(framed))
FIXED = st.binary(max_size=200)
MEMBERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["a.x", "a.y", "b.x", "b.X", "./b.y", "d/b.x", "__a.x", "none", "d" * 90 + "/" + "e" * 60 + ".x"]
        ),
        st.sampled_from([b"", b"1", b"2" * 512, b"3" * 700, None]),
    ),
    max_size=12,
)
TARS = damaged(
    st.tuples(MEMBERS, st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])).map(
        lambda drawn: tar(*drawn)[: -20 * 512 + 1024 * (len(drawn[0]) % 9) or None]
    )
)


@pytest.mark.parametrize("form", ["text", "bytes"])
@given(data=LINES, how=HOW)
def test_pieces_of_text_give_the_lines_of_the_file(path, form, data, how):
    check(path, data, FORMS[form], **how)


@given(data=JSON, how=HOW)
def test_pieces_of_json_lines_give_the_rows_and_lines_of_the_file(path, data, how):
    check(path, data, FORMS["json"], **how)


@pytest.mark.parametrize("form", [name for name in FORMS if name.startswith("csv")])
@given(data=CSV, how=HOW)
def test_pieces_of_csv_give_the_rows_and_lines_of_the_file(path, form, data, how):
    check(path, data, FORMS[form], **how)


@given(data=RECORDS, how=HOW)
def test_pieces_of_records_give_the_records_of_the_file(path, data, how):
    check(path, data, FORMS["tfrecord"], **how)


@pytest.mark.parametrize("form", ["fixed", "fixed-around"])
@given(data=FIXED, how=HOW)
def test_pieces_of_fixed_length_records_give_the_records_of_the_file(path, form, data, how):
    check(path, data, FORMS[form], **how)


@settings(max_examples=150)
@pytest.mark.filterwarnings("ignore:.*ends without the empty blocks")
@given(data=TARS, how=HOW)
def test_pieces_of_archives_give_the_samples_of_the_file(path, data, how):
    check(path, data, FORMS["tar"], **how)


SOUND = {
    "text": b"some words\n" * 500,
    "bytes": b"some words\r\n" * 500,
    "json": b'{"x": 1, "s": "a"}\n\n' * 300,
    "csv": b'1,"a\n,b"\n2,c\r' * 300,
    "csv-header": b"\r\na,b\n" + b"1,a\n" * 1000,
    "csv-heading": BOM + b"a,b\n" + b"1,a\n" * 1000,
    "csv-unquoted": b'1;"a\n' * 1000,
    "csv-quote-delimiter": b'1"a\n' * 1000,
    "tfrecord": framed([b"record"] * 300),
    "fixed": b"abc" * 2000,
    "fixed-around": b"heading" + b"abcde" * 1000 + b"foot",
    "tar": tar([(f"{i}.x", b"1") for i in range(10)]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("window", [300, 1 << 20])
def test_sound_files_are_cut_as_finely_as_asked(path, form, window):
    data = SOUND[form]
    target = 1024 if form == "tar" else 256
    assert check(path, data, FORMS[form], target, window) > (4 if form == "tar" else 10)
    assert cuts(data, FORMS[form], len(data), window) == [START]


@pytest.mark.parametrize("form", [each for each in FORMS if FORMS[each].prefers_rows])
def test_cuts_are_made_before_preferred_rows(form):
    data, rows = np.frombuffer(SOUND[form], np.uint8), PreferredRows(group=2, before=3)
    target = 2048 if form == "tar" else 256
    plain = FORMS[form].cut(data, target, first=True, final=True)
    points = FORMS[form].cut(data, target, first=True, final=True, prefer=rows)
    assert len(points.offsets) > 1
    assert ((rows.before + points.rows) % rows.group == 0).all()
    steps = np.diff(points.offsets, prepend=0)
    assert steps.min() >= target
    assert len(points.offsets) <= len(plain.offsets)


@pytest.mark.parametrize("form", ["text", "json", "tfrecord"])
def test_rows_that_are_far_away_are_not_preferred(form):
    data = np.frombuffer(SOUND[form], np.uint8)
    points = FORMS[form].cut(data, 256, first=True, final=True, prefer=PreferredRows(group=10**6))
    assert np.diff(points.offsets, prepend=0).max() < 3 * 256


def test_a_cut_tells_what_is_before_it():
    data = np.frombuffer(b'a,b\n\n1,"x\n\ny"\n2,z\r3,w', np.uint8)
    points = csv_form(header=True).cut(data, 1, first=True, final=True)
    assert [array.tolist() for array in points] == [[5, 14, 18], [1, 2, 3], [2, 5, 6]]


def test_cuts_end_before_the_first_doubtful_byte():
    data = bytearray(framed([b"record"] * 100))
    size = len(data) // 100
    data[50 * size] ^= 1
    assert max(cuts(bytes(data), TFRecords(), 1, 1 << 20)).offset == 49 * size
    archive = bytearray(tar([(f"{i}.x", b"1") for i in range(10)]))
    archive[5 * 1024] ^= 1
    assert max(cuts(bytes(archive), TarSamples(fields=("x",)), 1, 1 << 20)).offset == 4 * 1024


def test_a_file_whose_header_opens_quotes_is_not_cut():
    assert cuts(b'"a,b\n' + b"1,2\n" * 100, csv_form(header=True), 1, 1 << 20) == [START]
    assert cuts(b"c,d\n" + b"1,2\n" * 100, FORMS["csv-heading"], 1, 1 << 20) == [START]


def test_a_bad_record_that_ends_the_file_is_told(path):
    data = bytearray(framed([b"record"] * 4))
    data[14] ^= 1
    path.write_bytes(bytes(data))
    size = len(data) // 4
    for go_on in (False, True):
        reader = Reader(str(path), TFRecords(), stop=2 * size, go_on=go_on)
        while reader.read():
            pass
        assert reader.ended_early != go_on


def test_compressed_files_can_be_read_up_to_an_offset_but_not_cut(path):
    form = Lines("GZIP")
    path.write_bytes(gzip.compress(b"one\ntwo\nthree\n"))
    found = Reader(str(path), form, RecordAt(4, 1, 0), stop=8, chunk=1).read(9)
    assert [(item.at, item.columns[0].to_pylist()) for item in found] == [(RecordAt(4, 1, 0), ["two"])]
    assert not form.cuttable
    assert Lines().cuttable


def test_the_footer_is_no_part_of_a_piece_unless_the_file_ends_there(path):
    form = FixedLength(record_bytes=2, header_bytes=1, footer_bytes=3)
    path.write_bytes(b"habcdeffff")
    with pytest.raises(ValueError, match="cannot stop at byte 3"):
        Reader(str(path), form, RecordAt(5, 2, 0), stop=3)
    for start, stop, rows in ((0, 3, ["ab"]), (3, 5, ["cd"]), (5, 10, ["ef"]), (5, 99, ["ef"]), (7, 7, [])):
        reader = Reader(str(path), form, RecordAt(start, start // 2, 0), stop=stop)
        found = [row.decode() for item in reader.read(9) for row in item.columns[0].to_pylist()]
        assert found == rows
        reader.close()


def test_formats_that_cannot_be_cut_say_so():
    assert Examples().cuttable
    assert not Format.divisible
    with pytest.raises(NotImplementedError, match="cannot be cut"):
        Format.cut(TFRecords(), np.empty(0, np.uint8), 1, first=True, final=True)


class Ranges:
    """A file in a store, whose ranges have 64 bytes."""

    def __init__(self, data):
        self.size = len(data)
        self._data = np.frombuffer(data, np.uint8)

    def range_with(self, at, stop):
        assert stop <= self.size
        start = at // 64 * 64
        return start, self._data[start : start + 64]


def windows(path, stop, chunk):
    file = open_path(str(path))
    yield Mapped(file, 10, chunk, None, stop)
    yield Fetched(Ranges(path.read_bytes()), 10, chunk, stop)
    yield Buffered(file, "", 10, chunk, stop)
    file.close()


@pytest.mark.parametrize("stop", [None, 10, 11, 64, 199, 200, 300])
@pytest.mark.parametrize("chunk", [1, 50, 1000])
def test_every_window_ends_at_its_stop(path, stop, chunk):
    data = bytes(range(200))
    path.write_bytes(data)
    for window in windows(path, stop, chunk):
        found = b""
        while not window.final:
            window.more()
            found += window.data.tobytes()
            window.use(len(window.data))
        assert found == data[10:stop], type(window).__name__
        assert window.cut == (stop is not None and stop < len(data)), type(window).__name__
        window.close()


def test_damage_beyond_the_stop_is_left_to_the_next_piece(path):
    packed = gzip.compress(np.random.default_rng(0).bytes(100_000).hex().encode())
    path.write_bytes(packed[:-20_000])
    file = open_path(str(path))
    window = Buffered(file, "GZIP", 0, 1000, 5000)
    while not window.final:
        window.more()
    assert (len(window.data), window.cut, window.damage) == (5000, True, None)
    file.close()
