"""A timeline of a pass: what its stages did, sampled into a buffer of fixed size."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from headrace.core.types import JsonObject
from headrace.observe.gil import GilSampler
from headrace.observe.live import snapshot

if TYPE_CHECKING:
    from headrace.iterator import Iterator

GIL_INTERVAL_SECONDS = 0.02
MAX_SAMPLES = 600
"""When this many are kept, every second one is dropped and the interval doubles."""


class Recorder:
    """Samples an iterator on a thread of its own, until it is closed or the iterator is let go.

    Beside it another thread notices how much the GIL is held. A sample costs what `it.stats()` costs, some tens of
    microseconds, whatever the pipeline does meanwhile. The first sample is taken at the start. The interval doubles as
    the run gets longer, so the buffer has a fixed size. With `calls`, stages keep how long their calls took.
    """

    def __init__(self, it: Iterator, interval_seconds: float, *, calls: bool = False) -> None:
        self.calls = calls
        self._stop = stop = threading.Event()
        gil = GilSampler(GIL_INTERVAL_SECONDS)
        self.gil: GilSampler = gil

        def end(_: object) -> None:
            stop.set()
            gil.stop()

        self._iterator = weakref.ref(it, end)
        self._interval = interval_seconds
        self._samples: list[JsonObject] = [sample_of(snapshot(it))]
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._record, name="headrace-recorder", daemon=True)
        self._thread.start()
        gil.start()

    def _record(self) -> None:
        while not self._stop.wait(self._interval):
            it = self._iterator()
            if it is None:
                return
            self.take(it)
            del it

    def take(self, it: Iterator) -> None:
        """Take a sample now."""
        made = sample_of(snapshot(it))
        with self._lock:
            self._samples.append(made)
            if len(self._samples) >= MAX_SAMPLES:
                self._samples = self._samples[::2]
                self._interval *= 2

    def samples(self) -> list[JsonObject]:
        """The samples so far."""
        with self._lock:
            return list(self._samples)

    def close(self) -> None:
        """Take no more samples."""
        self._stop.set()
        self.gil.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def sample_of(found: JsonObject) -> JsonObject:
    """The numbers of a snapshot that change."""
    starved = found["starvation"]
    return {
        "time": found["time"],
        "clock": time.perf_counter(),
        "delivered": found["delivered"],
        "waited_s": starved["waited_s"],
        "computed_s": starved["computed_s"],
        "memory": found["memory"].get("in_use", 0),
        "stages": [
            [s["rows"], s["bytes"], s["busy_s"], s["waiting_s"], s["room_s"] + s["memory_s"], s["ready"]]
            for s in found["stages"]
        ],
    }
