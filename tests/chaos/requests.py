"""Thousands of reads from stores, a third of which fail in one way or another; what was done to them is counted.

python -m tests.chaos.requests --reads 3000                 of HTTP, S3 and Google Cloud Storage together
python -m tests.chaos.requests --reads 500 --on gs          of one of them
python -m tests.chaos.requests --reads 500 --seed 4711      that run again

Every row must come once, or an error after which `next()`, or a resume, continues with the very next row. Of files that
are replaced while they are read, the rows of one version come, or an error. Most passes have a cache on disk, often too
small for them, which another process truncates, damages, removes and prunes meanwhile.
"""

import argparse
import collections
import contextlib
import logging
import os
import random
import sys
import tempfile
import time
from functools import partial

import headrace as hr
from headrace.remote import objects as remote
from headrace.remote.kept_object import KeptObject
from headrace.testing import our_threads
from tests.chaos.cache import Meddler
from tests.stores import servers
from tests.stores.going_on import read_on, resumed

BLOCK = 1 << 13
FAULTS = ["503", "429", "500", "reset", "truncated", "short", "long"]
SLOW = ["503", "429", "500", "reset"]
"""Faults that gcsfs retries itself, with fixed pauses of seconds."""
TIMEOUT = 4.0


@contextlib.contextmanager
def opened(kind):
    """A store, None if it is unavailable."""
    with contextlib.ExitStack() as stack:
        try:
            if kind == "http":
                import aiohttp  # noqa: F401

                yield stack.enter_context(servers.http())
            elif kind == "s3":
                import s3fs  # noqa: F401

                yield stack.enter_context(servers.s3(stack.enter_context(servers.moto())))
            else:
                url = stack.enter_context(servers.emulator())
                import gcsfs  # noqa: F401

                yield stack.enter_context(servers.gs(url))
        except ImportError as error:
            print(f"{kind}: not tried, {error}")
            yield None


class Faults:
    """Chooses what is done to a request; of stalls there are few, since each takes as long as an answer may."""

    def __init__(self, store, chance):
        self._store, self._chance = store, chance
        self._stalls = 2
        self._often = chance.choice([0.15, 0.35, 0.5])

    def __call__(self, request):
        chance = self._chance
        if chance.random() > self._often:
            return None
        kind = chance.choice([*FAULTS, "stall"])
        slow = kind in SLOW and self._store.protocol == "gs"
        if kind == "stall" or slow:
            self._stalls -= 1
            return kind if self._stalls >= 0 else None
        if kind in ("short", "long", "truncated") and not request.is_data:
            return None  # what a store says of a file is true, if it says anything
        return kind


WIDTH = 10


def lines(number, rows, version=0):
    return b"".join(b"%d %5d %d\n" % (number, row, version) for row in range(rows))


def files(store, chance, run):
    """Some files, of one range or of several."""
    sizes = [chance.choice([3, 200, 2000]) for _ in range(chance.randint(2, 10))]
    return [store.put(f"{run}-{i}", lines(i, rows)) for i, rows in enumerate(sizes)], sizes


class Cache:
    """A folder for passes of its kind; `options` are those of a pass, most of which have it."""

    def __init__(self, folder, chance, counts):
        self._folder, self._chance, self._counts = folder, chance, counts
        self._meddler = Meddler(folder, chance)
        self.options = {}

    def choose(self):
        """Whether the next passes have it."""
        room = self._chance.choice([None, 30_000, 100_000, 1_000_000])
        self.options = {} if room is None else {"remote_cache": self._folder, "remote_cache_bytes": room}
        return room is not None

    def meddle(self):
        """Now and then something is done to it."""
        if self.options and self._chance.random() < 0.002:
            self._meddler()

    def count(self):
        self._counts.update(self._meddler.counts)


@contextlib.contextmanager
def counted_ranges(counts):
    """Ranges that come from the cache, mapped and not, are counted."""
    mapped, read = KeptObject.map_into, KeptObject.get

    def map_into(self, *arguments):
        found = mapped(self, *arguments)
        counts["ranges mapped from the cache"] += found
        return found

    def get(self, *arguments):
        found = read(self, *arguments)
        counts["ranges read from the cache"] += found is not None
        return found

    KeptObject.map_into, KeptObject.get = map_into, get
    try:
        yield
    finally:
        KeptObject.map_into, KeptObject.get = mapped, read


def pipeline(store, chance, urls):
    if chance.random() < 0.2:  # rows by their numbers
        ds = hr.FixedLengthRecordDataset(urls, WIDTH, index=True, storage_options=store.options or None)
        return ds.shuffle(seed=3, reshuffle_each_iteration=False).take(30)
    ds = hr.TextLineDataset(urls, num_parallel_reads=chance.choice([None, None, 3]))
    if chance.random() < 0.3:
        ds = ds.shuffle(100, seed=3, reshuffle_each_iteration=False)
    return ds.ignore_errors() if chance.random() < 0.3 else ds


