"""Stored rows whose pages and Arrow files say something else than they should, with checksums that are right.

Whatever they say, reading them gives elements or a StorageError; no crash, no other error, no code that they name.

python -m tests.fuzz.pages --seconds 600
"""

import collections
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.errors import SpecError, StorageError
from headrace.storage.files import seal_page
from headrace.storage.parts import checksum
from tests.fuzz import command

Pair = collections.namedtuple("Pair", "a b")
VALUES = [
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**62, 2**63, 2**64, 10**30, 0.5, float("inf"), "", "x", "leaf", "none",
    "tuple", "dict", "dense", "ragged", "rows", "text", "empty", "arrow", "<i8", "|O", "|V8", "<U0", "O,O", "../..",
    "os:system", "subprocess:Popen", [], {}, [[]], [0], [1], [-1], [2**62], [0, 0], ["leaf"], {"rows": 1, "ids": None},
]  # fmt: skip


def text_of(x):
    return {"s": str(x), "t": [str(x)] * 2, "b": bytes([int(x)] * int(x))}


SOURCES = {
    "numbers": lambda: hr.Dataset.range(50),
    "shapes": lambda: hr.Dataset.range(9).map(lambda x: (x * np.ones((2, 3), "f4"), np.zeros((0, 2)), x > 3)),
    "text": lambda: hr.Dataset.range(9).map(text_of),
    "batches of text": lambda: hr.Dataset.range(9).map(lambda x: str(x)).batch(2),
    "ragged": lambda: hr.Dataset.range(9).map(lambda x: np.arange(x)).ragged_batch(2),
    "rows": lambda: hr.Dataset.range(9).map(lambda x: np.zeros((x % 3, x % 2))),
    "objects": lambda: hr.Dataset.range(6).map(lambda x: [str(x), "b"] if x % 2 else np.float32(x)),
    "named": lambda: hr.Dataset.range(9).map(lambda x: Pair(x, {"z": x, "y": (x, None)})),
    "nothing": lambda: hr.Dataset.range(9).map(lambda x: ()),
    "failures": lambda: hr.Dataset.range(9).map(lambda x: 1 // (x % 3)),
    "shuffled": lambda: hr.Dataset.range(50).shuffle(9, seed=1).map(lambda x: x),
}


def write(kind, source, folder):
    ds = SOURCES[source]()
    if kind == "save":
        ds.ignore_errors().save(folder, compression=random.choice([None, "ZSTD"]))
    elif kind == "shards":
        ds.ignore_errors().save(folder, shard_func=lambda *_: 1)
    else:
        consume(getattr(ds, kind)(folder))


def read(kind, source, folder):
    if kind in ("save", "shards"):
        ds = hr.Dataset.load(folder, types=[Pair] if random.random() < 0.5 else [])
        consume(ds)
        if len(ds):
            ds[len(ds) - 1]
        consume(ds.shuffle(5, seed=1).take(20))
    else:
        consume(getattr(SOURCES[source](), kind)(folder))


def consume(ds):
    it = iter(ds.take(200))
    while True:
        try:
            next(it)
        except StopIteration:
            return
        except hr.ElementError:
            continue


def changed(value, chance):
    """The value with one thing in it changed."""
    if isinstance(value, dict | list) and value and chance.random() < 0.85:
        made = dict(value) if isinstance(value, dict) else list(value)
        key = chance.choice(list(made) if isinstance(made, dict) else range(len(made)))
        how = chance.random()
        if how < 0.7:
            made[key] = changed(made[key], chance)
        elif how < 0.8:
            del made[key]
        elif how < 0.9 and isinstance(made, list):
            made.insert(key, made[chance.randrange(len(made))])
        elif isinstance(made, list):
            chance.shuffle(made)
        else:
            made[chance.choice(list(made))] = made[key]
        return made
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice([-1, 1, 8, -8, 1 << chance.randrange(64)])
    return chance.choice(VALUES)


def content(page):
    return json.loads(page.read_bytes().partition(b'"page":')[2][:-2])


def rewrite(page, value):
    page.write_bytes(seal_page(json.dumps(value, separators=(",", ":")).encode()))


def damage_page(folder, chance):
    page = chance.choice(sorted(folder.rglob("*.json")))
    value = content(page)
    notes = value.pop("notes", None)  # where a pipeline continues: the pipeline's business, like a state
    for _ in range(chance.choice([1, 1, 2, 5])):
        value = changed(value, chance)
    if isinstance(value, dict):
        value["notes"] = notes
    rewrite(page, value)
    return page


def damage_data(folder, chance):
    """Other bytes, and checksums to match."""
    files = sorted(folder.rglob("*.arrow"))
    if not files:
        return damage_page(folder, chance)
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 4, 30])):
        at = chance.randrange(len(data))
        how = chance.random()
        if how < 0.5:
            data[at] = chance.randrange(256)
        elif how < 0.8:
            data[at : at + 8] = chance.choice([0, 1, -1, 2**31, 2**62, 255]).to_bytes(8, "little", signed=True)
        else:
            data[at : at + chance.randrange(1, 64)] = bytes(chance.randrange(1, 64))
    path.write_bytes(data)
    page = path.with_suffix(".json")
    value = content(page)
    value["cuts"][-1] = len(data)
    value["crcs"] = [checksum(memoryview(data)[a:b]) for a, b in zip([0, *value["cuts"]], value["cuts"], strict=False)]
    rewrite(page, value)
    return path


LEAST = 30
"""So many are tried even where the machine is busy."""


def run(seconds, seed, least=LEAST):
    chance = random.Random(seed)
    random.seed(seed)
    runs = refused = 0
    with tempfile.TemporaryDirectory() as name:
        good = {}
        for kind in ("save", "shards", "cache", "snapshot"):
            for source in SOURCES:
                good[kind, source] = Path(name, kind, source)
                write(kind, source, good[kind, source])
        folder = Path(name, "damaged")
        until = time.monotonic() + seconds
        while time.monotonic() < until or runs < least:
            (kind, source), path = chance.choice(list(good.items()))
            shutil.copytree(path, folder)
            damaged = (damage_data if chance.random() < 0.4 else damage_page)(folder, chance)
            try:
                read(kind, source, folder)
            except StorageError as error:
                assert str(error), "an error says something"
                refused += 1
            except SpecError:
                refused += 1  # elements that do not fit together, by what the page says of them
            except BaseException:
                kept = Path(tempfile.gettempdir(), "headrace-fuzz-pages")
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept)
                print(f"seed {seed}, run {runs}: {kind} of {source}, {damaged.name} in {kept}", file=sys.stderr)
                raise
            shutil.rmtree(folder)
            runs += 1
    return runs, refused


if __name__ == "__main__":
    command.main("pages", __doc__, run, "damaged", "refused")
