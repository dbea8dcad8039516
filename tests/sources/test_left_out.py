"""Records that `on_error` leaves out are no elements: nowhere do they count."""

import gzip
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.framing import framed

import headrace as hr
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

ROWS = 40
BAD = {0, 3, 4, 11, 25, 38}


def text(folder, **options):
    path = folder / "text"
    path.write_bytes(b"".join(b"\xff\n" if i in BAD else b"line %d\n" % i for i in range(ROWS)))
    return hr.TextLineDataset(path, buffer_size=16, **options)


def packed_text(folder, **options):
    path = folder / "text.gz"
    path.write_bytes(gzip.compress(b"".join(b"\xff\n" if i in BAD else b"line %d\n" % i for i in range(ROWS))))
    return hr.TextLineDataset(path, "GZIP", **options)


def records(folder, **options):
    """Bits are flipped in lengths and in data, in turn."""
    rows = [b"row %d" % i for i in range(ROWS)]
    starts = np.cumsum([0, *(len(row) + 16 for row in rows)])
    data = bytearray(framed(rows))
    for i in BAD:
        data[starts[i] + (2 if i % 2 else 13)] ^= 4
    path = folder / "records"
    path.write_bytes(data)
    return hr.TFRecordDataset(path, buffer_size=50, **options)


def examples(folder, **options):
    """Bad ones are whole records that hold something else."""
    path = folder / "examples"
    path.write_bytes(framed([hr.io.encode_example({"y" if i in BAD else "x": i}) for i in range(ROWS)]))
    return hr.Dataset.from_tfrecord(path, {"x": hr.io.FixedLenFeature([], np.int64)}, **options)


def csv(folder, **options):
    path = folder / "table.csv"
    path.write_bytes(b"".join(b"bad\n" if i in BAD else b"%d,x\n" % i for i in range(ROWS)))
    return hr.CsvDataset(path, [np.int32, str], buffer_size=16, **options)


def json_lines(folder, **options):
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(b"{\n" if i in BAD else b'{"x": %d}\n' % i for i in range(ROWS)))
    return hr.JsonLinesDataset(path, pa.schema({"x": pa.int64()}), buffer_size=16, **options)


def parquet(folder, **options):
    path = folder / "table.parquet"
    values = [None if i in BAD else i for i in range(ROWS)]
    pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), path, row_group_size=16)
    return hr.ParquetDataset(path, **options)


def fixed(folder, **options):
    """Files that are no multiple of the record's size are left out whole."""
    names = []
    for i in range(8):
        names.append(folder / f"fixed-{i}")
        names[-1].write_bytes(b"odd" if i in BAD else b"%02d%02d" % (i, i + 50))
    return hr.FixedLengthRecordDataset(names, 2, **options)


READERS = [text, packed_text, records, examples, csv, json_lines, parquet, fixed]


@pytest.fixture(params=READERS, ids=lambda reader: reader.__name__)
def reader(request, tmp_path):
    def make(**options):
        return request.param(tmp_path, **options)

    return make


@pytest.mark.parametrize("reads", [None, 2])
def test_take_and_skip_part_the_elements(reader, reads):
    ds = reader(on_error="skip", num_parallel_reads=reads)
    want = list(ds)
    assert 0 < len(want) < ROWS
    for n in range(len(want) + 2):
        assert list(ds.take(n)) == want[:n]
        assert list(ds.skip(n)) == want[n:]
    assert ds.count() == ds.skip(3).count() + 3 == len(want)


def test_a_quarantine_leaves_out_the_same(reader, tmp_path):
    bad = hr.Quarantine(tmp_path / "bad", max_fraction=1)
    assert list(reader(on_error=bad).skip(7)) == list(reader(on_error="skip"))[7:]
    assert (tmp_path / "bad" / "manifest.jsonl").exists()


def test_every_promise_holds_behind_them(reader):
    ds = reader(on_error="skip")
    check_transformation(ds)
    check_transformation(ds.shuffle(5, seed=1).batch(2), cuts=12)
    check_transformation(ds.skip(4).repeat(2).shuffle(7), cuts=12)


def test_an_index_that_is_there_is_not_asked(tmp_path):
    for make in (text, examples):
        make(tmp_path, index=True)
        assert make(tmp_path).cardinality() == ROWS
        ds = make(tmp_path, on_error="skip")
        assert ds.cardinality() == hr.UNKNOWN_CARDINALITY
        assert ds.count() == ROWS - len(BAD)
        with pytest.raises(hr.NotIndexableError):
            ds[0]


@pytest.mark.parametrize("on_error", ["skip", hr.Quarantine("nowhere")])
def test_an_index_and_leaving_out_exclude_each_other(tmp_path, on_error):
    with pytest.raises(ValueError, match=r"index=True.*on_error"):
        examples(tmp_path, on_error=on_error, index=True)


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(1, 90), st.sampled_from(["flip", "cut", "insert", "drop"]))
def test_records_are_found_behind_damage_whatever_the_chunks(tmp_path_factory, chance, chunk, damage):
    rows = [chance.randbytes(chance.choice([0, 3, 30])) for _ in range(12)]
    data = bytearray(framed(rows))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data)) if data else 0
        if damage == "flip" and data:
            data[at] ^= 1 << chance.randrange(8)
        elif damage == "cut":
            del data[at:]
        elif damage == "drop":
            del data[at : at + chance.randint(1, 40)]
        else:
            data[at:at] = chance.choice([chance.randbytes(20), data[at : at + 30]])
    path = tmp_path_factory.getbasetemp() / "damaged.tfrecord"
    path.write_bytes(data)
    for on_error in ("skip", "raise"):
        ds = hr.TFRecordDataset(path, buffer_size=chunk, index=False, on_error=on_error)
        want = reference_outcomes(ds)
        assert difference(outcomes(iter(ds)), want) is None
        check_transformation(ds.shuffle(3, seed=chance.randint(0, 9)), cuts=2, epochs=1)


def test_a_record_of_records_is_not_taken_for_a_next_one_by_its_length_alone(tmp_path):
    """Behind damage a length that is right belongs to a record only if its data are right too."""
    inner = framed([b"inner"])[:12]  # a right length, and nothing after it
    rows = [b"first", inner + bytes(300), b"last"]
    data = bytearray(framed(rows))
    data[len(rows[0]) + 16] ^= 1
    path = tmp_path / "nested"
    path.write_bytes(data)
    for chunk in (20, 64, 1 << 20):
        ds = hr.TFRecordDataset(path, buffer_size=chunk, on_error="skip")
        assert list(ds) == [b"first", b"last"]
        check_transformation(ds)


def test_random_draws_behind_damage_do_not_depend_on_chunks(tmp_path):
    chance = random.Random(0)
    rows = [chance.randbytes(200) for _ in range(50)]
    data = bytearray(framed(rows))
    data[10 * 216 + 2] ^= 1
    data[11 * 216 + 30] ^= 1
    path = tmp_path / "damaged"
    path.write_bytes(data)

    def drawn(chunk):
        ds = hr.TFRecordDataset(path, buffer_size=chunk, on_error="skip")
        return [int(n) for n in ds.random_map(lambda row, rng: rng.integers(1 << 40), seed=1)]

    assert drawn(100) == drawn(1000) == drawn(None)
