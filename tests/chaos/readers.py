"""Readers that are killed and resume from their last state, and readers over a failing disk."""

import errno
import json
import os
import pickle
import signal
import time

import cloudpickle

import headrace as hr
from headrace.testing import outcomes, reference_outcomes
from tests.chaos import disk
from tests.chaos.pipelines import any_pipeline, check, check_next_epoch, check_nothing_left, over_files


class Journal:
    """What a reader has read, and the state it saved last, where a kill cannot take them."""

    def __init__(self, folder):
        self._rows, self._state = folder / "journal", folder / "state.json"
        self._rows.touch()

    def add(self, outcome):
        with self._rows.open("ab") as file:
            cloudpickle.dump(outcome, file)

    def save(self, it, rows):
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps({"state": it.state(), "rows": rows}))
        new.replace(self._state)

    def load(self):
        """What counts: the rows before the state, and the state."""
        saved = json.loads(self._state.read_text()) if self._state.exists() else {"state": None, "rows": 0}
        rows = []
        with self._rows.open("rb") as file:
            while len(rows) < saved["rows"]:
                rows.append(pickle.load(file))
            os.truncate(self._rows, file.tell())
        return rows, saved["state"]


def one(it):
    """The next outcome, None at the end."""
    return next(iter(outcomes(it, 1)), None)


def read_on(ds, journal, told, every):
    rows, state = journal.load()
    it = ds.iterator(state=state)
    count = len(rows)
    while (outcome := one(it)) is not None:
        journal.add(outcome)
        count += 1
        if count % every == 0:
            journal.save(it, count)
        os.write(told, b".")


def killed(chance, folder):
    ds, ordered = any_pipeline(chance, folder)
    want = reference_outcomes(ds)
    journal = Journal(folder)
    for _ in range(chance.randint(1, 3)):
        die_after_rows(chance, lambda told: read_on(ds, journal, told, chance.choice([1, 1, 3, 10])), len(want), folder)
    rows, state = journal.load()
    check(rows + outcomes(ds.iterator(state=state)), want, ordered, f"after {len(rows)} rows")
    if ordered:
        check_next_epoch(ds, ordered, 1)
    check_nothing_left(folder)


def die_after_rows(chance, work, most, folder):
    """Run `work` in a process of its own, and kill that after some rows, or at some write to the disk."""
    by_disk = disk.there() and chance.random() < 0.4
    rows, pause = chance.randint(0, most), chance.uniform(0, 0.003)
    if by_disk:
        with disk.failing(folder / "headrace-pipelines", disk.CHANGES, disk.KILL, chance.randint(1, 40)):
            _killed(work, most, 60.0)
    else:
        _killed(work, rows, pause)


def _killed(work, rows, pause):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            work(write)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    while rows > 0 and (got := os.read(read, rows)):
        rows -= len(got)
    if pause < 1:
        time.sleep(pause)  # for the kill to come wherever it likes
        os.kill(pid, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or status == 0, "the reader failed"


MAX_REPORTS_PER_FAULT = 4
"""How often one fault may show: if several threads read, and once more when a closed input is reopened."""
WRITES = disk.WRITE | disk.SYNC
FATES = [
    (disk.READ, disk.SHORT_ALWAYS, 0),
    (disk.READ, disk.FAIL, errno.EIO),
    (disk.READ, disk.FAIL, errno.EIO),
    (disk.READ, disk.FAIL_ALWAYS, errno.EIO),
    (WRITES, disk.SHORT_ALWAYS, 0),
    (WRITES, disk.FAIL, errno.EIO),
    (WRITES, disk.FAIL_ALWAYS, errno.ENOSPC),
]


def over_a_failing_disk(chance, folder):
    if not disk.there():
        return
    ds = over_files(chance, folder, 3)
    want = reference_outcomes(ds)
    number = int(2 ** chance.uniform(0, 7))
    calls, what, error = chance.choice(FATES)
    got, state, failed, broken = [], None, None, 0
    with disk.failing(folder, calls, what, number, error) as control:
        try:
            it = ds.iterator(state=None)
            while True:
                try:
                    outcome = one(it)
                except hr.TransportError as problem:
                    broken += 1
                    assert str(folder) in str(problem), f"which file? {problem}"
                    if what == disk.FAIL and broken < MAX_REPORTS_PER_FAULT:
                        continue  # the fault is over: the rest comes exactly
                    raise
                if outcome is None:
                    break
                got.append(outcome)
                check(got[-1:], want[len(got) - 1 : len(got)], True, f"row {len(got) - 1} over a failing disk")
                if chance.random() < 0.3:
                    state = json.loads(json.dumps(it.state())), len(got)
            it.close()
        except (hr.HeadraceError, OSError) as problem:
            failed = str(problem)
    if failed is None:
        check(got, want, True, f"{control.fired} faults of the disk")
    else:
        assert what in (disk.FAIL, disk.FAIL_ALWAYS), f"short reads or writes, and {failed}"
        assert control.fired, f"no fault, and {failed} after {len(got)} rows, not {want[len(got) : len(got) + 1]}"
        assert str(folder) in failed, f"which file? {failed}"
    if state is not None:
        rest = outcomes(ds.iterator(state=state[0]))
        check(rest, want[state[1] :], True, f"resumed at {state[1]} once the disk works again")
    check_next_epoch(ds, True, 1)
    check_nothing_left(folder)
