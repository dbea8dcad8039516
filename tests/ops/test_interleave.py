"""interleave: several datasets in turn."""

import gzip
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace import _native
from headrace.columns.lazy_block import Selection
from headrace.ops.interleave import InterleaveStream
from headrace.testing import check_transformation, our_threads

D = hr.Dataset


def numbers(rows):
    return [int(x) for x in rows]


def strands(i):
    return D.range(i * 10, i * 10 + i)


def test_interleave_takes_turns_and_refills_a_slot_when_it_is_next_visited(run):
    assert numbers(run(D.range(1, 5).interleave(strands, cycle_length=2, block_length=1))) == [
        10, 20, 21, 30, 31, 40, 32, 41, 42, 43,
    ]  # fmt: skip
    assert numbers(run(D.range(1, 5).interleave(strands, cycle_length=2, block_length=2))) == [
        10, 20, 21, 30, 31, 32, 40, 41, 42, 43,
    ]  # fmt: skip


@pytest.mark.parametrize("calls", [1, 2, hr.AUTOTUNE])
def test_parallel_interleave_has_the_sequential_order(calls):
    want = numbers(D.range(1, 7).interleave(strands, cycle_length=3, block_length=2))
    got = D.range(1, 7).interleave(strands, cycle_length=3, block_length=2, num_parallel_calls=calls)
    assert numbers(got) == want


def test_without_determinism_a_slow_strand_is_passed_over():
    gate = threading.Event()

    def strand(i):
        def hold(x):
            if i == 0:
                assert gate.wait(300)
            return x

        return D.range(i * 10, i * 10 + 3).map(hold)

    it = iter(D.range(2).interleave(strand, cycle_length=2, num_parallel_calls=2, deterministic=False))
    got = [int(next(it)) for _ in range(1)]
    gate.set()
    got += numbers(it)
    assert sorted(got) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("more", [{"cycle_length": 0}, {"block_length": 0}, {"cycle_length": -3}])
def test_bad_lengths_are_refused(more):
    with pytest.raises(ValueError, match="length"):
        D.range(3).interleave(strands, **more)


def test_interleave_of_infinitely_many_is_infinite():
    assert D.range(3).repeat().interleave(strands).cardinality() == hr.INFINITE_CARDINALITY


def test_whole_rounds_of_long_strands(run):
    ds = D.range(3).interleave(lambda i: D.range(i * 100, i * 100 + 50), cycle_length=3, block_length=4)
    (rows,) = run(ds.batch(150))
    want = np.arange(150).reshape(3, 50) % 50 + np.arange(3)[:, None] * 100
    assert rows[:144].reshape(12, 3, 4).swapaxes(0, 1).reshape(3, 48).tolist() == want[:, :48].tolist()


@pytest.fixture
def shards(tmp_path):
    names = []
    for i in range(9):
        names.append(str(tmp_path / f"{i}.tfrecord"))
        with hr.io.TFRecordWriter(names[-1]) as writer:
            for j in range(i % 4 + 2 if i != 4 else 9000):
                writer.write(b"%d %d" % (i, j) + b"x" * (i == 4) * 100)
    return names


def threads_of_a_pass(ds):
    with iter(ds) as it:
        seen = set()
        for number, _ in enumerate(it):
            if number < 100 or number % 100 == 0:  # to look collects garbage
                seen.update(our_threads())
    return {name for name in seen if "prefetch" in name or "pool" in name}


@pytest.mark.parametrize(
    "make",
    [
        lambda names: hr.TFRecordDataset(names, num_parallel_reads=4),
        lambda names: D.from_tensor_slices(names).interleave(hr.TFRecordDataset, cycle_length=4, num_parallel_calls=4),
    ],
    ids=["num_parallel_reads", "interleave"],
)
def test_small_files_are_read_without_a_thread_each(make, shards):
    small = [name for name in shards if "4.tfrecord" not in name]
    quiet = hr.Options(inject_prefetch=False)
    assert threads_of_a_pass(make(small).with_options(quiet)) == set()
    check_transformation(make(small), cuts=6)
    check_transformation(make([small[0], str(shards[0]) + ".none", *shards[1:]]), cuts=4, limit=60)


