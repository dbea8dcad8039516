"""Processes that read through one cache on disk and are killed at random: right rows, and never more bytes than agreed.

python -m tests.chaos.cache --reads 10000 --processes 4 --kills 20   no other process
python -m tests.chaos.cache --reads 10000 --kills 20 --meddle        its files are cut, damaged, removed, pruned as well
python -m tests.chaos.cache --reads 500 --seed 4711                  that run again

With --meddle, the bounds of the processes differ, and they keep to the largest together. Bytes are counted while no
process may add any. A process may get an error that a file of the cache was truncated while it was read; it ends only
by the signals it is sent.
"""

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import headrace as hr
from headrace.remote import objects as remote
from headrace.remote.disk_cache import SUFFIX, DiskCache
from tests.stores import servers

BLOCK, ROWS, FILES = 1 << 15, 2000, 40
"""Forty files of seven ranges each, of which a third has room."""
BOUND, OTHERS = 3_000_000, (3_000_000, 3_000_000, 2_000_000, 1_000_000)
PAUSE = 0.02


class Meddler:
    """Does to the files of a cache what other processes, people and disks do."""

    def __init__(self, folder, chance):
        self._folder, self._chance = Path(folder), chance
        self.counts = collections.Counter()

    def __call__(self):
        work = self._chance.choice([self._cut, self._damage, self._remove, self._prune, self._remove_all])
        with contextlib.suppress(OSError):  # others are there as well
            work()
            self.counts[f"cache: {work.__name__.strip('_').replace('_', ' ')}"] += 1

    def _some(self):
        found = sorted(self._folder.glob(f"*{SUFFIX}"))
        return self._chance.sample(found, min(len(found), 5))

    def _cut(self):
        for file in self._some():
            os.truncate(file, self._chance.choice([0, 100, file.stat().st_size - 1]))

    def _damage(self):
        for file in self._some():
            data = bytearray(file.read_bytes())
            if data:
                data[self._chance.randrange(len(data))] ^= 1
            with tempfile.TemporaryDirectory(dir=self._folder.parent) as other:
                shutil.copyfile(file, Path(other, "file"))
                Path(other, "file").write_bytes(data)
                Path(other, "file").rename(file)

    def _remove(self):
        for file in self._some():
            file.unlink()

    def _prune(self):
        DiskCache(str(self._folder)).prune(self._chance.choice([0, 20_000]))

    def _remove_all(self):
        shutil.rmtree(self._folder)


def row_of(number, row):
    return b"%3d %95d\n" % (number, row * 7919)


def content(number):
    return b"".join(row_of(number, row) for row in range(ROWS))


def bytes_of(folder):
    """How many bytes a cache has, while no process may add any; None if there is none."""
    with contextlib.suppress(FileNotFoundError), DiskCache(str(folder))._locked():
        return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name != "used")
    return None


def work(prefix, folder, progress, seed, reads, bound):
    """The part of one process: passes over some rows of some file, each of which is a byte of progress."""
    chance = random.Random(seed)
    remote.BLOCK, remote.READ_AHEAD_BYTES, remote.MIN_RANDOM_READ_BYTES = BLOCK, BLOCK // 4, BLOCK // 4
    options = hr.Options(remote_cache=folder, remote_cache_bytes=bound, retries=5, timeout=60.0)
    done = os.open(progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(reads):
        number, start = chance.randrange(FILES), chance.choice([0, 0, chance.randrange(ROWS)])
        stop = min(ROWS, start + chance.choice([1, 300, ROWS]))
        url, width = f"{prefix}/{number}", len(row_of(0, 0))
        want = [row_of(number, row) for row in range(start, stop)]
        how = chance.random()
        if how < 0.6:
            ds = hr.FixedLengthRecordDataset(url, width)
        elif how < 0.8:
            ds, want = hr.TextLineDataset(url), [row[:-1].decode() for row in want]
        else:
            ds = hr.FixedLengthRecordDataset([url, url], width, num_parallel_reads=2).take(2 * ROWS)
            start, want = 0, sorted([row_of(number, row) for row in range(ROWS)] * 2)
        ds = (ds.skip(start).take(stop - start) if how < 0.8 else ds).with_options(options)
        got, cut = read_all(ds, chance.choice([None, None, None, chance.randrange(ROWS)]))
        assert (sorted(got) if how >= 0.8 else got) == want, f"seed {seed}: {len(got)} rows, not {len(want)}"
        os.write(done, b"c" if cut else b".")


def read_all(ds, rest_at):
    """All rows, and whether a file of the cache was cut short meanwhile; there may be a rest at one of them."""
    got, cut = [], 0
    with iter(ds) as it:
        while True:
            try:
                for row in it:
                    got.append(row)
                    if len(got) == rest_at:
                        time.sleep(2 * PAUSE)  # a trainer that takes its time: what is mapped stays so
                return got, cut
            except hr.TransportError as error:
                assert "cut short" in str(error), error
                cut += 1
                assert cut < 100, "it never gets on"


def soak(reads, processes, kills, seed, *, meddle):
    """What happened until there were this many reads."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as root, servers.http() as store:
        folder = Path(root, "cache")
        for number in range(FILES):
            store.put(f"{number}", content(number))
        meddler = Meddler(folder, chance)
        counts, running = collections.Counter(), {}

        def begin(slot):
            command = [sys.executable, "-m", "tests.chaos.cache", "--work", store.prefix, str(folder)]
            about = [
                str(Path(root, f"{slot}")),
                str(chance.randrange(10**9)),
                str(reads),
                str(OTHERS[slot % 4] if meddle else BOUND),
            ]
            running[slot] = subprocess.Popen([*command, *about])

        def done():
            return sum(each.stat().st_size for slot in running if (each := Path(root, f"{slot}")).exists())

        try:
            for slot in range(processes):
                begin(slot)
            wait_for = (reads // (kills + 1)) if kills else reads
            while (count := done()) < reads:
                counts["most bytes"] = max(counts["most bytes"], bytes_of(folder) or 0)
                counts["times they were counted"] += 1
                assert counts["most bytes"] <= BOUND, f"{counts['most bytes']:,} bytes"
                if meddle and chance.random() < 0.1:
                    meddler()
                if counts["kills"] < kills and count >= wait_for * (counts["kills"] + 1):
                    slot = chance.randrange(processes)
                    running[slot].send_signal(signal.SIGKILL)
                    running[slot].wait()
                    counts["kills"] += 1
                    begin(slot)
                ended = [each.returncode for each in running.values() if each.poll() is not None]
                assert not any(ended), f"a process ended with {ended}"
                time.sleep(PAUSE)  # the readers are to have the processors
        finally:
            for each in running.values():
                each.kill()
                each.wait()
        counts["reads"] = done()
        counts["of them met a file that was cut"] = sum(
            Path(root, f"{slot}").read_bytes().count(b"c") for slot in running
        )
        counts["requests for data"] = sum(request.is_data for request in store.proxy.requests)
        left = DiskCache(str(folder), BOUND).prune(10**12)
        assert left <= BOUND
    return counts + meddler.counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--meddle", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        prefix, folder, progress, *numbers = options.work
        work(prefix, folder, progress, *map(int, numbers))
        return
    seed = random.randrange(10**9) if options.seed is None else options.seed
    print(f"cache from seed {seed}", flush=True)
    started = time.monotonic()
    counts = soak(options.reads, options.processes, options.kills, seed, meddle=options.meddle)
    said = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print(f"all: {said}; {time.monotonic() - started:.0f} s; bound {BOUND:,} bytes; nothing went wrong")


if __name__ == "__main__":
    sys.exit(main())
