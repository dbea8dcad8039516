"""why_slow and headroom: the rules on measurements, and pipelines with a planted bottleneck."""

import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pytest

import headrace as hr
from headrace.adapters.feed import Feed, PlainTarget
from headrace.observe.functions import FunctionCost, Timed, with_timed_functions
from headrace.observe.judge import judge
from headrace.observe.measure_headroom import Headroom
from headrace.observe.verdict import WORDS, Measurement, StageCost
from headrace.observe.why import _stages

D = hr.Dataset
DOCS = Path(__file__).parents[2] / "docs/observe.md"


def function(wall=9.0, cpu=9.0, threads=1, calls=1000, slowest=()):
    return FunctionCost("map", "fn", "train.py:7", calls, wall, cpu, 0.0, threads, slowest)


def stage(label="source(x)", busy=9.0, waiting=0.0, **about):
    return StageCost(label, 100, 1000, busy, waiting, "have it do less", **about)


def measured(stages=(), functions=(), **about):
    given = {"steps": 100, "seconds": 10.0, "waited_seconds": 9.0, "first_seconds": 0.1, "free_seconds": 1.0}
    return Measurement(**{**given, "cpu_seconds": 1.0, "cpus": 4, "stages": stages, "functions": functions, **about})


SOURCE = stage(is_source=True)
RULES = {
    "shuffle fill": measured((SOURCE,), first_seconds=20.0, shuffles=("shuffle(buffer_size=9)",)),
    "consumer": measured((stage(busy=0.5),), free_seconds=9.5),
    "memory budget": measured((SOURCE,), memory_refusals=50),
    "no processor": measured((stage(busy=0.5),), delay_seconds=5.0),
    "slow records": measured((), (function(calls=1000, slowest=(1.0,) * 8),)),
    "GIL": measured((), (function(wall=36.0, cpu=8.0, threads=4),), gil_share=0.9),
    "CPU": measured((), (function(),)),
    "function waits": measured((), (function(cpu=0.1),)),
    "transfer": measured((stage("to_torch()", is_transfer=True),)),
    "few files": measured((stage(is_source=True, files=1, in_store=True),)),
    "store": measured((stage(is_source=True, files=9, in_store=True),)),
    "disk": measured((stage(is_source=True, files=9),)),
    "source waits": measured((SOURCE,)),
    "stage": measured((stage("batch(batch_size=8)"),)),
}


@pytest.mark.parametrize("limit", RULES)
def test_the_rules(limit):
    verdict = judge(RULES[limit])
    assert verdict.limit == limit
    assert verdict.bound == {"consumer": "consumer", "transfer": "transfer"}.get(limit, "input")
    assert verdict.remedies and all(remedy.gain >= 1 for remedy in verdict.remedies)
    assert verdict.sentence.startswith(f"{verdict.bound}-bound: data cost {verdict.share:.0%}")


def test_the_docs_have_every_rule():
    table = re.findall(r"^\| \d+ \| .* \| `([\w ]+)` \|$", DOCS.read_text(), re.MULTILINE)
    assert sorted(table) == sorted(RULES) == sorted(WORDS)


def test_a_trainer_that_waits_for_the_gil_is_input_bound():
    """It hardly waits for data: its steps take long because other threads hold the GIL."""
    starved = measured((), (function(wall=36.0, cpu=8.0, threads=4),), waited_seconds=0.001, gil_share=0.9)
    verdict = judge(starved)
    assert (verdict.bound, verdict.limit) == ("input", "GIL") and verdict.share == pytest.approx(0.9)
    assert 'mode="process"' in str(verdict) and "train.py:7" in verdict.sentence


def test_stages_that_wait_for_the_gil_are_not_blamed():
    """Each stage seems slow while threads of a function hold the GIL."""
    aug = function(wall=4.0, cpu=2.0, threads=2)
    verdict = judge(measured((stage("shuffle(buffer_size=9)", busy=5.0),), (aug,), gil_share=0.5, cpu_seconds=4.0))
    assert (verdict.limit, verdict.where, verdict.following) == ("GIL", "map(fn)", "shuffle(buffer_size=9)")
    assert any(remedy.what.startswith('mode="process"') for remedy in verdict.remedies)


def test_work_of_other_stages_is_left_whatever_one_function_does():
    """Two of four cores are busy all the time: no number of threads makes that more than twice as fast."""
    verdict = judge(measured((), (function(wall=9.0, cpu=0.1),), cpu_seconds=20.0))
    assert verdict.limit == "function waits" and verdict.remedies[0].gain == pytest.approx(2.0)


