"""Kill writers at random moments and check that the next process finds all or nothing, and no leftovers.

python tests/storage/kills.py --kills 200
"""

import argparse
import os
import random
import select
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.formats.shared import sidecar
from headrace.sinks.shards import LocalShards
from headrace.storage import rows
from headrace.storage.files import TEMPORARY
from headrace.storage.swaps import SWAP

ROWS = 400
SIZE = 2_000
RECORDS = 20_000


def pipeline(factor=1):
    data = hr.Dataset.range(ROWS).shuffle(64, seed=5)
    return data.map(lambda x: {"x": np.full(SIZE, factor * x), "name": str(x)})


def seen(ds):
    return [(int(e["x"][0]), int(np.asarray(e["x"]).sum()), _text(e["name"])) for e in ds]


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def killed(work, longest, moment=None):
    """Run `work` in a child of its own and kill it after a random time; whether it was still at it.

    `moment` names a function; if there is one, the time often counts from where that is called, for a kill to fall
    into what takes a thousandth of the whole.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if moment is not None:
                _tell(*moment, write)
            work()
        finally:
            os._exit(0)
    os.close(write)
    if moment is not None and random.random() < 0.7:
        select.select([read], [], [])
        longest = 0.05
    os.close(read)
    threading.Event().wait(random.uniform(0, longest))
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1] != 0


def _tell(owner, name, pipe):
    function = getattr(owner, name)

    def telling(*args, **kwargs):
        os.write(pipe, b".")
        return function(*args, **kwargs)

    setattr(owner, name, telling)


def left_behind(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((TEMPORARY, SWAP))]


class Cache:
    """What was read so far is stored, and the next run continues there."""

    moment = None

    def __init__(self, folder):
        self.folder = folder
        self.right = seen(pipeline())

    def stored(self):
        return pipeline().cache(self.folder / "rows")

    def prepare(self):
        pass

    def work(self):
        seen(self.stored())

    def check(self):
        assert seen(self.stored()) == self.right, "wrong elements after a kill"
        assert list(self.folder.rglob("complete.json")), "the next run finishes it"
        assert seen(self.stored()) == self.right, "wrong elements from the files"
        shutil.rmtree(self.folder / "rows")


class Snapshot(Cache):
    def stored(self):
        return pipeline().snapshot(self.folder / "rows")


class Save:
    """The old rows, or the new ones."""

    moment = None

    def __init__(self, folder):
        self.path = folder / "saved"
        self.right = seen(pipeline(1)), seen(pipeline(2))

    def prepare(self):
        pipeline(1).save(self.path)

    def work(self):
        pipeline(2).save(self.path)

    def check(self):
        assert seen(hr.Dataset.load(self.path)) in self.right, "neither the old elements nor the new"
        pipeline(2).save(self.path)
        assert seen(hr.Dataset.load(self.path)) == self.right[1]
        assert len(list(self.path.glob("rows-*"))) == 1, "what the killed one wrote is still there"


class Replace:
    """All of the old files, or all of the new ones."""

    moment = (LocalShards, "_publish")
    suffix = "tfrecord"

    def __init__(self, folder):
        self.folder = folder
        self.right = seen(pipeline(1)), seen(pipeline(2))

    def write(self, factor, shards):
        pipeline(factor).write_tfrecord(self.folder / "t", shards=shards, overwrite=True)

    def rows(self):
        return hr.Dataset.from_tfrecord(self.folder / "t-*.tfrecord")

    def prepare(self):
        self.write(1, 5)

    def work(self):
        self.write(2, 8)

    def names(self):
        return sorted(path.name for path in self.folder.glob(f"t-*.{self.suffix}"))

    def check(self):
        ends = {name.partition("-of-")[2] for name in self.names()}
        assert len(ends) <= 1, f"files of both at once: {self.names()}"
        found = seen(self.rows())
        assert found in self.right, "neither the old elements nor the new"
        count = 5 if found == self.right[0] else 8
        assert self.names() == [f"t-{i:05d}-of-{count:05d}.{self.suffix}" for i in range(count)]
        self.write(2, 3)
        assert seen(self.rows()) == self.right[1]


class Fresh(Replace):
    """All files or none."""

    def prepare(self):
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def check(self):
        if self.names() or [path for path in left_behind(self.folder) if path.name.endswith(SWAP)]:
            assert seen(self.rows()) == self.right[1]
            assert len(self.names()) == 8
        self.write(2, 3)
        assert seen(self.rows()) == self.right[1]


class Parquet:
    suffix = "parquet"

    def write(self, factor, shards):
        pipeline(factor).write_parquet(self.folder / "t", shards=shards, overwrite=True)

    def rows(self):
        return hr.ParquetDataset(str(self.folder / "t-*.parquet"))


class ReplaceParquet(Parquet, Replace):
    pass


class FreshParquet(Parquet, Fresh):
    pass


class WebDataset:
    suffix = "tar"

    def write(self, factor, shards):
        samples = pipeline(factor).map(lambda row: {"__key__": row["name"], "npy": row["x"]})
        samples.write_webdataset(self.folder / "t", shards=shards, overwrite=True)

    def rows(self):
        samples = hr.WebDataset(hr.Dataset.list_files(self.folder / "t-*.tar", shuffle=False), fields=["npy"])
        return samples.map(lambda sample: {"x": sample["npy"], "name": sample["__key__"]})


class ReplaceWebDataset(WebDataset, Replace):
    pass


class FreshWebDataset(WebDataset, Fresh):
    pass


class Index:
    """An index that is right, or none; what is left of one is cleared by the next."""

    moment = (sidecar, "write_whole")

    def __init__(self, folder):
        self.path = folder / "data.tfrecord"
        self.records = [str(i).encode() * (i % 50) for i in range(RECORDS)]
        with hr.io.TFRecordWriter(self.path) as writer:
            writer.write_all(self.records)

    def prepare(self):
        for path in self.path.parent.rglob("*"):
            if path.is_file() and path != self.path:
                path.unlink()

    def work(self):
        hr.io.build_index(self.path)

    def check(self):
        assert list(hr.TFRecordDataset(str(self.path))) == self.records
        hr.io.build_index(self.path)
        ds = hr.TFRecordDataset(str(self.path))
        assert len(ds) == len(self.records) and ds[RECORDS // 2] == self.records[RECORDS // 2]


class Writer:
    """The old file, or the new one."""

    moment = (hr.io.TFRecordWriter, "close")

    def __init__(self, folder):
        self.path = folder / "data.tfrecord"

    def write(self, factor):
        with hr.io.TFRecordWriter(self.path) as writer:
            for i in range(RECORDS):
                writer.write(str(i * factor).encode())

    def prepare(self):
        self.write(1)

    def work(self):
        self.write(2)

    def check(self):
        found = [int(record) for record in hr.TFRecordDataset(str(self.path))]
        assert found in (list(range(RECORDS)), list(range(0, 2 * RECORDS, 2)))
        self.write(2)


KINDS = {
    "cache": Cache,
    "snapshot": Snapshot,
    "save": Save,
    "write_tfrecord": Fresh,
    "write_tfrecord, replacing": Replace,
    "write_parquet": FreshParquet,
    "write_parquet, replacing": ReplaceParquet,
    "write_webdataset": FreshWebDataset,
    "write_webdataset, replacing": ReplaceWebDataset,
    "index": Index,
    "TFRecordWriter": Writer,
}


def kill(kind, folder, kills):
    """How many writers of a kind were killed while they were at it; AssertionError where one did harm."""
    folder.mkdir()
    writer = KINDS[kind](folder)
    writer.prepare()
    started = time.perf_counter()
    writer.work()
    longest = 1.2 * (time.perf_counter() - started)
    writer.check()
    hits = 0
    while hits < kills:
        writer.prepare()
        for _ in range(random.randint(1, 3) if isinstance(writer, Cache) else 1):
            hits += killed(writer.work, longest, writer.moment)
        writer.check()
        assert not left_behind(folder), "what the killed one left is still there"
    return hits


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many writers of each kind to kill")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", choices=KINDS, default=None)
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    random.seed(seed)
    rows.PART_BYTES = 20 * SIZE * 8  # many parts, so that many a kill falls between or into them
    with tempfile.TemporaryDirectory() as name:
        for kind in KINDS if arguments.kind is None else [arguments.kind]:
            hits = kill(kind, Path(name, kind), arguments.kills)
            print(f"{kind} (seed {seed}): {hits} writers killed; every next run was right", flush=True)


if __name__ == "__main__":
    main()
