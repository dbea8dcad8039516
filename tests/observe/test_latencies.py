"""With `it.record(calls=True)`: how long calls took, the records of the slowest, and the parts of the first wait."""

import json

import pytest

import headrace as hr
from headrace.execute.latencies import Latencies

D = hr.Dataset


def two_files(folder):
    for k in range(2):
        with hr.io.TFRecordWriter(folder / f"{k}.tfrecord") as writer:
            for i in range(40):
                writer.write(b"%d" % i)
    return [str(folder / f"{k}.tfrecord") for k in range(2)]


PIPELINES = {
    "last": lambda ds, fn: ds.map(fn),
    "batched": lambda ds, fn: ds.map(fn).batch(4),
    "on a thread": lambda ds, fn: ds.map(fn, num_parallel_calls=1).batch(4),
    "on a thread, one by one": lambda ds, fn: ds.map(fn, num_parallel_calls=1),
    "shuffled": lambda ds, fn: ds.shuffle(9, seed=1).map(fn, mode="eager").batch(4),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_report_names_the_slowest_records_by_file_and_number(tmp_path, clock, monkeypatch, name):
    monkeypatch.setattr("headrace.execute.origin.MAX_SECONDS_PER_ROW", 600.0)  # the machine may be busy
    monkeypatch.setattr("headrace.execute.origin.MAX_SECONDS_PER_PASS", 600.0)
    files = two_files(tmp_path)

    def fn(record):
        clock.advance(0.5 if int(record) == 23 else 0.001)
        return len(record)

    it = iter(PIPELINES[name](hr.TFRecordDataset(files), fn))
    it.record(3600.0, calls=True)
    list(it)
    it.report(tmp_path / "run.json")
    slowest = json.loads((tmp_path / "run.json").read_text())["slowest"]
    assert [(call["record"], call["rows"]) for call in sorted(slowest[:2], key=lambda call: call["record"])] == [
        (f"{file}, record 23", 1) for file in files
    ]
    assert [call["seconds"] for call in slowest[:2]] == [pytest.approx(0.5)] * 2 and len(slowest) == 10
    assert all(call["stage"].startswith("map(fn") for call in slowest[:2])
    latency = next(line for line in it.stats()["stages"] if line["operation"] == "map")["latency"]
    assert latency["calls"] >= 80 and latency["max_s"] == pytest.approx(0.5)
    assert 0.001 <= latency["p50_s"] <= latency["p95_s"] < 0.0013
    it.close()


def test_elements_are_the_same_while_they_are_observed(tmp_path):
    def make():
        ds = hr.TFRecordDataset(two_files(tmp_path)).shuffle(9, seed=1).map(lambda r: 1 // (int(r) - 7))
        return ds.ignore_errors().batch(4).prefetch(2)

    it = iter(make())
    it.record(3600.0, calls=True)
    assert [batch.tolist() for batch in it] == [batch.tolist() for batch in make()]
    it.close()


def test_calls_are_not_timed_unless_asked_for():
    it = iter(D.range(9).map(lambda x: int(x)))
    it.record(3600.0)
    list(it)
    it.close()
    assert all("latency" not in line for line in it.stats()["stages"]) and it._slowest() == []


def test_quantiles_are_at_most_a_fifth_too_large():
    found = Latencies()
    for milliseconds in range(1, 1001):
        found.add(milliseconds * 1_000_000, 1, None)
    report = found.report()
    assert 0.5 <= report["p50_s"] <= 0.5 * 1.19 and 0.95 <= report["p95_s"] <= 1.0
    assert (report["calls"], report["max_s"]) == (1000, 1.0)
    assert [round(seconds * 1000) for seconds, _, _ in found.slowest()] == list(range(1000, 990, -1))


def test_the_first_wait_is_split_into_its_parts(clock):
    def rows():
        clock.advance(0.25)
        yield from range(20)

    ds = D.from_generator(rows, output_signature=hr.TensorSpec((), int)).shuffle(5, seed=1).batch(2)
    it = iter(ds)
    next(it)
    first = it.stats()["first"]
    assert set(first) == {"prepare_s", "open_s", "restore_s", "fill_s"}
    assert sum(first.values()) == pytest.approx(it.stats()["starvation"]["first_s"]) == pytest.approx(0.25)
    state = it.state()
    resumed = ds.iterator(state=state)
    next(resumed)
    assert resumed.stats()["first"]["open_s"] == 0
    assert hr.observe.scalars(resumed)["headrace/first/restore_s"] == resumed.stats()["first"]["restore_s"]