def test_a_cache_is_advised_with_its_size_and_not_after_random_draws():
    rows = {"rows_in_all": 31_000_000, "site": "train.py:7"}  # of 10 bytes each
    kept = judge(measured((stage("map(fn)", **rows),), (function(),)))
    assert any(".cache() after map(fn) needs 310.0 MB" in remedy.what for remedy in kept.remedies)
    drawn = judge(measured((stage("map(fn)", draws=True, **rows),), (function(),)))
    assert not any("cache" in remedy.what for remedy in drawn.remedies)


def test_a_remedy_says_what_is_in_the_way_of_vectorisation():
    def odd(x):
        return x + 1 if int(x) % 2 else x

    _, (timer,) = with_timed_functions(D.range(10).map(odd)._node)
    verdict = judge(measured((), (replace(function(), obstacle=timer.cost().obstacle),)))
    assert re.search(rf"in the way: makes a Python number of data at \S*{Path(__file__).name}", str(verdict))
    _, (timer,) = with_timed_functions(D.range(10).map(odd, mode="eager")._node)
    assert timer.cost().obstacle == ""


def test_a_call_that_waited_for_a_processor_is_not_a_slow_record(monkeypatch):
    timed = Timed(lambda x: x, D.range(3).map(lambda x: x)._node)
    timed(0)
    (tally,) = timed._tallies.values()
    monkeypatch.setattr(tally, "_ask", lambda: 290_000_000)
    tally.add(300_000_000, 9_900_000)
    cost = timed.cost()
    assert cost.slowest_seconds[0] == pytest.approx(0.01, abs=0.001)
    assert cost.delay_seconds == 0.29 and cost.computing_share > 0.9


def test_a_function_that_waits_does_so_on_a_busy_machine_too():
    """After a sleep of 2 ms a call waits for a processor for 1 ms: it would overlap with others all the same."""
    waits = replace(function(wall=9.0, cpu=0.1), delay_seconds=3.0)
    assert judge(measured((), (waits,))).limit == "function waits"
    computes = replace(function(wall=9.0, cpu=3.0), delay_seconds=5.0)
    assert judge(measured((), (computes,))).limit == "CPU"


class Bus(PlainTarget):
    """A device that is slow to copy to."""

    name = "to_torch"

    def convert(self, block):
        time.sleep(0.02)
        return block


class BusFeed(Feed):
    """A dataset on its way to it."""

    def make_target(self):
        return Bus()


def remedies_of(*stages, **about):
    return {remedy.what.partition(":")[0]: remedy.gain for remedy in judge(measured(stages, **about)).remedies}


def test_files_that_are_small_for_a_store_should_be_larger():
    source = stage("TFRecordDataset(…)", is_source=True, files=900, in_store=True)
    small = remedies_of(source, requests=100, store_bytes=100 * 6000, cpu_seconds=0.1)
    assert small["fewer, larger files"] == pytest.approx(10 / 1.09)  # one request in place of a hundred
    assert small["Options(remote_cache=folder)"] == pytest.approx(10 / 5.5)
    large = remedies_of(source, requests=100, store_bytes=400 << 20, disk_cache=True)
    assert not {"fewer, larger files", "Options(remote_cache=folder)"} & set(large)


def test_a_source_that_waits_is_read_in_parts_at_a_time():
    found = remedies_of(stage("from_generator(rows)", is_source=True), cpu_seconds=0.1)
    assert found["4 parts of the source at a time"] == pytest.approx(10 / 2.25)
    assert not any("num_parallel_reads" in what for what in found)


def test_a_gpu_that_is_there_is_a_remedy():
    found = judge(measured((stage("map(fn)", device="cuda"),))).remedies
    assert found[0].what.startswith('device="cuda" for map(fn)') and found[0].gain == pytest.approx(10.0)


def test_requests_to_stores_are_part_of_a_measurement():
    url = "memory://why-slow/a.txt"
    with fsspec.open(url, "wb") as file:
        file.write(b"".join(b"%d\n" % i for i in range(1000)))
    verdict = hr.TextLineDataset([url] * 300).batch(10).why_slow(0.3)
    assert verdict.measurement.requests > 2
    assert verdict.measurement.store_bytes > 0 and not verdict.measurement.disk_cache


def test_stages_that_open_during_the_measurement_keep_their_numbers_apart():
    def line(operation, busy, depth):
        numbers = dict.fromkeys(("bytes", "waiting_s", "input_s", "room_s", "memory_s"), 0)
        about = {"stage": f"{operation}()", "operation": operation, "site": None, "remedy": "", "python": False}
        return {**about, **numbers, "rows": 10, "busy_s": busy, "depth": depth}

    before = [line("range", 1.0, 1), line("batch", 5.0, 0)]
    now = [line("range", 1.5, 1), line("scan", 0.25, 1), line("batch", 7.0, 0)]
    made = _stages(D.range(3).batch(1)._node, now, before)
    assert [stage.busy_seconds for stage in made] == [0.5, 0.25, 2.0]


