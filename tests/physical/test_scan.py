"""Parallel scans: the rows, errors, states and effects of a serial pass, whatever is cut where."""

import gc
import json
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import ElementError, QuarantineError
from headrace.execute.pool import ScanPolicy, pool
from headrace.execute.run import Pass
from headrace.iterator import Epochs, Iterator, Settings
from headrace.physical.cuts import Cut, CutSize
from headrace.physical.lower import scans
from headrace.physical.row_cuts import RowsCut
from headrace.physical.scan import CutMorsel
from headrace.plan.prepared import Prepared
from headrace.testing import check_transformation, our_threads, outcomes
from tests.cutting import COMPRESS, tar
from tests.framing import framed

SERIAL, TINY = Settings(optimise=False), Settings(tiny_cuts=True)
ROWS = 40


def passing(ds, settings=TINY, state=None):
    return Iterator(ds._node, Epochs(), settings, state)


def plan_of(ds):
    it = passing(ds)
    it._open()
    plan = it._run.root._context.prepared.plan
    it.close()
    return plan


def tables(tmp_path, count=3):
    for i in range(count):
        number = np.arange(ROWS) + ROWS * i
        yield pa.table({"x": number, "s": [f"row {n}" for n in number]})


@pytest.fixture
def sources(tmp_path):
    """One dataset of several files for each format that can be cut."""

    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    lines = [write(f"{i}.txt", b"".join(b"line %d of %d\n" % (j, i) for j in range(ROWS))) for i in range(3)]
    rows = [write(f"{i}.csv", b"".join(b'%d,"a, %d"\n' % (j, i) for j in range(ROWS))) for i in range(3)]
    objects = [write(f"{i}.jsonl", b"".join(b'{"x": %d, "s": "a"}\n' % (j + i) for j in range(ROWS))) for i in range(3)]
    records = [write(f"{i}.tfrecord", framed([b"%d %d" % (i, j) for j in range(ROWS)])) for i in range(3)]
    fixed = [write(f"{i}.bin", bytes(range(ROWS)) * 4) for i in range(3)]
    tars = [write(f"{i}.tar", tar([(f"{i} {j:03}.x", b"%d" % j) for j in range(ROWS)])) for i in range(3)]

    def packed(codec, names):
        return [write(f"{Path(n).name}.{codec}", COMPRESS[codec](Path(n).read_bytes())) for n in names]

    for i, table in enumerate(tables(tmp_path)):
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=7)
        feather.write_feather(table, tmp_path / f"{i}.arrow", chunksize=7, compression="uncompressed")
    return {
        "lines": hr.TextLineDataset(lines),
        "csv": hr.CsvDataset(rows, [np.int64, str]),
        "jsonl": hr.JsonLinesDataset(objects),
        "tfrecord": hr.TFRecordDataset(records),
        "fixed": hr.FixedLengthRecordDataset(fixed, 4),
        "parquet": hr.ParquetDataset(str(tmp_path / "*.parquet")),
        "arrow": hr.ArrowDataset(str(tmp_path / "*.arrow")),
        "memory": hr.Dataset.from_tensor_slices(np.arange(3 * ROWS)).map(lambda x: x + 1),
        "lines-gzip": hr.TextLineDataset(packed("GZIP", lines), "GZIP"),
        "csv-gzip": hr.CsvDataset(packed("GZIP", rows), [np.int64, str], compression_type="GZIP"),
        "jsonl-zstd": hr.JsonLinesDataset(packed("ZSTD", objects), compression_type="ZSTD"),
        "tfrecord-zlib": hr.TFRecordDataset(packed("ZLIB", records), "ZLIB"),
        "tar-gzip": hr.WebDataset(packed("GZIP", tars), ["x"], compression_type="GZIP", decode=False),
        "fixed-gzip": hr.FixedLengthRecordDataset(packed("GZIP", fixed), 4, compression_type="GZIP"),
    }


COMPRESSED = ["lines-gzip", "csv-gzip", "jsonl-zstd", "tfrecord-zlib", "tar-gzip", "fixed-gzip"]
KINDS = ["lines", "csv", "jsonl", "tfrecord", "fixed", "parquet", "arrow", "memory", *COMPRESSED]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_keeps_every_promise_on_tiny_cuts(sources, kind):
    ds = sources[kind]
    assert len(scans(plan_of(ds))) == 1
    check_transformation(ds, cuts=5)


