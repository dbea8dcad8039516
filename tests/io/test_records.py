"""The framing of records, against its plain meaning and against damage."""

import itertools
import mmap
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native

NO_ROW_LIMIT = 2**62
NO_PROBLEM, BAD_LENGTH, BAD_DATA = 0, 1, 2


def plain_crc(data):
    """Castagnoli's checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = plain_crc(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(*records):
    lengths = [struct.pack("<Q", len(r)) for r in records]
    return b"".join(n + masked(n) + r + masked(r) for n, r in zip(lengths, records, strict=True))


def column(rows):
    offsets = np.cumsum([0, *(len(r) for r in rows)])
    return np.frombuffer(b"".join(rows), np.uint8), offsets


def rows(values, offsets):
    return [values[a:b].tobytes() for a, b in itertools.pairwise(offsets)]


@pytest.mark.parametrize("portable", [False, True])
def test_the_checksum_of_the_published_examples(portable):
    assert _native.crc32c(b"123456789", portable) == 0xE3069283
    assert _native.crc32c(bytes(32), portable) == 0x8A9136AA
    assert _native.crc32c(b"\xff" * 32, portable) == 0x62A8AB43
    assert _native.crc32c(b"", portable) == 0


@given(st.binary(max_size=900))
def test_all_checksums_agree_with_the_plain_one(data):
    assert _native.crc32c(data) == _native.crc32c(data, portable=True) == plain_crc(data)
    assert _native.crc32c(data, by_instruction=True) == plain_crc(data)


@pytest.mark.parametrize("size", [95, 96, 97, 119, 120, 121, 880, 3071, 3072, 3073, 3167, 3168, 6144, 50_001])
def test_the_lanes_of_the_fast_checksum_join_at_any_length(size):
    data = np.random.default_rng(size).bytes(size + 3)
    for start in range(3):
        part = memoryview(data)[start : start + size]
        whole = _native.crc32c(part, portable=True)
        assert _native.crc32c(part) == _native.crc32c(part, by_instruction=True) == whole


def test_the_fast_checksum_of_every_length_around_its_steps():
    data = memoryview(np.random.default_rng(0).bytes(1200))
    for size in range(1150):
        part = data[size % 5 : size % 5 + size]
        assert _native.crc32c(part) == _native.crc32c(part, portable=True), size


@given(st.lists(st.binary(max_size=60), max_size=12))
def test_framing_and_back(records):
    data = _native.frame(*column(records)).tobytes()
    assert data == framed(*records)
    values, offsets, consumed, problem = _native.unframe(data, 0, NO_ROW_LIMIT, NO_ROW_LIMIT)
    assert rows(values, offsets) == records
    assert (consumed, problem) == (len(data), NO_PROBLEM)
    starts, consumed, problem = _native.scan_records(data, 0, NO_ROW_LIMIT)
    assert starts.tolist() == [len(framed(*records[:i])) for i in range(len(records))]
    assert (consumed, problem) == (len(data), NO_PROBLEM)


@given(st.lists(st.binary(max_size=20), max_size=6), st.data())
def test_bytes_that_end_early_give_the_whole_records(records, data):
    whole = framed(*records)
    size = data.draw(st.integers(0, len(whole)))
    values, offsets, consumed, problem = _native.unframe(whole[:size], 0, NO_ROW_LIMIT, NO_ROW_LIMIT)
    got = rows(values, offsets)
    assert got == records[: len(got)]
    assert consumed == len(framed(*got)) <= size
    assert len(got) == len(records) or len(framed(*records[: len(got) + 1])) > size
    assert problem == NO_PROBLEM


def test_limits():
    data = framed(b"aa", b"bbb", b"cccc", b"")
    assert rows(*_native.unframe(data, 0, 2, NO_ROW_LIMIT)[:2]) == [b"aa", b"bbb"]
    assert rows(*_native.unframe(data, 0, NO_ROW_LIMIT, 8)[:2]) == [b"aa", b"bbb"]
    assert rows(*_native.unframe(data, 0, NO_ROW_LIMIT, 9)[:2]) == [b"aa", b"bbb", b"cccc", b""]
    assert rows(*_native.unframe(data, 0, NO_ROW_LIMIT, 0)[:2]) == [b"aa"], (
        "one record always passes, or nothing would move"
    )
    assert rows(*_native.unframe(data, 18, 1, NO_ROW_LIMIT)[:2]) == [b"bbb"]
    assert _native.unframe(data, 0, 0, NO_ROW_LIMIT)[2] == 0


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 14), st.integers(0, 500), st.integers(1, 255))
def test_objects_are_made_of_the_same_records_as_columns(records, most, place, flipped):
    data = bytearray(framed(*records))
    for damaged in (False, True):
        if damaged and data:
            data[place % len(data)] ^= flipped
        values, offsets, consumed, problem = _native.unframe(bytes(data), 0, most, NO_ROW_LIMIT)
        objects, nbytes, *rest = _native.unframe_objects(bytes(data), 0, most)
        assert (objects.tolist(), nbytes) == (rows(values, offsets), len(values))
        assert rest == [consumed, problem]


@pytest.mark.parametrize("size", [1, 60_000, 128 << 10, 300_000])
def test_objects_of_more_bytes_than_are_looked_at_in_one_go(size):
    records = [bytes([i]) * (size + i) for i in range(9)]
    data = b"".join(bytes(_native.frame(*column([record]))) for record in records)
    objects, nbytes, consumed, problem = _native.unframe_objects(data[:-1], 0, NO_ROW_LIMIT)
    assert objects.tolist() == records[:-1]
    assert (nbytes, problem) == (sum(map(len, records[:-1])), NO_PROBLEM)
    assert consumed == len(data) - len(records[-1]) - 16
    assert _native.unframe_objects(data, size + 16, 2)[0].tolist() == records[1:3]


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=5), st.data())
def test_one_flipped_bit_is_found_where_it_is(records, data):
    whole = bytearray(framed(*records))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    starts = [len(framed(*records[:i])) for i in range(len(records) + 1)]
    bad = max(i for i, start in enumerate(starts) if start <= at)
    for read in (_native.unframe(whole, 0, NO_ROW_LIMIT, NO_ROW_LIMIT), _native.scan_records(whole, 0, NO_ROW_LIMIT)):
        assert read[-2] == starts[bad]
        assert read[-1] == (BAD_LENGTH if at - starts[bad] < 12 else BAD_DATA)
    values, offsets, *_ = _native.unframe(whole, 0, NO_ROW_LIMIT, NO_ROW_LIMIT)
    assert rows(values, offsets) == records[:bad]
    found = _native.resync(whole, starts[bad], len(whole))
    assert found == (starts[bad + 1] if bad + 1 < len(records) else -1)


def test_data_are_not_checked_unless_requested():
    data = bytearray(framed(b"one", b"two"))
    data[13] ^= 1
    assert rows(*_native.unframe(data, 0, NO_ROW_LIMIT, NO_ROW_LIMIT, verify=False)[:2]) == [b"ooe", b"two"]
    assert _native.scan_records(data, 0, NO_ROW_LIMIT, verify=False)[1:] == (len(data), NO_PROBLEM)
    data[0] ^= 1
    assert _native.unframe(data, 0, NO_ROW_LIMIT, NO_ROW_LIMIT, verify=False)[2:] == (0, BAD_LENGTH)


def test_a_record_that_claims_the_whole_address_space_takes_no_memory():
    for claim in (2**63, 2**64 - 1, 2**64 - 16, 2**63 - 13):
        length = struct.pack("<Q", claim)
        data = framed(b"good") + length + masked(length) + b"x" * 100
        values, offsets, consumed, problem = _native.unframe(data, 0, NO_ROW_LIMIT, NO_ROW_LIMIT)
        assert rows(values, offsets) == [b"good"]
        assert values.nbytes == 4
        assert (consumed, problem) == (20, NO_PROBLEM), (
            "only a caller that knows the file's length can tell that it is truncated"
        )


def test_resync_believes_a_record_that_reaches_beyond_the_bytes():
    data = b"noise" + framed(b"payload")
    assert _native.resync(data, 0) == 5
    assert _native.resync(data[:20], 0) == 5
    assert _native.resync(data[:16], 0) == -1, "eleven bytes are too few to tell"
    assert _native.resync(data[:20], 0, len(data)) == 5
    assert _native.resync(data[:20], 0, len(data) - 1) == -1, "but not beyond the end of the file"
    assert _native.resync(data, 6) == -1
    assert _native.resync(b"", 0) == -1


def test_any_memory_will_do(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(framed(b"mapped"))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for memory in (lambda m: m, memoryview, bytearray, lambda m: np.frombuffer(m, np.uint8)):
            assert rows(*_native.unframe(memory(mapped), 0, NO_ROW_LIMIT, NO_ROW_LIMIT)[:2]) == [b"mapped"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: _native.unframe(b"abc", 4, 1, 1), "beyond"),
        (lambda: _native.unframe(b"abc", -1, 1, 1), "beyond"),
        (lambda: _native.unframe(b"abc", 0, -1, 1), "negative"),
        (lambda: _native.unframe_objects(b"abc", 4, 1), "beyond"),
        (lambda: _native.unframe_objects(b"abc", 0, -1), "negative"),
        (lambda: _native.scan_records(b"abc", 9, 1), "beyond"),
        (lambda: _native.resync(b"abc", 4), "beyond"),
        (lambda: _native.resync(b"abc", 0, 2), "within"),
        (lambda: _native.frame(np.zeros(3, np.uint8), np.array([0, 4])), "beyond"),
        (lambda: _native.frame(np.zeros(3, np.uint8), np.array([2, 1])), "offsets"),
        (lambda: _native.frame(np.zeros(3, np.uint8), np.empty(0, np.int64)), "offsets"),
    ],
)
def test_arguments_are_checked(call, said):
    with pytest.raises(ValueError, match=said):
        call()
