"""Worker processes that are halted, and killed, while they work."""

import json
import os
import signal
import threading
from pathlib import Path

import headrace as hr
from headrace.testing import outcomes, reference_outcomes
from tests.chaos.files import Files
from tests.chaos.pipelines import check
from tests.chaos.readers import one
from tests.pipelines import Sometimes


def work(*args):
    return Sometimes(9)(*args)


def pipeline(chance, folder):
    ds = hr.Dataset.range(chance.randint(0, 200)) if chance.random() < 0.5 else Files(chance, folder).dataset()
    if chance.random() < 0.7:
        ds = ds.map(work, num_parallel_calls=chance.choice([1, 2, 3]), mode="process")
    else:
        ds = ds.prefetch(chance.choice([1, 5]), mode="process")
    for _ in range(chance.randint(0, 2)):
        ds = chance.choice(
            [
                lambda d: d.enumerate(),
                lambda d: d.batch(3),
                lambda d: d.prefetch(2),
                lambda d: d.map(lambda *a: a),
                lambda d: d.prefetch(2, mode="process"),
                lambda d: d.repeat(2),
            ]
        )(ds)
    return ds


def workers():
    """The processes that this one has started."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


class Torturer(threading.Thread):
    """Halt workers, let them continue, and kill some."""

    def __init__(self, chance, kills):
        super().__init__(name="torturer", daemon=True)
        self._chance = chance
        self._kills = kills
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(self._chance.uniform(0, 0.05)):
            for pid in workers():
                try:
                    if self._kills and self._chance.random() < 0.05:
                        self._kills -= 1
                        os.kill(pid, signal.SIGKILL)
                    elif self._chance.random() < 0.3:
                        os.kill(pid, signal.SIGSTOP)
                        self.over.wait(self._chance.uniform(0, 0.05))
                        os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue


def tortured(chance, folder):
    ds = pipeline(chance, folder)
    want = reference_outcomes(ds)
    torturer = Torturer(chance, chance.choice([0, 1, 4]))
    torturer.start()
    try:
        read(ds, want, chance)
    finally:
        torturer.over.set()
        torturer.join()
    for pid in workers():
        os.kill(pid, signal.SIGCONT)
    check(outcomes(iter(ds)), want, True, "once no worker is killed any more")


def read(ds, want, chance):
    """A pass, resumed now and then; a row that two workers died of may be an error."""
    it, count, deaths = iter(ds), 0, 0
    while True:
        try:
            outcome = one(it)
        except hr.WorkerError:
            deaths += 1
            assert deaths < 20
            continue
        if outcome is None:
            break
        if outcome[0] != "error" or "WorkerError" not in outcome[1]:
            check([outcome], want[count : count + 1], True, f"row {count}")
        count += 1
        if chance.random() < 0.02:
            state = json.loads(json.dumps(it.state()))
            it.close()
            it = ds.iterator(state=state)
    assert count == len(want), f"{count} rows, not {len(want)}"
    it.close()
