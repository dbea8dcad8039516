"""it.stats(): what each stage has done."""

from dataclasses import replace

import numpy as np
import pytest

import headrace as hr
from headrace.columns.block import scalar_block
from headrace.execute.budget import MemoryBudget
from headrace.execute.stages.channel import Channel, Limits, Ticket
from headrace.execute.stats import Counters, Stage
from headrace.plan.marks import NOWHERE

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


def test_bytes_of_many_blocks_are_told_from_some_of_them():
    it = D.range(1000).iterator()
    it._settings = replace(it._settings, block_rows=3)
    list(it)
    line = stages(it)["range"]
    assert line["blocks"] > 300 and line["bytes"] == 8000


def test_bytes_of_streams_are_added():
    total = Counters()
    for rows, nbytes in ((10, 80), (5, 100)):
        one = Counters()
        one.rows = one.blocks = rows
        one.measure(2, 2 * nbytes // rows)
        total.add(one)
    assert (total.rows, total.nbytes) == (15, 180)


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


def test_a_stage_says_how_long_it_waited_for_threads_before_it(clock):
    it = iter(D.range(1).map(lambda x: clock.advance(0.1) or x, mode="eager").prefetch(1).batch(1))
    list(it)
    found = stages(it)
    assert found["batch"]["input_s"] == pytest.approx(0.1)
    assert found["map"]["input_s"] == 0


@pytest.mark.parametrize("reason", ["room_s", "memory_s"])
def test_workers_that_wait_are_counted_by_reason(clock, monkeypatch, reason):
    tickets = 1 if reason == "room_s" else 9
    channel = Channel(Limits(tickets), MemoryBudget(1000))
    channel.put(channel.issue(Ticket(NOWHERE, 1), NOWHERE), [scalar_block(np.zeros(100))])
    channel._memory.take(500)
    stage = Stage("map")
    stage.add_queue(channel)
    assert next(stage.report())["ready"] == 1

    def wait():  # the consumer takes the ticket meanwhile
        clock.advance(0.25)
        channel.get()

    monkeypatch.setattr(channel._space, "wait", wait)
    assert channel.room(1) == 1
    line = next(stage.report())
    assert {name: line[name] for name in ("room_s", "memory_s") if line[name]} == {reason: pytest.approx(0.25)}
    assert (line["ready"], line["room"]) == (0, tickets)
    stage.remove_queue(channel)
    line = next(stage.report())
    assert line[reason] == pytest.approx(0.25) and line["room"] == 0


def test_queues_of_streams_that_have_ended_do_not_count():
    it = iter(D.range(50).flat_map(lambda n: D.range(3).prefetch(2)))
    for _ in range(140):
        next(it)
    rooms = [line["room"] for line in it.stats()["stages"] if line["operation"] == "prefetch"]
    assert rooms and rooms[0] < 20
    it.close()


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
