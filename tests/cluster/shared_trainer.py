"""A trainer in a separate process: writes down each row with the state after it.

python shared_trainer.py RANK STOP_AFTER TOKEN OUT CALLS ADDRESS…

After STOP_AFTER rows it reports, and continues on a signal.
"""

import json
import os
import sys
from pathlib import Path

import headrace as hr

ROWS = 600


class Counted:
    """A function that writes down each of its calls, wherever it runs."""

    def __init__(self, path):
        self.path = path

    def __call__(self, x):
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)
        return x * 3


def dataset(workers, calls):
    """What all trainers read; they agree on it to the byte."""
    rows = hr.Dataset.range(ROWS).shuffle(50, seed=3).map(Counted(calls), mode="eager").filter(lambda x: x % 7 > 0)
    return rows.distribute_over(workers, splits=4, shared=True)


def main(rank, stop_after, token, out, calls, *addresses):
    state, out = None, Path(out)
    if out.exists():
        whole = [line for line in out.read_text().splitlines(keepends=True) if line.endswith("\n")]
        out.write_text("".join(whole))
        state = json.loads(whole[-1])[1]
    with hr.cluster.addresses(addresses, token=token) as workers, out.open("a") as log:
        workers.wait_for(len(addresses))
        with dataset(workers, calls).distribute(int(rank), 2).iterator(state=state) as it:
            for number, row in enumerate(it, 1):
                log.write(json.dumps([int(row), it.state()]) + "\n")
                log.flush()
                if number == int(stop_after):
                    print("stopped", flush=True)
                    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
