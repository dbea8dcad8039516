"""it.stats(): what each stage has done."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def stages(it):
    return {line["stage"].partition("(")[0]: line for line in it.stats()["stages"]}


def test_rows_blocks_and_bytes_of_each_stage():
    it = iter(D.range(100).map(lambda x: x, mode="eager").batch(10))
    assert it.stats()["stages"] == []
    list(it)
    found = stages(it)
    assert [found[s]["rows"] for s in ("range", "map", "batch")] == [100, 100, 10]
    assert found["batch"]["bytes"] == 800
    assert found["batch"]["blocks"] == 10


def test_time_is_charged_to_the_stage_that_spends_it(clock):
    it = iter(D.range(5).map(lambda x: clock.advance(0.1) or x, mode="eager").batch(5))
    list(it)
    found = stages(it)
    assert found["map"]["busy_s"] == pytest.approx(0.5)
    assert found["batch"]["busy_s"] == 0
    assert found["map"]["waiting_s"] == 0


def test_waiting_is_charged_to_the_stage_that_was_waited_for(clock):
    it = iter(D.range(1).map(lambda x: clock.advance(0.1) or x, mode="eager").prefetch(1))
    list(it)
    found = stages(it)
    assert found["prefetch"]["waiting_s"] == pytest.approx(0.1)


def test_children_of_a_flat_map_are_one_stage():
    it = iter(D.range(10).flat_map(lambda n: D.range(n).map(lambda x: x)))
    list(it)
    lines = it.stats()["stages"]
    assert [line["stage"].partition("(")[0] for line in lines] == ["range", "range", "map", "flat_map", "prefetch"]
    assert lines[-1]["rows"] == 45


def test_the_consumers_waiting_is_told_apart_from_its_own_work(clock):
    it = iter(D.range(5).map(lambda x: clock.advance(0.01) or x, mode="eager"))
    for _ in it:
        clock.advance(0.02)
    found = it.stats()["starvation"]
    assert found["waited_s"] == pytest.approx(0.04)
    assert found["computed_s"] == pytest.approx(0.1)
    assert found["first_s"] == pytest.approx(0.01)
    assert found["share"] == pytest.approx(found["waited_s"] / (found["waited_s"] + found["computed_s"]))
    assert "the consumer waited 0." in str(it.stats())


def test_the_memory_of_large_batches_is_counted():
    it = iter(D.range(40).map(lambda x: np.full(1 << 20, x, np.uint8), mode="eager").batch(8))
    kept = next(it)
    memory = it.stats()["memory"]
    assert memory["in_use"] >= kept.nbytes
    del kept
    for batch in it:
        del batch
    assert it.stats()["memory"]["reused"] > memory["reused"]


def test_they_print_as_a_table():
    it = iter(D.range(3))
    list(it)
    assert "range(start=0, stop=3)" in str(it.stats())


def test_the_remedy_is_that_of_the_operation_or_of_the_reader_of_a_file(tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    lines = hr.TextLineDataset(tmp_path / "a.txt")
    it = iter(lines.map(str.upper, num_parallel_calls=2).map(len))
    list(it)
    remedies = {line["stage"]: line["remedy"] for line in it.stats()["stages"]}
    readers = [said for stage, said in remedies.items() if stage.startswith("TextLineDataset(")]
    assert readers == ["give it num_parallel_reads=hr.AUTOTUNE"] * 2
    assert remedies["map(upper, num_parallel_calls=2)"].startswith('mode="process"')
    assert remedies["map(len)"].startswith("give it num_parallel_calls=hr.AUTOTUNE, mode=")
