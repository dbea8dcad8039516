"""Measure the share of time in which a process holds its GIL.

Method: a sampler process reads the GIL's `locked` word out of the measured process about a thousand times a second
(`pread` on `/proc/PID/mem`) and counts how often it is set. The word is inside the exported structure `_PyRuntime`.
It is found by writing two unusual switch intervals with `sys.setswitchinterval` and searching for the place that
follows both. Nothing runs inside the measured process, no GIL is taken to measure it, and holds of any length count in
proportion to their time.

Accuracy: with n samples the standard error is at most 0.5/√n: 1.6 points for one second, 0.9 for three. A thread that
was preempted while it holds the GIL counts as holding it, which is right: no other thread can take it. The sampler uses
1–2 % of one core and runs on a core that the measured process may not use, if there is one. It asks for real-time
priority; without it, a machine whose cores are all busy delays samples and biases them by up to ten points.

If `/proc/PID/mem` may not be read, or the word is not found, a thread of the measured process sleeps for a random
time and compares how late it wakes with how late it wakes in an idle interpreter, less the time for which it waited for
a CPU. That misses holds shorter than about 0.1 ms (`method` is then "delay").

    with GilMeter() as meter:
        work()
    print(meter.share, meter.method)

CPython 3.11 to 3.13 on Linux. `python benchmarks/gil_meter.py` measures loops whose share is known.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType
from typing import Self

INTERVAL_SECONDS = 0.001
DELAY_THRESHOLD_SECONDS = 0.0001
MAX_RUNTIME_BYTES = 1 << 20
PR_SET_PTRACER = 0x59616D61
PR_SET_TIMERSLACK = 29


class GilMeter:
    """Measure the GIL share between `__enter__` and `__exit__`, or between `start()` and `stop()`.

    Attributes:
        share: Part of the time in which the GIL was held, from 0 to 1; None before `stop()`.
        samples: Number of samples that `share` is made of.
        method: "memory" or "delay".
    """

    def __init__(self) -> None:
        self.share: float | None = None
        self.samples = 0
        self._sampler: _MemorySampler | _DelaySampler
        try:
            self._sampler = _MemorySampler()
        except (OSError, LookupError):
            self._sampler = _DelaySampler()
        self.method = self._sampler.method

    def start(self) -> None:
        """Begin to count."""
        self._before = self._sampler.counts()

    def stop(self) -> None:
        """Set `share` and `samples` to what was counted since `start()`."""
        held, samples = self._sampler.counts()
        self.samples = samples - self._before[1]
        self.share = (held - self._before[0]) / self.samples if self.samples else None

    def close(self) -> None:
        """End the sampler."""
        self._sampler.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.close()


def _runtime_bytes() -> tuple[int, bytes]:
    """The address of `_PyRuntime` and the writable memory that begins there."""
    try:
        address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    except ValueError as error:
        raise LookupError("this Python does not export _PyRuntime") from error
    end = address
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, mode = line.split()[:2]
        start, stop = (int(part, 16) for part in bounds.split("-"))
        if start <= end < stop and mode.startswith("rw"):  # .data, and .bss where it follows at once
            end = stop
    return address, ctypes.string_at(address, min(end - address, MAX_RUNTIME_BYTES))


def _places(microseconds: int) -> set[int]:
    """Offsets in `_PyRuntime` of a GIL with this switch interval, held now: interval, last holder, locked."""
    sys.setswitchinterval(microseconds / 1e6)
    address, memory = _runtime_bytes()
    found = set()
    wanted = struct.pack("@L", microseconds)
    at = memory.find(wanted)
    while at >= 0:
        _, holder, locked = struct.unpack_from("@LPi", memory, at)
        if holder and locked == 1:
            found.add(address + at + struct.calcsize("@LP"))
        at = memory.find(wanted, at + 8)
    return found


def locked_address() -> int:
    """Return the address of the GIL's `locked` word in this process.

    Raises:
        LookupError: if this Python keeps its GIL elsewhere, or has none.
    """
    before = sys.getswitchinterval()
    try:
        found = _places(4973) & _places(4987)
    finally:
        sys.setswitchinterval(before)
    if len(found) != 1:
        raise LookupError(f"{len(found)} places look like the GIL of Python {sys.version.split()[0]}")
    return found.pop()


class _MemorySampler:
    """A process that reads this one's memory."""

    method = "memory"

    def __init__(self) -> None:
        address = locked_address()
        command = [sys.executable, "-I", "-S", __file__, "--sample", str(os.getpid()), str(address)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        free = set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0)
        with contextlib.suppress(OSError):  # a core that this machine has and this container may not use
            if free:
                os.sched_setaffinity(self._process.pid, free)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(self._process.pid), 0, 0, 0)
        try:
            self.counts()
        except (OSError, ValueError) as error:
            self.close()
            raise LookupError("the memory of this process may not be read") from error

    def counts(self) -> tuple[int, int]:
        """Samples that found the GIL held, and all samples, so far."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        held, samples = map(int, self._process.stdout.readline().split())
        return held, samples

    def close(self) -> None:
        self._process.communicate()


def _sample(pid: int, address: int) -> None:
    """Sample another process until stdin ends; a byte there asks for the counts."""
    held = samples = 0
    with contextlib.suppress(OSError):  # else a busy machine delays samples, and those of busy moments most
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    os.read(0, 1)  # by now the other process has allowed it
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    asked = [0]
    while True:
        held += os.pread(memory, 4, address) != b"\0\0\0\0"
        samples += 1
        if asked:
            os.write(1, b"%d %d\n" % (held, samples))
        asked = select.select([0], [], [], random.uniform(0.5, 1.5) * INTERVAL_SECONDS)[0]
        if asked and not os.read(0, 1):
            return


class _DelaySampler:
    """A thread that wakes at random times and notes whether it then waited for the GIL."""

    method = "delay"

    def __init__(self) -> None:
        self._held = self._samples = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gil-meter", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
        file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        while not self._ended.is_set():
            duration = random.uniform(0.5, 1.5) * 5 * INTERVAL_SECONDS
            waited = int(os.pread(file, 64, 0).split()[1])
            started = perf_counter()
            sleep(duration)
            late = perf_counter() - started - duration
            late -= (int(os.pread(file, 64, 0).split()[1]) - waited) / 1e9
            self._held += late > DELAY_THRESHOLD_SECONDS
            self._samples += 1
        os.close(file)

    def counts(self) -> tuple[int, int]:
        return self._held, self._samples

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def _loop(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def _compress(seconds: float) -> None:
    data = os.urandom(1 << 22)
    end = perf_counter() + seconds
    while perf_counter() < end:
        zlib.compress(data)


def _half(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        _loop(0.004)
        sleep(0.004)


def _threads(seconds: float) -> None:
    workers = [threading.Thread(target=_loop, args=(seconds,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


KNOWN = {
    "a Python loop": (_loop, 1.0),
    "three Python loops": (_threads, 1.0),
    "half a Python loop, half asleep": (_half, 0.5),
    "zlib, which releases the GIL": (_compress, 0.0),
    "asleep": (sleep, 0.0),
}
"""Work whose share is known."""


def main() -> None:
    """Measure what is known."""
    for name, (work, expected) in KNOWN.items():
        with GilMeter() as meter:
            work(1.0)
        assert meter.share is not None
        print(f"{name}: {meter.share:.1%} of {meter.samples} samples ({meter.method}), expected {expected:.0%}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        _sample(*map(int, sys.argv[2:]))
    else:
        main()
