"""When a scan runs on the pool, and how large its cuts are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScanPolicy:
    """The numbers of a scan. They change when rows are made, never which rows there are."""

    serial_nanoseconds: int = 4_000_000
    """How long the consumer works alone before the pool runs ahead: short passes need no thread.

    Starting threads, cutting the source and refilling the caches takes about a millisecond of CPU time.
    """
    first_cut_bytes: int = 256 << 10
    min_cut_bytes: int = 32 << 10
    max_cut_bytes: int = 4 << 20
    first_cut_rows: int = 16
    max_cut_rows: int = 1 << 18
    min_threads: int = 0
    """The smallest number of threads, on however few CPUs."""
    overhead_nanoseconds_per_byte: float = 0.2
    """The cost of a scan by cuts besides the work: finding cuts, cold caches, joining blocks into batches."""
    initial_threads: int = 4
    """How many workers a scan begins with."""
    enough_use: float = 0.6
    """More workers are added while each one spends this share of its time on work that is not lost to the others."""
    min_gain: float = 1.2
    """A scan goes on serially if all workers together do less than this many times the work of one thread."""
    evidence_nanoseconds: int = 30_000_000
    """How much CPU time of cuts it takes to find that they gain nothing."""
    efficiency: float = 0.8
    """The share of its time that one of several threads is expected to work."""

    def gains(self, threads: int, nanoseconds: int, nbytes: int) -> bool:
        """Return whether `threads` threads finish sooner than one that took `nanoseconds` for `nbytes` of rows.

        Work that is little more than copying, such as records of a mapped file into batches, runs at the speed of
        memory. Two threads would use twice the CPU time and finish no sooner.
        """
        return nanoseconds * (self.efficiency * threads - 1) >= self.overhead_nanoseconds_per_byte * nbytes


TINY_CUTS = ScanPolicy(
    serial_nanoseconds=-1,
    first_cut_bytes=16,
    min_cut_bytes=1,
    max_cut_bytes=64,
    first_cut_rows=2,
    max_cut_rows=8,
    min_threads=3,
    min_gain=0.0,
    overhead_nanoseconds_per_byte=0.0,
)
"""Cuts of a few rows from the first row on, for tests: all boundaries are met on little data."""
