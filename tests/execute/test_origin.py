"""The error of a user's function names the record of the file that its row was made of."""

import pickle
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.framing import framed

import headrace as hr
from headrace.execute import origin, registry
from headrace.iterator import Settings

D = hr.Dataset
BAD = 7


def parse(record):
    """Fails on record 7 of each file."""
    number = int(record)
    if number % 100 == BAD:
        raise ValueError(f"no {number}")
    return number


@pytest.fixture
def files(tmp_path):
    """Two files; record i of file n holds the text n0i."""
    names = []
    for n in (1, 2):
        names.append(str(tmp_path / f"records-{n}"))
        with open(names[-1], "wb") as file:  # noqa: PTH123
            file.write(framed([b"%d%02d" % (n, i) for i in range(20)]))
    return names


def failures(ds, settings=Settings()):  # noqa: B008
    """For each error of `parse` what was wrong with it and where it came from."""
    found = []
    with ds._iterator(settings) as it:
        while True:
            try:
                next(it)
            except StopIteration:
                return sorted(found)
            except hr.ElementError as error:
                found.append((str(error.__cause__), error.provenance))
                shown = str(error).splitlines()
                assert [line for line in shown if line == f"  record: {error.provenance}"] or error.provenance is None


def want(files):
    return [(f"no {n}0{BAD}", f"{name}, record {BAD}") for n, name in enumerate(files, 1)]


PIPELINES = {
    "in order": lambda files: hr.TFRecordDataset(files, index=False).map(parse),
    "by number": lambda files: hr.TFRecordDataset(files, index=True).map(parse),
    "in turn": lambda files: hr.TFRecordDataset(files, num_parallel_reads=2).map(parse),
    "interleaved": lambda files: D.from_tensor_slices(files).interleave(hr.TFRecordDataset).map(parse),
    "flat": lambda files: D.from_tensor_slices(files).flat_map(lambda f: hr.TFRecordDataset(f).skip(2)).map(parse),
    "inside": lambda files: D.from_tensor_slices(files).interleave(lambda f: hr.TFRecordDataset(f).map(parse)),
    "a listing": lambda files: hr.TFRecordDataset(D.list_files(files)).map(parse),
    "shuffled": lambda files: hr.TFRecordDataset(files, index=False).shuffle(9, seed=1).map(parse),
    "shuffled by number": lambda files: hr.TFRecordDataset(files, index=True).shuffle(seed=1).map(parse),
    "permuted after": lambda files: hr.TFRecordDataset(files, index=True).map(parse).shuffle(seed=1),
    "after other functions": lambda files: (
        hr.TFRecordDataset(files).map(lambda r: r.decode()).map(lambda t: (t,)).map(parse)
    ),
    "numbered": lambda files: hr.TFRecordDataset(files).enumerate().map(lambda i, record: parse(record)),
    "of a share": lambda files: (
        hr.TFRecordDataset(files).shard(2, 0).map(parse).concatenate(hr.TFRecordDataset(files).shard(2, 1).map(parse))
    ),
    "later": lambda files: hr.TFRecordDataset(files).skip(3).take(30).prefetch(2).map(parse),
    "on threads": lambda files: hr.TFRecordDataset(files, index=False).map(parse, num_parallel_calls=3),
    "in processes": lambda files: hr.TFRecordDataset(files).map(parse, num_parallel_calls=1, mode="process"),
    "filtered": lambda files: hr.TFRecordDataset(files, index=False).filter(lambda r: parse(r) >= 0),
    "drawn": lambda files: hr.TFRecordDataset(files).random_map(lambda r, rng: parse(r) + rng.integers(3), seed=1),
    "taken while": lambda files: hr.TFRecordDataset(files).take_while(lambda r: parse(r) >= 0),
    "in batches": lambda files: hr.TFRecordDataset(files, index=False).map(parse).batch(5),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("settings", [Settings(), Settings(block_rows=1), Settings(optimise=False, block_rows=6)])
def test_it_is_found_whatever_is_between(files, name, settings):
    assert failures(PIPELINES[name](files), settings) == want(files)


def test_it_is_found_in_every_epoch_and_after_a_restore(files):
    ds = hr.TFRecordDataset(files, index=False).shuffle(9).repeat(3).map(parse)
    assert failures(ds) == sorted(3 * want(files))
    it = iter(ds)
    seen, rest = 0, []
    for wanted in (20, 1000):
        while seen < wanted:
            try:
                next(it)
            except StopIteration:
                break
            except hr.ElementError as error:
                rest.append((str(error.__cause__), error.provenance))
            seen += 1
        it = ds.iterator(state=it.state())
    assert sorted(rest) == sorted(3 * want(files))


def test_an_element_by_number(files):
    ds = hr.TFRecordDataset(files, index=True).map(parse)
    for number, (_, where) in zip((BAD, 20 + BAD), want(files), strict=True):
        with pytest.raises(hr.ElementError) as raised:
            ds[number]
        assert raised.value.provenance == where
        assert where in str(pickle.loads(pickle.dumps(raised.value)))


def test_rows_of_other_files(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(20)))
    pq.write_table(pa.table({"x": np.arange(20)}), tmp_path / "t.parquet", row_group_size=6)
    for ds in (D.from_csv(tmp_path / "t.csv"), hr.ParquetDataset(tmp_path / "t.parquet")):
        (found,) = failures(ds.map(lambda row: parse(row["x"])))
        assert found[1].endswith(f", record {BAD}")
        assert str(tmp_path) in found[1]


