"""Fuzz what is read from a directory of datasets: JSON, templates, labels, lock files.

python -m tests.fuzz.datasets --runs 100000 --seed 1
"""

import argparse
import copy
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

import headrace as hr

F = hr.tfds.features
MEMORY_BYTES = 1 << 30
NONSENSE = [
    None, True, False, 0, -1, 1, 3, 10**6, 2**31, 2**63, 2**80, 1e308, float("inf"), float("nan"), "", "x", "0", "-1",
    "9" * 5000, "1e9", "../../etc/passwd", "/etc/passwd", "\0", "{", "}", "{}", "{0}", "{DATASET.__class__}",
    "{SPLIT:>999999999}", "{SPLIT!r}", "{SHARD_X_OF_Y[0]}", "{DATASET}" * 500, "\ud800", [], [[]], [None], {"x": {}},
    {}, {"": ""}, ["train"], "train[:50%]", "1.0.0", "1.0", "tfrecord", "parquet", "int64", "float8", "object",
]  # fmt: skip
ALLOWED = (hr.HeadraceError, FileNotFoundError)
ANSWERS = (*ALLOWED, ValueError)
"""What may come of names, too: a version or config that is not there."""


def corpus(folder):
    """A folder of datasets with features of many kinds, an index, a default config and a lock file."""
    rows = hr.Dataset.range(4).map(
        lambda x: {"x": x, "name": str(x), "label": x % 2, "picture": np.zeros((2, 3, 3), np.uint8)}, mode="eager"
    )
    features = F.FeaturesDict(
        {"x": np.int64, "name": F.Text(), "label": F.ClassLabel(names=["a", "b"]), "picture": F.Image()}
    )
    rows.write_tfds(folder, "rows", features=features, supervised_keys=("x", "label"))
    nested = hr.Dataset.range(3).map(lambda x: {"s": np.arange(int(x)), "b": np.zeros(4, np.float32)}, mode="eager")
    nested.write_tfds(folder, "nested", features={"s": F.Sequence(np.int64), "b": F.BBoxFeature()})
    shutil.move(folder / "nested" / "1.0.0", folder / "nested" / "plain" / "1.0.0")
    (folder / "nested" / ".config").mkdir()
    (folder / "nested" / ".config" / "metadata.json").write_text('{"default_config_name": "plain"}')
    hr.catalogue.write_index(folder)
    os.environ["HEADRACE_LOCK"] = str(folder / "headrace.lock")
    hr.catalogue.lock_dataset("rows", data_dir=folder)
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".txt", ".lock")]


def places(page, path=()):
    """All places in a page of JSON."""
    yield path
    children = page.items() if isinstance(page, dict) else enumerate(page) if isinstance(page, list) else ()
    for key, value in children:
        yield from places(value, (*path, key))


def mutated(data, chance):
    """A page with something wrong in it."""
    kind = chance.choice(["value", "value", "value", "key", "drop", "deep", "bytes", "cut"])
    if kind in ("bytes", "cut"):
        hurt = bytearray(data[: chance.randrange(len(data) + 1)] if kind == "cut" else data)
        for _ in range(chance.randint(0, 3) if hurt else 0):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        return bytes(hurt)
    if kind == "deep":
        return chance.choice([b"[", b'{"a":', b'{"feature":']) * chance.choice([900, 5000, 200_000])
    try:
        page = json.loads(data)
    except ValueError:
        return bytes(chance.choice(b"\0\n\xffa") for _ in range(chance.randrange(20)))
    for _ in range(chance.randint(1, 3)):
        *parents, last = chance.choice([path for path in places(page) if path] or [("x",)])
        inner = page
        for key in parents:
            inner = inner[key]
        if kind == "drop":
            del inner[last]
        elif kind == "key" and isinstance(inner, dict):
            inner[chance.choice(["x", "", "type", "content", "features", "dict", "tuple", "../x"])] = inner.pop(last)
        else:
            inner[last] = copy.deepcopy(chance.choice(NONSENSE))
        if not isinstance(page, dict | list) or not page:
            break
    return json.dumps(page).encode()


def use(folder, chance):
    """Read all that is there; returns whether anything was refused."""
    refused = False
    works = [
        lambda: hr.catalogue.list_datasets(data_dir=folder),
        lambda: list(hr.load("rows", split="train", data_dir=folder, download=False)),
        lambda: repr(hr.tfds.builder("rows", data_dir=folder).info),
        lambda: list(hr.tfds.load("rows", split="train[:50%]", data_dir=folder, as_supervised=True)),
        lambda: list(hr.tfds.load("nested", split="train", data_dir=folder)),
        lambda: list(hr.load("nested", split="train", data_dir=folder, download=False)),
        lambda: list(hr.tfds.load("rows", split="train", data_dir=folder)[1:2]),
    ]
    for work in chance.sample(works, 3):
        try:
            work()
        except ANSWERS:
            refused = True
    return refused


def run(runs, seed, folder):
    """Returns how many of the damaged directories were refused."""
    chance, refused = random.Random(seed), 0
    pages = {path: path.read_bytes() for path in corpus(folder)}
    for number in range(runs):
        path = chance.choice(list(pages))
        data = mutated(pages[path], chance)
        path.write_bytes(data)
        try:
            refused += use(folder, chance)
        except BaseException:
            print(f"seed {seed}, run {number}: {path} with {data[:2000]!r}", file=sys.stderr)
            raise
        finally:
            path.write_bytes(pages[path])
    assert not use(folder, chance)  # whole again
    return refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    how = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        try:
            refused = run(how.runs, how.seed, Path(folder))
        except Exception:
            traceback.print_exc()
            sys.exit(1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{how.runs} directories, {refused} refused, at most {peak / 1024:.0f} MB")


if __name__ == "__main__":
    main()