def packed(name):
    data = Path(name).read_bytes()
    Path(f"{name}.gz").write_bytes(gzip.compress(data))
    return f"{name}.gz"


@pytest.mark.parametrize("parallel", [2, 4])
def test_a_number_is_an_order_where_reading_takes_work_and_a_bound_where_rows_lie_at_hand(parallel, shards):
    quiet = hr.Options(inject_prefetch=False)
    large = [shards[4]] * 6

    def turns(names, compression=None):
        ds = D.from_tensor_slices(names).interleave(
            lambda name: hr.TFRecordDataset(name, compression), cycle_length=4, num_parallel_calls=parallel
        )
        return ds.with_options(quiet)

    with iter(turns(large)) as it:
        assert len(list(it)) == 54_000
        assert it.tuning()["chosen"].get("/interleave", 0) <= parallel
    assert list(turns([packed(name) for name in large[:2]], "GZIP")) == list(turns(large[:2]))
    check_transformation(turns(large[:2]), cuts=4, limit=60)


def lanes_of_records(tmp_path, count=4, rows=300):
    names = []
    for lane in range(count):
        names.append(tmp_path / f"lane-{lane}")
        names[-1].write_bytes(framed([b"%d %d" % (lane, row) + bytes(row % 50) for row in range(rows)]))
    return names


def of_records(names, **more):
    files = D.from_tensor_slices([str(name) for name in names])
    return files.interleave(hr.TFRecordDataset, len(names), 4, **more).batch(16)


@pytest.mark.parametrize("calls", [None, hr.AUTOTUNE])
def test_batches_of_records_that_are_read_in_turn_are_made_of_references(tmp_path, monkeypatch, calls):
    names, boxed = lanes_of_records(tmp_path), []
    original = Selection.boxed
    monkeypatch.setattr(Selection, "boxed", lambda rows: boxed.append(rows.rows) or original(rows))
    ds = of_records(names, num_parallel_calls=calls)
    batches = [row for batch in ds for row in batch]
    assert sum(boxed) == 1200
    assert batches == [row for batch in of_records(names, deterministic=False) for row in batch]
    assert sum(boxed) == 1200, "in any order, rows are made when their lane is read"
    check_transformation(ds, cuts=4)


def test_the_next_records_of_a_lane_are_found_in_the_background(tmp_path, monkeypatch):
    names = lanes_of_records(tmp_path, count=2, rows=20_000)
    original, ranges = _native.RecordScan, {str(name): [] for name in names}

    def scan(memory, start=0, stop=0, load=False):
        if load:
            ranges[memory.path].append((start, stop))
        return original(memory, start, stop, load)

    monkeypatch.setattr(_native, "RecordScan", scan)
    files = D.from_tensor_slices(list(ranges))
    ds = files.interleave(lambda name: hr.TFRecordDataset(name, buffer_size=64 << 10), 2, 4).batch(16)
    assert sum(len(batch) for batch in ds) == 40_000
    for name, found in ranges.items():
        starts, stops = zip(*found, strict=True)
        assert all(start < stop + 4096 for start, stop in zip(starts[1:], stops, strict=False)), "but for a few records"
        assert stops[-1] == Path(name).stat().st_size
        assert all(stop <= max(2 * start, start + (64 << 10)) for start, stop in found), "no more than was read"


@pytest.mark.parametrize("byte", [12, -3])
def test_a_corrupt_record_of_one_lane_is_an_error_in_its_place(tmp_path, byte):
    names = lanes_of_records(tmp_path)
    data = bytearray(names[1].read_bytes())
    at = len(framed([b"1 %d" % row + bytes(row % 50) for row in range(200)]))
    data[at + byte] ^= 1  # of record 200, and of the one before
    names[1].write_bytes(data)
    check_transformation(of_records(names), cuts=6)
    check_transformation(of_records(names).ignore_errors(), cuts=3)


