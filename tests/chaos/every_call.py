"""A disk that fails (EIO) at each call of every writer and at each read of every reader, one after the other.

python -m tests.chaos.every_call                 all of them
python -m tests.chaos.every_call --only csv      one of them
"""

import argparse
import errno
import logging
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import headrace as hr
from headrace.storage import rows
from tests.chaos import disk
from tests.chaos.files import KINDS, Files
from tests.chaos.pipelines import check_nothing_left
from tests.chaos.readers import MAX_REPORTS_PER_FAULT
from tests.chaos.writers import ended
from tests.storage import kills

SIZE, ROWS = 40, 30
MAX_CALLS = 20
"""If there are more, calls are left out evenly."""


def calls_of(number):
    return (
        sorted({1 + i * number // MAX_CALLS for i in range(MAX_CALLS)}) if number > MAX_CALLS else range(1, number + 1)
    )


def write(kind, folder):
    """Return how many calls failed."""
    kills.ROWS, kills.SIZE, kills.RECORDS, rows.PART_BYTES = ROWS, SIZE, 200, 10 * SIZE * 8
    writer = kills.KINDS[kind](folder)
    writer.prepare()
    number = disk.count(folder, disk.CHANGES, lambda: ended(writer.work))
    writer.check()
    fired = 0
    for call in calls_of(number):
        writer.prepare()
        with disk.failing(folder, disk.CHANGES, disk.FAIL, call, errno.EIO) as control:
            end = ended(writer.work)
            fired += control.fired
        about = f"{kind}, call {call} of {number}: {end}"
        assert end != "killed", about
        assert end is None or (control.fired and str(folder) in end), f"which file? {about}"
        try:
            writer.check()
            check_nothing_left(folder)
        except BaseException as wrong:
            raise AssertionError(about) from wrong
    return fired


def read(kind, folder):
    """Return how many reads failed."""
    ds = Files(random.Random(1), folder, kind).dataset()
    want = [repr(row) for row in ds]
    fired = 0
    for call in calls_of(disk.count(folder, disk.READ, lambda: list(ds))):
        got, reports = [], 0
        with disk.failing(folder, disk.READ, disk.FAIL, call, errno.EIO) as control, iter(ds) as it:
            while reports < MAX_REPORTS_PER_FAULT:
                try:
                    got.append(repr(next(it)))
                except StopIteration:
                    break
                except hr.TransportError as error:
                    assert str(folder) in str(error), f"which file? {error}"
                    reports += 1
            fired += control.fired
        assert got == want, f"{kind}, read {call}: {got}"
    return fired


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*kills.KINDS, *KINDS])
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as name:
        if not disk.there():
            variables = {"TMPDIR": name, **disk.build(name)}
            if "CHAOS_CONTROL" not in variables:
                print("not tried: there is no C compiler, or this is not Linux")
                return
            command = [sys.executable, "-m", "tests.chaos.every_call", *sys.argv[1:]]
            sys.exit(subprocess.run(command, check=False, env={**os.environ, **variables}).returncode)
        warnings.simplefilter("ignore")
        logging.disable()
        wrong = 0
        for work, kinds in ((write, kills.KINDS), (read, KINDS)):
            for number, kind in enumerate(kinds if only is None else {only} & set(kinds)):
                folder = Path(name, work.__name__, str(number))
                folder.mkdir(parents=True)
                try:
                    print(f"{kind}: {work(kind, folder)} calls failed", flush=True)
                except Exception:
                    wrong += 1
                    print(f"{kind}: WRONG\n{traceback.format_exc()}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
