"""Compressed files in scans: inflated by one thread at a time, parsed by many, with the rows of a serial pass."""

import gzip
import json
import random
import threading
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.formats.shared import strand
from headrace.formats.shared.unpack import Inflated
from headrace.iterator import Epochs, Iterator, Settings
from headrace.testing import check_transformation, our_threads, outcomes
from tests.cutting import COMPRESS
from tests.framing import framed

SERIAL, TINY = Settings(optimise=False), Settings(tiny_cuts=True)
ROWS = 200


def passing(ds, settings=TINY, state=None):
    return Iterator(ds._node, Epochs(), settings, state)


def csv_rows(bad=()):
    chance = random.Random(1)
    lines = [b'%d,"%x"' % (i, chance.getrandbits(64)) for i in range(ROWS)]
    for i in bad:
        lines[i] = b"bad"
    return b"\n".join(lines)


def truncated(packed):
    return packed[: len(packed) * 2 // 3]


def with_wrong_checksum(packed):
    return packed[:-8] + bytes(4) + packed[-4:]


def with_garbage(packed):
    return packed[: len(packed) // 2] + b"\xff" * 50 + packed[len(packed) // 2 :]


DAMAGE = [bytes, truncated, with_wrong_checksum, with_garbage]


def damaged(tmp_path, data, codec, damage):
    """Three files, the second of them damaged."""
    packed = COMPRESS[codec](data)
    names = [str(tmp_path / f"{i}.{codec}") for i in range(3)]
    for name, content in zip(names, [packed, damage(packed), packed], strict=True):
        Path(name).write_bytes(content)
    return names


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("policy", ["raise", "skip", "quarantine"])
def test_damage_is_met_in_its_place(tmp_path, damage, codec, policy):
    names = damaged(tmp_path, csv_rows(bad=[3, 100, ROWS - 1]), codec, damage)
    found = []
    for settings in (SERIAL, TINY):
        folder = tmp_path / f"quarantine {settings.tiny_cuts}"
        on_error = hr.Quarantine(folder, max_fraction=0.5) if policy == "quarantine" else policy
        ds = hr.CsvDataset(names, [np.int64, str], compression_type=codec, on_error=on_error)
        rows = outcomes(passing(ds, settings))
        kept = (folder / "manifest.jsonl").read_text() if policy == "quarantine" else ""
        counts = (on_error.count, on_error.read) if policy == "quarantine" else None
        found.append((str(rows), kept, counts))
    assert found[0] == found[1]


@pytest.mark.parametrize("damage", [truncated, with_garbage])
@pytest.mark.parametrize("codec", ["GZIP", "ZSTD"])
def test_states_around_damage_restore_in_serial_and_in_parallel(tmp_path, damage, codec):
    ds = hr.CsvDataset(damaged(tmp_path, csv_rows(), codec, damage), [np.int64, str], compression_type=codec)
    whole = outcomes(passing(ds, SERIAL))
    assert any(kind == "error" for kind, _ in whole)
    for first, second in [(SERIAL, TINY), (TINY, SERIAL), (TINY, TINY)]:
        with passing(ds, first) as it:
            for taken in range(29, len(whole), 29):
                outcomes(it, 29)
                rest = outcomes(passing(ds, second, json.loads(json.dumps(it.state()))))
                assert str(rest) == str(whole[taken:])


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_record_that_cannot_be_found_ends_the_cuts_and_not_the_file(tmp_path, policy):
    data = bytearray(framed([b"record %d" % i for i in range(ROWS)]))
    data[len(data) // 2 // 25 * 25 + 3] ^= 255
    names = damaged(tmp_path, bytes(data), "GZIP", bytes)
    ds = hr.TFRecordDataset(names, "GZIP", on_error=policy)
    whole = outcomes(passing(ds, SERIAL))
    assert str(outcomes(passing(ds))) == str(whole)
    if policy == "raise":
        check_transformation(ds, cuts=6)


def test_a_file_without_line_ends_is_one_row(tmp_path):
    path = tmp_path / "line.gz"
    path.write_bytes(gzip.compress(b"x" * 5000 + b"\n" + b"y" * 5000))
    ds = hr.TextLineDataset([str(path)] * 2, "GZIP")
    assert list(passing(ds)) == ["x" * 5000, "y" * 5000] * 2
    check_transformation(ds, cuts=4)


def test_files_of_several_members_are_one(tmp_path):
    path = tmp_path / "members.gz"
    path.write_bytes(b"".join(gzip.compress(b"line %d\nand " % i) + bytes(i) for i in range(30)))
    ds = hr.TextLineDataset(str(path), "GZIP")
    assert list(passing(ds)) == list(passing(ds, SERIAL))


def test_many_small_files_are_inflated_by_the_workers(tmp_path, monkeypatch):
    for i in range(20):
        (tmp_path / f"{i:02}.gz").write_bytes(gzip.compress(b"line %d\n" % i))
    opened = []
    monkeypatch.setattr("headrace.physical.file_cuts.strand_pieces", lambda *_: opened.append(1))
    ds = hr.TextLineDataset(sorted(map(str, tmp_path.glob("*.gz"))), "GZIP")
    assert list(passing(ds)) == [f"line {i}" for i in range(20)]
    assert opened == []


def test_no_more_is_inflated_than_the_window_takes(tmp_path, monkeypatch):
    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(b"a line of text\n" * 200_000))
    inflated = []
    plain = Inflated.read_into
    monkeypatch.setattr(Inflated, "read_into", lambda self, out: inflated.append(n := plain(self, out)) or n)
    ds = hr.TextLineDataset([str(path)] * 2, "GZIP", buffer_size=1000)
    with passing(ds) as it:
        for _ in range(20):
            next(it)
    assert sum(inflated) < 100_000
    assert our_threads() == []


def test_pieces_free_their_bytes_when_they_were_read(tmp_path, monkeypatch):
    rows = 1_500_000
    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(b"a line of text\n" * rows, 1))
    lock = threading.Lock()
    alive = peak = 0

    def add(nbytes):
        nonlocal alive, peak
        with lock:
            alive += nbytes
            peak = max(peak, alive)

    class Counted(strand.HeldBytes):
        def __init__(self, data, *args, **named):
            super().__init__(data, *args, **named)
            add(len(data))

        def release(self):
            add(0 if self._data is None else -self.nbytes)
            super().release()

    monkeypatch.setattr(strand, "HeldBytes", Counted)
    ds = hr.TextLineDataset(str(path), "GZIP").batch(1000).with_options(hr.Options(cpu_budget=4, ram_budget=16 << 20))
    assert sum(len(batch) for batch in ds) == rows
    assert alive == 0
    assert 0 < peak <= 9 << 20  # a quarter of the budget, and a cut


def test_a_compressed_file_that_is_replaced_is_read_as_it_was(tmp_path):
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d\n" % i for i in range(ROWS))))
    ds = hr.TextLineDataset([str(path)], "GZIP")
    with passing(ds, Settings(tiny_cuts=True, block_rows=1)) as it:
        taken = [next(it)]
        path.rename(f"{path}.old")
        path.write_bytes(b"")
        assert taken + list(it) == [f"line {i}" for i in range(ROWS)]