def test_a_file_that_changes_while_its_lane_is_read_gives_no_wrong_rows(tmp_path):
    names = lanes_of_records(tmp_path, rows=3000)
    with iter(of_records(names).with_options(hr.Options(inject_prefetch=False))) as it:
        next(it)
        data = bytearray(names[2].read_bytes())
        data[-10] ^= 1
        names[2].write_bytes(data)
        with pytest.raises((hr.StateError, hr.ElementError), match=r"changed|checksum"):
            list(it)


def turn_by_turn(rows, ended, cycle, block, over, most):
    """What `take_turns` finds, one row at a time: (lane, row) pairs."""
    slots, waiting, taken, used, turn = [None] * cycle, list(range(len(rows))), [], [0] * len(rows), 0
    idle = 0
    while idle <= cycle:
        if slots[turn] is None:
            if not waiting and not over:
                return taken
            slots[turn] = waiting.pop(0) if waiting else None
        lane = slots[turn]
        idle = idle + 1 if lane is None else 0
        for _ in range(block if lane is not None else 0):
            if len(taken) == most:
                return taken
            if used[lane] == rows[lane]:
                if not ended[lane]:
                    return taken
                slots[turn] = None
                break
            taken.append((lane, used[lane]))
            used[lane] += 1
        turn = (turn + 1) % cycle
    return taken


@pytest.mark.parametrize("seed", range(40))
def test_turns_are_planned_as_they_are_taken(seed):
    rng = np.random.default_rng(seed)
    lanes, cycle, block = (int(n) for n in rng.integers(1, 8, 3))
    rows = rng.integers(0, 9, lanes)
    ended = (rng.random(lanes) < (1.0 if seed % 2 else 0.7)).astype(np.uint8)
    over, most = bool(rng.random() < 0.7), int(rng.integers(1, 50))
    order, _, used, *_ = _native.take_turns([-1] * cycle, rows, ended, over, (0, 0), block, most)
    lane_of = np.repeat(np.arange(lanes), used)
    row_of = np.concatenate([np.arange(count) for count in used])
    got = list(zip(lane_of[order].tolist(), row_of[order].tolist(), strict=True))
    assert got == turn_by_turn(rows, ended, cycle, block, over, most)


def test_many_turns_of_many_short_strands_are_one_block(monkeypatch):
    merges = []
    merged = InterleaveStream._merged

    def noted(self, lanes, plan):
        merges.append(len(plan[0]))
        return merged(self, lanes, plan)

    monkeypatch.setattr(InterleaveStream, "_merged", noted)
    ds = D.range(200).interleave(lambda i: hr.Dataset.range(i, i + 2), cycle_length=7).batch(100)
    assert sum(len(batch) for batch in ds) == 400
    assert 0 < len(merges) <= 8
    check_transformation(ds, cuts=6)


@pytest.mark.parametrize("bad", [{"slots": []}, {"start": (2, 0)}, {"start": (0, 3)}, {"slots": [1, 0]}, {"block": 0}])
def test_turns_that_cannot_be_are_refused(bad):
    good = {"slots": [0, 1], "ready": np.array([2, 2]), "ended": np.ones(2, np.uint8), "over": True}
    good |= {"start": (0, 0), "block": 3, "most": 9}
    with pytest.raises(ValueError, match=r"slot|turn|lane"):
        _native.take_turns(**good | bad)


def test_a_cycle_that_no_memory_holds_is_refused_by_name():
    with pytest.raises(ValueError, match=r"cycle_length must be at most .*, not 4611686018427387904"):
        D.range(3).interleave(lambda x: D.range(2), cycle_length=2**62)
