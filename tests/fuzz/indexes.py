"""Indexes of TFRecord files that say something else than they should, with checksums that are right.

An index is believed or made again: either way the records are those of the file, or there is an error of headrace's.

python -m tests.fuzz.indexes --seconds 600
"""

import json
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.formats.shared.sidecar import KIND, VERSION
from headrace.testing import outcomes
from tests.framing import framed
from tests.fuzz import command
from tests.fuzz.pages import VALUES
from tests.fuzz.states import changed

RECORDS = [b"%d" % i * (i % 40) for i in range(1500)]
TAKEN_ROWS = 20


def parts(data):
    """The header of an index, and its numbers."""
    head = len(KIND + VERSION)
    stop = data.index(b"\n", head)
    return json.loads(data[head:stop]), bytearray(data[stop + 1 :])


def mutated(data, chance):
    header, numbers = parts(data)
    how = chance.random()
    if how < 0.4:
        width = chance.choice([1, 4, 8])
        for _ in range(chance.choice([1, 1, 3, 50])):
            place = chance.randrange(len(numbers) // width) * width
            old = int.from_bytes(numbers[place : place + width], "little")
            new = (old + chance.choice([-1, 1, 16, -16, 1 << chance.randrange(8 * width)])) % (1 << 8 * width)
            numbers[place : place + width] = new.to_bytes(width, "little")
    elif how < 0.8:
        header = changed(header, chance)
    elif how < 0.9:
        header[chance.choice(list(header))] = chance.choice(VALUES)
    else:
        del numbers[chance.randrange(len(numbers)) :]
    if isinstance(header, dict) and chance.random() < 0.9:
        header["crc"] = zlib.crc32(numbers)
    made = KIND + VERSION + json.dumps(header).encode() + b"\n" + bytes(numbers)
    return made if chance.random() < 0.95 else made[: chance.randrange(len(made))]


def read(path, chance):
    """Read some records by number, and some in turn; whether one of them is an error."""
    wrong = False
    ds = hr.TFRecordDataset(str(path), index=chance.choice([True, "auto"]))
    first = chance.randrange(len(RECORDS) - TAKEN_ROWS)
    got = outcomes(iter(ds.skip(first).take(TAKEN_ROWS)))
    wrong |= _check(got, RECORDS[first : first + TAKEN_ROWS])
    try:
        indexed = ds if ds.cardinality() >= 0 else None
        count = len(indexed) if indexed is not None else len(RECORDS)
        assert count == len(RECORDS), f"{count} records"
        for number in chance.sample(range(len(RECORDS)), 5) if indexed is not None else ():
            assert indexed[number] == RECORDS[number], number
    except hr.HeadraceError:
        wrong = True
    return wrong


def _check(got, want):
    errors = [kind for kind, _ in got].count("error")
    if not errors:
        assert [value for _, value in got] == want
    assert all(value in want for kind, value in got if kind == "value")
    return errors > 0


LEAST = 60
"""So many inputs are tried, however busy the machine is."""


def run(seconds, seed):
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    runs = made_again = 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "data")
        path.write_bytes(framed(RECORDS))
        hr.io.build_index(path)
        index = Path(name, ".headrace", "data.idx")
        good = index.read_bytes()
        while time.monotonic() < until or runs < LEAST:
            data = mutated(good, chance)
            index.write_bytes(data)
            try:
                read(path, chance)
            except BaseException:
                kept = Path(tempfile.gettempdir(), "headrace-fuzz-index")
                kept.write_bytes(data)
                print(f"seed {seed}, run {runs}: the index is in {kept}", file=sys.stderr)
                raise
            runs, made_again = runs + 1, made_again + (index.read_bytes() == good)
    return runs, made_again


if __name__ == "__main__":
    np.seterr(all="ignore")
    command.main("indexes", __doc__, run, "changed", "made again")
