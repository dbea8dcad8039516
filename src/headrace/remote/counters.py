"""What a pass has asked of stores: requests, retries, bytes, hits of the cache on disk, and how long answers took."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from time import perf_counter_ns
from typing import Any

from headrace.core.types import JsonObject

FIRST_BUCKET_SECONDS = 0.001
"""The upper end of the histogram's first bucket; every other one is twice as wide as the one before."""
BUCKETS = 18
"""The last bucket ends at two minutes and holds what took longer, too."""


class StoreCounters:
    """The requests of one pass. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._failed = self._retries = self._bytes = 0
        self._hits = self._misses = 0
        self._slowest = self._nanoseconds = 0
        self._buckets = [0] * BUCKETS

    def watch(self, begun: int, request: Future[Any]) -> None:
        """Count a request that was begun at this time of `perf_counter_ns`, when its answer comes."""
        request.add_done_callback(partial(self._answered, begun))

    def _answered(self, begun: int, request: Future[Any]) -> None:
        if request.cancelled():
            return
        failed = request.exception() is not None
        answer = None if failed else request.result()
        data = getattr(answer, "first", answer)
        self.add(perf_counter_ns() - begun, len(data) if isinstance(data, bytes) else 0, failed=failed)

    def add(self, nanoseconds: int, nbytes: int, *, failed: bool = False) -> None:
        """Count a request by how long it took and how many bytes it gave."""
        bucket = max(0, int(nanoseconds / (1e9 * FIRST_BUCKET_SECONDS))).bit_length()
        with self._lock:
            self._requests += 1
            self._failed += failed
            self._bytes += nbytes
            self._nanoseconds += nanoseconds
            self._slowest = max(self._slowest, nanoseconds)
            self._buckets[min(bucket, BUCKETS - 1)] += 1

    def retried(self) -> None:
        """Count a request that is sent again because a fault may have passed."""
        with self._lock:
            self._retries += 1

    def cached(self, hits: int, misses: int = 0) -> None:
        """Count ranges that the cache on disk had, and those that it had not."""
        with self._lock:
            self._hits += hits
            self._misses += misses

    def report(self) -> JsonObject:
        """Return all numbers; `latency` has the upper end of each bucket in seconds, and how many answers it holds."""
        with self._lock:
            return {
                "requests": self._requests,
                "failed": self._failed,
                "retries": self._retries,
                "bytes": self._bytes,
                "cache_hits": self._hits,
                "cache_misses": self._misses,
                "mean_s": self._nanoseconds / 1e9 / max(1, self._requests),
                "max_s": self._slowest / 1e9,
                "latency": [[FIRST_BUCKET_SECONDS * 2**k, count] for k, count in enumerate(self._buckets)],
            }