def test_rows_of_no_file(files):
    (found,) = failures(D.range(20).map(parse))
    assert found == (f"no {BAD}", None)
    made = hr.TFRecordDataset(files).batch(2).map(lambda rows: [parse(r) for r in rows])
    assert [where for _, where in failures(made)] == [None, None]


def test_no_function_is_called_again(files):
    calls = []

    def seen(record):
        calls.append(record)
        return record

    ds = hr.TFRecordDataset(files).map(seen).shuffle(4, seed=1).map(parse)
    assert failures(ds) == [(what, None) for what, _ in want(files)]
    assert len(calls) == 40
    inner = D.from_tensor_slices(files).flat_map(lambda f: hr.TFRecordDataset(f).map(seen)).map(parse)
    calls.clear()
    assert failures(inner) == [(what, None) for what, _ in want(files)]
    assert len(calls) == 40


def test_errors_that_are_not_shown_are_not_looked_into(files, monkeypatch):
    monkeypatch.setattr(origin.Origin, "find", None)
    assert len(list(hr.TFRecordDataset(files).map(parse).ignore_errors())) == 38


def test_not_much_time_is_spent_on_it(files, monkeypatch):
    monkeypatch.setattr(origin, "MAX_SECONDS_PER_ROW", 0.05)
    slow = hr.TFRecordDataset(files, index=False).shuffle(10, seed=1)
    original = registry.opening(type(slow._node))

    def waiting(node, ctx, at):
        while ctx.run.origins is not None and not ctx.run.cancelled:
            time.sleep(0.001)
        return original.open(node, ctx, at)

    monkeypatch.setitem(registry._openings, type(slow._node), original._replace(open=waiting))
    assert failures(slow.map(parse)) == [(what, None) for what, _ in want(files)]


def test_nor_on_many_of_them(files, monkeypatch):
    monkeypatch.setattr(origin, "MAX_SECONDS_PER_PASS", 1e-9)
    found = failures(hr.TFRecordDataset(files, index=False).map(parse))
    assert [where is None for _, where in found] == [False, True]


def test_a_file_that_is_gone_leaves_the_error_as_it_was(files, monkeypatch):
    it = iter(hr.TFRecordDataset(files, index=False).map(parse))
    for _ in range(BAD):
        next(it)

    def find(self):
        raise AssertionError

    monkeypatch.setattr(origin.Origin, "_found", find)
    with pytest.raises(hr.ElementError, match=f"no 10{BAD}") as raised:
        next(it)
    assert raised.value.provenance is None


def test_an_interrupt_before_the_record_is_read_again_leaves_no_pass_open(files, monkeypatch):
    class Interrupted(threading.Timer):
        def start(self):
            started.append(self)  # as the interpreter keeps threads that are being started
            raise KeyboardInterrupt

    started = []
    monkeypatch.setattr(threading, "Timer", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        with pytest.raises(hr.ElementError):
            list(PIPELINES["in order"](files))
        time.sleep(60)  # until the interrupt, which comes after the error was looked at
    assert [timer.function.__self__.cancelled for timer in started] == [True]