@pytest.mark.parametrize("kind", KINDS)
def test_traced_operations_run_inside_the_cuts(sources, kind):
    mapped = sources[kind].map(lambda *row: row[0]).random_map(lambda x, rng: (x, rng.integers(0, 1000)), seed=3)
    (scan,) = scans(plan_of(mapped))
    assert scan.input.operation == "random_map"
    check_transformation(mapped, cuts=5)


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_serial_and_parallel_passes_are_exchanged(sources, kind):
    ds = sources[kind].batch(7)
    whole = outcomes(passing(ds, SERIAL))
    for first, second in [(SERIAL, TINY), (TINY, SERIAL), (TINY, TINY)]:
        it = passing(ds, first)
        taken = outcomes(it, 5)
        state = json.loads(json.dumps(it.state()))
        it.close()
        rest = outcomes(passing(ds, second, state))
        assert str(taken + rest) == str(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_many_threads_give_the_same_rows(sources, kind):
    ds = sources[kind].batch(5)
    many = ds.with_options(hr.Options(cpu_budget=16))
    assert str(outcomes(passing(many))) == str(outcomes(passing(ds, SERIAL)))
    assert our_threads() == []


def test_a_filter_in_a_cut_counts_as_it_does_in_order(sources):
    ds = sources["parquet"].map(lambda row: row["x"]).filter(lambda x: x % 3 == 0).map(lambda x: x * 2)
    assert len(scans(plan_of(ds))) == 1
    check_transformation(ds, cuts=10)


def test_an_eager_function_is_called_in_the_order_of_its_rows(sources):
    seen = []
    ds = sources["lines"].map(lambda line: (seen.append(line), line)[1])
    with passing(ds) as it:
        rows = [next(it) for _ in range(50)]
        assert seen == rows
    assert len(scans(plan_of(ds))) == 1


@pytest.mark.parametrize("policy", ["raise", "skip", "quarantine"])
def test_bad_records_are_met_in_their_places(tmp_path, policy):
    names = []
    for i in range(3):
        lines = [b"%d,%d" % (i, j) for j in range(ROWS)]
        lines[i * 7 + 3] = b"bad"
        lines[-1] = b"worse,1,2"
        path = tmp_path / f"{i}.csv"
        path.write_bytes(b"\n".join(lines))
        names.append(str(path))
    found = []
    for settings in (SERIAL, TINY):
        folder = tmp_path / f"quarantine {settings.tiny_cuts}"
        on_error = hr.Quarantine(folder, max_fraction=0.2) if policy == "quarantine" else policy
        ds = hr.CsvDataset(names, [np.int64, np.int64], on_error=on_error)
        rows = outcomes(passing(ds, settings))
        kept = (folder / "manifest.jsonl").read_text() if policy == "quarantine" else ""
        counts = (on_error.count, on_error.read) if policy == "quarantine" else None
        found.append((str(rows), kept, counts))
    assert found[0] == found[1]


def test_a_quarantine_that_is_full_stops_the_pass(tmp_path):
    names = [str(tmp_path / f"{i}.csv") for i in range(2)]
    for name in names:
        Path(name).write_bytes(b"1\n" * 50 + b"x\n" * 50)
    ds = hr.CsvDataset(names, [np.int64], on_error=hr.Quarantine(tmp_path / "q", max_fraction=0.1))
    with passing(ds) as it, pytest.raises(QuarantineError, match="more than max_fraction"):
        list(it)


def test_a_record_that_ends_its_file_voids_the_cuts_after_it(tmp_path):
    names = []
    for i in range(3):
        data = bytearray(framed([b"record %d of %d" % (j, i) for j in range(ROWS)]))
        data[len(data) // 2 // 30 * 30 + 5] ^= 255
        path = tmp_path / f"{i}.tfrecord"
        path.write_bytes(data)
        names.append(str(path))
    ds = hr.TFRecordDataset(names)
    whole = outcomes(passing(ds, SERIAL))
    assert any(kind == "error" for kind, _ in whole) and len(whole) < 3 * ROWS
    assert str(outcomes(passing(ds))) == str(whole)
    check_transformation(ds, cuts=10)


def test_a_missing_file_is_an_error_in_its_place(sources, tmp_path):
    names = [str(tmp_path / "0.txt"), str(tmp_path / "gone.txt"), str(tmp_path / "1.txt")]
    ds = hr.TextLineDataset(names)
    assert str(outcomes(passing(ds))) == str(outcomes(passing(ds, SERIAL)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes by name")
def test_a_pipe_is_not_opened_ahead(tmp_path):
    (tmp_path / "a").write_text("a\n" * 20)
    os.mkfifo(tmp_path / "b")
    ds = hr.TextLineDataset([str(tmp_path / name) for name in "ab"])
    with passing(ds) as it:
        assert [next(it) for _ in range(20)] == ["a"] * 20  # opening the pipe would wait for a writer


def test_a_file_that_is_removed_is_read_to_its_end(sources, tmp_path):
    with passing(sources["lines"]) as it:
        next(it), next(it)
        (tmp_path / "0.txt").unlink()
        rest = outcomes(it, ROWS - 2)
    assert [kind for kind, _ in rest] == ["value"] * (ROWS - 2)


def test_closing_in_the_middle_leaves_nothing(sources):
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir())) if open_files.is_dir() else 0
    for kind in KINDS:
        it = passing(sources[kind])
        next(it)
        it.close()
    assert our_threads() == []
    assert (len(list(open_files.iterdir())) if open_files.is_dir() else 0) == before


def test_a_short_pass_starts_no_thread(sources):
    before = threading.active_count()
    with iter(sources["parquet"].batch(4).take(2)) as it:
        next(it)
        assert threading.active_count() == before


def test_one_processor_runs_the_plan_as_written(sources):
    ds = sources["parquet"].with_options(hr.Options(cpu_budget=1))
    with iter(ds) as it:
        next(it)
        assert scans(it._run.root._context.prepared.plan) == []


def test_two_passes_at_once_share_the_pool(sources):
    a, b = passing(sources["csv"]), passing(sources["parquet"])
    pairs = list(zip(a, b, strict=True))
    assert [int(x[0]) for x, _ in pairs] == list(range(ROWS)) * 3
    assert [int(y["x"]) for _, y in pairs] == list(range(3 * ROWS))
    a.close()
    b.close()
    assert our_threads() == []


def test_files_that_are_read_in_turn_have_a_scan_each(sources, tmp_path):
    names = [str(tmp_path / f"{i}.tfrecord") for i in range(3)]
    ds = hr.TFRecordDataset(names, num_parallel_reads=2)
    check_transformation(ds, cuts=8)
    by_hand = hr.Dataset.from_tensor_slices(names).interleave(hr.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    assert list(passing(by_hand)) == list(passing(ds, SERIAL))


def test_an_error_names_the_record_that_its_row_was_made_of(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{n}\n" for n in range(50)) + "no number\n" + "1\n" * 50)
    (tmp_path / "more.txt").write_text("1\n")
    ds = hr.TextLineDataset([str(path), str(tmp_path / "more.txt")]).map(lambda line: int(line))
    with passing(ds) as it:
        found = [next(it) for _ in range(50)]
        with pytest.raises(ElementError, match=r"element 50: (.|\n)*numbers.txt, record 50"):
            next(it)
    assert found == list(range(50))


def test_an_interrupted_pass_goes_on_where_it_was(sources):
    ds = sources["parquet"].map(lambda row: row["x"] + 0)
    it = passing(ds)
    found = [next(it) for _ in range(10)]
    it._shut()
    assert found + list(it) == list(range(3 * ROWS))


def test_the_error_of_a_row_is_raised_and_the_next_rows_come(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"x": 1}\n' * 20 + ("{\n" if name == "a" else "") + '{"x": 2}\n' * 20)
    ds = hr.JsonLinesDataset(str(tmp_path / "*.jsonl"))
    with passing(ds) as it:
        first = [int(next(it)["x"]) for _ in range(20)]
        with pytest.raises(ElementError, match="record 20"):
            next(it)
        assert first + [int(row["x"]) for row in it] == ([1] * 20 + [2] * 20) * 2


def test_a_dropped_pass_is_closed_though_the_collector_runs_under_the_lock_of_the_pool(sources):
    it = passing(sources["parquet"].map(lambda row: row["x"] + 1))
    next(it), next(it)
    assert it._run.pooled
    cycle = [it]
    cycle.append(cycle)
    with pool().lock:
        del it, cycle
        gc.collect()
    assert our_threads() == []


@pytest.mark.parametrize("kind", ["lines", "csv", "jsonl", "tfrecord", "fixed", "parquet", "arrow"])
def test_a_file_that_is_replaced_when_the_scan_goes_parallel_is_read_as_it_was(sources, kind, tmp_path):
    """The serial scan hands its open file over: nothing of another file that has the name by then is read."""
    ds = sources[kind]
    whole = outcomes(passing(ds, SERIAL))
    with passing(ds, Settings(tiny_cuts=True, block_rows=1)) as it:
        taken = outcomes(it, 1)
        path = Path(ds._node.files.names[0])
        path.rename(f"{path}.old")
        path.write_bytes(b"")
        taken += outcomes(it, ROWS - 1)
    assert str(taken) == str(whole[:ROWS])


def test_a_cut_begins_with_blocks_as_large_as_those_of_the_cut_before():
    source = hr.Dataset.from_tensor_slices(np.arange(1000))._node
    ctx = Pass().context(Prepared.of(source))
    size, pace = CutSize(ScanPolicy(), {}, "scan"), ctx.run.pace()
    pace.grow_to(64)
    cut = Cut(RowsCut(source, 100, 900, stands_for=source), 6400)
    morsel = CutMorsel(ctx, cut.source, cut, size, pace)
    (block, *_), _, done = morsel.step()
    assert block.rows == 64
    while not done:
        _, _, done = morsel.step()
    morsel.close()


def test_files_in_turn_learn_the_size_of_their_cuts_together(tmp_path):
    files = [tmp_path / f"{i}.tfrecord" for i in range(4)]
    for file in files:
        file.write_bytes(framed([bytes(1000)] * 600))
    it = passing(hr.TFRecordDataset(files, num_parallel_reads=4))
    assert len([next(it) for _ in range(2000)]) == 2000
    assert sum(isinstance(each, CutSize) for each in it._run.shared.values()) == 1
    it.close()