def test_evidence_says_what_a_stage_waited_for():
    waits = {"input_seconds": 2.0, "room_seconds": 3.0, "memory_seconds": 0.01}
    shown = str(judge(measured((stage("batch(batch_size=8)", busy=5.0, **waits),))))
    assert "busy 5.00 s (0.5 cores), 20 rows/s a core, at most 80 on 4" in shown
    assert "waited 2.00 s for input, 3.00 s for room\n" in shown
    python = str(judge(measured((stage("map(fn)", busy=5.0, on_one_core=True),))))
    assert "20 rows/s a core, at most 20 on 1\n" in python


def test_a_slow_copy_is_found_in_a_feed():
    feed = BusFeed(D.range(10_000).batch(4))
    verdict = feed.why_slow(0.3)
    assert (verdict.bound, verdict.limit, verdict.where) == ("transfer", "transfer", "to_torch()")
    assert Path(__file__).name in verdict.site


def test_asking_a_feed_why_it_is_slow_is_no_epoch_of_it():
    ds = D.range(50).shuffle(50, seed=1).batch(5)
    feed, other = ds.to_torch(), D(ds._node).to_torch()
    feed.why_slow(0.01)
    feed.headroom(lambda batch: None, seconds=0.01)
    assert next(iter(feed)).tolist() == next(iter(other)).tolist()


def test_gains_follow_from_what_is_left():
    alone = judge(measured((stage("map(fn)", busy=8.0),), (function(wall=8.0, cpu=8.0),), free_seconds=2.0))
    gains = {remedy.what.split("(")[0]: remedy.gain for remedy in alone.remedies}
    assert gains[".cache"] == pytest.approx(5.0)  # 10 s become the 2 s of the steps
    waits = judge(measured((), (function(wall=8.0, cpu=0.0),), free_seconds=0.1))
    assert waits.remedies[0].gain == pytest.approx(20.0)  # 16 calls at a time


def test_the_next_limit_is_named():
    verdict = judge(measured((stage("batch(batch_size=8)", busy=3.0), SOURCE)))
    assert verdict.where == "source(x)" and verdict.following == "batch(batch_size=8)"


def test_a_function_that_waits_is_found_in_a_run():
    def wait(x):
        time.sleep(0.01)
        return x

    verdict = D.range(10_000).map(wait, mode="eager").batch(4).why_slow(0.3, lambda batch: None)
    assert (verdict.bound, verdict.where) == ("input", "map(wait)")
    assert Path(__file__).name in verdict.site
    assert verdict.measurement.functions[0].threads == 1


def test_an_iterator_says_so_far():
    it = iter(D.range(1000).map(lambda x: len(str(x)), mode="eager").batch(10))
    for _ in it:
        pass
    verdict = it.why_slow()
    assert verdict.measurement.steps == 100
    assert verdict.where in str(verdict)


def test_functions_are_timed_by_thread():
    timed = Timed(lambda x: x + 1, D.range(3).map(lambda x: x)._node)
    threads = [threading.Thread(target=timed, args=(1,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timed(1) == 2
    assert timed.cost().calls == 4
    timed.reset()
    assert timed.cost().calls == 0


def test_headroom_of_any_iterable(monkeypatch):
    now = [0.0]

    def work(seconds):
        now[0] += seconds

    def data():
        for i in range(10**6):
            work(0.02)
            yield i

    monkeypatch.setattr("headrace.observe.measure_headroom.time", SimpleNamespace(perf_counter=lambda: now[0]))
    found = hr.observe.headroom(data(), lambda x: work(0.001), seconds=0.3)
    assert found.speedup == pytest.approx(21) and found.steps == 15
    assert str(found).startswith("with free data the steps would be × 21.00 as fast") and "\n" not in str(found)


def test_headroom_needs_some_steps():
    with pytest.raises(ValueError, match="at least 3 steps; the data gave 1"):
        hr.observe.headroom([np.zeros(3)] * 2, lambda x: None, seconds=0.1)


def test_headroom_in_numbers():
    found = Headroom(steps=10, seconds_per_step=0.02, free_seconds_per_step=0.005, first_seconds=0.1)
    assert (found.speedup, found.share) == (pytest.approx(4), pytest.approx(0.75))
