"""States that say something else than they should, with a checksum that is right.

Whatever they say, restoring them gives elements or an error of headrace's own; no other error, no hang, no code.

python -m tests.fuzz.states --seconds 600
"""

import copy
import faulthandler
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.execute.state import _checksum
from tests.chaos.files import KINDS, Files
from tests.fuzz import command
from tests.fuzz.pages import VALUES

D = hr.Dataset
MAX_ELEMENTS = 300
HANG = 120
"""Seconds for one state, on a machine that is busy."""


def pipelines(folder):
    """One of each operation whose mark has a form of its own, and one of each kind of file."""
    chance = random.Random(0)
    r = D.range(60)
    made = {
        "range": r,
        "shuffle": r.shuffle(9, seed=1),
        "shuffle of a stream": r.filter(lambda x: x % 3 != 1).shuffle(9),
        "batch": r.filter(lambda x: x % 3 != 1).batch(4).map(lambda x: x + 1),
        "repeat": r.filter(lambda x: x % 2 == 0).repeat(3),
        "concatenate": r.filter(lambda x: x > 3).concatenate(r),
        "zip": D.zip(r.filter(lambda x: x > 3), r.shuffle(3, seed=2)),
        "flat_map": r.filter(lambda x: x > 3).flat_map(lambda x: D.range(x % 4)),
        "interleave": r.filter(lambda x: x > 3).interleave(lambda x: D.range(x % 4), 3, 2),
        "in threads": r.map(lambda x: x + 1, num_parallel_calls=2, deterministic=False, mode="eager").prefetch(2),
        "scan": r.scan(np.int64(0), lambda s, x: (s + x, s)),
        "window": r.filter(lambda x: x > 3).window(3, 2, drop_remainder=True).flat_map(lambda w: w.batch(3)),
        "group_by_window": r.group_by_window(lambda x: x % 3, lambda k, w: w.batch(4), 4),
        "bucket": r.map(lambda x: np.arange(x % 5)).bucket_by_sequence_length(len, [2, 3], [3, 3, 3]),
        "choose": D.choose_from_datasets([r.filter(lambda x: x > 3), r], D.range(2).repeat(20)),
        "sample": D.sample_from_datasets([r, r.filter(lambda x: x > 3)], seed=4),
        "generator": D.from_generator(lambda: iter(range(30)), output_signature=hr.TensorSpec((), "int64")),
        "rebatch": r.batch(4).rebatch([3, 2]),
        "unbatch": r.filter(lambda x: x > 3).batch(4).unbatch(),
        "unique": r.map(lambda x: x % 7).unique(),
        "rejection_resample": r.rejection_resample(lambda x: x % 3, [0.2, 0.3, 0.5], seed=2),
        "cache": r.filter(lambda x: x > 3).cache(),
    }
    for kind in KINDS:
        (folder / kind).mkdir()
        made[kind] = Files(chance, folder / kind, kind).dataset()
    return {name: ds.take(MAX_ELEMENTS) for name, ds in made.items()}


def states_of(ds):
    """Some states of a pass."""
    found = []
    with iter(ds) as it:
        for number, _ in enumerate(it):
            if number % 7 == 3:
                found.append(json.loads(json.dumps(it.state())))
    return found or [it.state()]


def changed(value, chance):
    """The value with one thing in it changed."""
    if isinstance(value, dict | list) and value and chance.random() < 0.9:
        made = copy.copy(value)
        key = chance.choice(list(made) if isinstance(made, dict) else range(len(made)))
        if chance.random() < 0.85:
            made[key] = changed(made[key], chance)
        elif isinstance(made, list):
            chance.choice([lambda: made.pop(key), lambda: made.insert(key, made[-1]), lambda: chance.shuffle(made)])()
        else:
            del made[key]
        return made
    if isinstance(value, int) and chance.random() < 0.6:
        return value + chance.choice([-1, 1, 5, -5, 1 << chance.randrange(63), -value])
    return copy.deepcopy(chance.choice(VALUES))


def mutated(state, chance):
    made = {k: v for k, v in state.items() if k not in ("crc", "functions")}
    for _ in range(chance.choice([1, 1, 2, 4])):
        key = chance.choice(["mark", "mark", "mark", "mark", "delivered", "epoch", "over", "seeds", "sizes", "plan"])
        if key in made:
            made[key] = changed(made[key], chance)
    return {**made, "crc": _checksum(made)}


def read(ds, state):
    """Restore a state and read on; whether it was refused."""
    try:
        with ds.iterator(state=state) as it:
            for _ in range(MAX_ELEMENTS):
                try:
                    next(it)
                except StopIteration:
                    break
                except hr.ElementError:
                    continue
            json.dumps(it.state())
    except hr.HeadraceError as error:
        assert str(error), "an error says something"
        return True
    return False


LEAST = 60
"""So many inputs are tried, however busy the machine is."""


def run(seconds, seed):
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    runs = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        made = pipelines(Path(folder))
        known = {name: states_of(ds) for name, ds in made.items()}
        while time.monotonic() < until or runs < LEAST:
            name = chance.choice(list(made))
            state = mutated(chance.choice(known[name]), chance)
            faulthandler.dump_traceback_later(HANG, exit=True)
            try:
                refused += read(made[name], state)
            except BaseException:
                print(f"seed {seed}, run {runs}: {name}, {json.dumps(state)}", file=sys.stderr)
                raise
            runs += 1
    faulthandler.cancel_dump_traceback_later()
    return runs, refused


if __name__ == "__main__":
    command.main("states", __doc__, run, "changed", "refused")
