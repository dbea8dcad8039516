"""What a process holds: descriptors, threads, shared memory and temporary files, before and after some work."""

import gc
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from headrace.storage.files import TEMPORARY
from headrace.storage.swaps import SWAP

JOIN_SECONDS = 60


class Held(NamedTuple):
    """What is held now; nothing may come to it."""

    descriptors: Counter
    threads: Counter
    shared_memory: Counter
    temporary: Counter

    @classmethod
    def now(cls, folder=None):
        """Look, once unreferenced iterators are collected and the threads that close them have ended."""
        gc.collect()
        for thread in threading.enumerate():
            if thread.name == "headrace-reaper":
                thread.join(JOIN_SECONDS)
        left = [] if folder is None else [p for p in Path(folder).rglob("*") if p.name.endswith((TEMPORARY, SWAP))]
        return cls(
            Counter(_descriptors()),
            Counter(t.name for t in threading.enumerate() if t.name.startswith("headrace-")),
            Counter(_shared_memory()),
            Counter(map(str, left)),
        )

    def since(self, before):
        """What has come to it, by kind; empty if nothing has."""
        return {name: dict(new) for name, new in zip(self._fields, map(_more, self, before), strict=True) if new}


def _more(now, before):
    return now - before


def _descriptors():
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:  # the one by which the folder was listed
            continue
        yield target.partition(":[")[0]  # a pipe is as good as another


def _shared_memory():
    return [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "memfd" in line]