def read_under_faults(store, chance, run, cache, counts):
    urls, _ = files(store, chance, run)
    rows = pipeline(store, chance, urls)
    want = list(rows.with_options(store.patient()))
    for _ in range(3 if cache.choose() else 1):
        how = store.patient(timeout=TIMEOUT, retries=chance.choice([0, 1, 3]), **cache.options)
        ds = rows.with_options(how)
        store.proxy.fault = Faults(store, chance)
        resume = partial(resumed_sometimes, ds, chance)
        got, raised = read_on(iter(ds), resume, each=cache.meddle)
        store.proxy.fault = lambda request: None
        counts["errors that kept the place"] += raised
        assert got == want, f"{len(got)} rows, not {len(want)}"
        counts["passes"] += 1


def resumed_sometimes(ds, chance, it, _):
    return resumed(ds, it) if chance.random() < 0.3 else it


def read_what_is_replaced(store, chance, run, cache, counts):
    """Files that become others of the same length while they are read, some of them from the cache."""
    urls, sizes = files(store, chance, run)
    cached = cache.choose()
    ds = hr.TextLineDataset(urls).with_options(store.patient(timeout=TIMEOUT, retries=1, **cache.options))
    if cached and chance.random() < 0.7:
        list(ds.take(chance.randrange(sum(sizes))))
    counts["passes"] += 1
    total, got = sum(sizes), []
    when, which = chance.randrange(total), chance.sample(range(len(urls)), chance.randint(1, len(urls)))
    ended = False
    with ds.iterator() as it:
        try:
            for row in it:
                if len(got) == when:
                    for i in which:
                        store.put(f"{run}-{i}", lines(i, sizes[i], 1))
                        counts["objects replaced"] += 1
                got.append(row.split())
            ended = True
        except (hr.TransportError, hr.StateError) as error:
            assert "replaced" in str(error) or "changed" in str(error), error
            counts["errors that say so"] += 1
    by_file = collections.defaultdict(list)
    for number, row, version in got:
        by_file[int(number)].append((int(row), version))
    for number, rows in by_file.items():
        assert [row for row, _ in rows] == list(range(len(rows))), "rows of a file in order, each once"
        assert len({version for _, version in rows}) == 1, "rows of two versions of a file"
        assert len(rows) == sizes[number] or (not ended and number == max(by_file)), "a file that was not read whole"
    assert not ended or len(got) == total


def tried(kind, reads, chance):
    """Passes over a store until there were this many requests for data; a summary, None without that store."""
    counts = collections.Counter()
    with opened(kind) as store:
        if store is None:
            return None
        before = remote.BLOCK, remote.READ_AHEAD_BYTES, remote.MIN_RANDOM_READ_BYTES
        remote.BLOCK, remote.READ_AHEAD_BYTES, remote.MIN_RANDOM_READ_BYTES = BLOCK, BLOCK // 4, BLOCK // 4
        try:
            with tempfile.TemporaryDirectory() as folder, counted_ranges(counts):
                cache = Cache(f"{folder}/cache", chance, counts)
                while (done := sum(r.is_data for r in store.proxy.requests)) < reads:
                    work = read_what_is_replaced if chance.random() < 0.3 else read_under_faults
                    work(store, chance, counts["passes"], cache, counts)
                cache.count()
        finally:
            remote.BLOCK, remote.READ_AHEAD_BYTES, remote.MIN_RANDOM_READ_BYTES = before
        counts["reads"], counts["faults"] = done, store.proxy.faults
        counts.update({f"of {kind}": number for kind, number in sorted(store.proxy.counts.items())})
    assert our_threads() == [], "threads are left"
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=3000, help="requests for data, of all stores together")
    parser.add_argument("--on", choices=["http", "s3", "gs"], action="append")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)
    kinds = options.on or ["http", "s3", "gs"]
    seed = random.randrange(10**9) if options.seed is None else options.seed
    print(f"stores from seed {seed}", flush=True)
    total = collections.Counter()
    for kind in kinds:
        started = time.monotonic()
        counts = tried(kind, options.reads // len(kinds), random.Random(seed))
        if counts is None:
            continue
        total.update(counts)
        print(f"{kind}: {said(counts)}; {time.monotonic() - started:.0f} s", flush=True)
    print(f"all: {said(total)}; nothing went wrong")


def said(counts):
    shown = {name: number for name, number in counts.items() if not name.startswith("of ")}
    each = ", ".join(
        f"{number} {name.removeprefix('of ')}" for name, number in counts.items() if name.startswith("of ")
    )
    return ", ".join(f"{number:,} {name}" for name, number in shown.items()) + f" ({each})"


if __name__ == "__main__":
    sys.exit(main())
