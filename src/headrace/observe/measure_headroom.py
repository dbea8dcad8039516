"""How much faster the steps would be with free data: `ds.headroom(step_fn)`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.core.types import Nested

RESIDENT = 8
"""How many elements are kept to be used again."""
MIN_STEPS = 3
"""Fewer steps give no rate."""


@dataclass(frozen=True)
class Headroom:
    """Time per step with the data of a pipeline, and with data that are in memory already. Prints as one line.

    Attributes:
        steps: Number of steps that were timed with the data of the pipeline.
        seconds_per_step: How long such a step took.
        free_seconds_per_step: How long a step takes on elements in memory.
        first_seconds: How long the first element took, which is not part of a step.
    """

    steps: int
    seconds_per_step: float
    free_seconds_per_step: float
    first_seconds: float

    @property
    def speedup(self) -> float:
        """How many times faster the steps would be with free data."""
        return max(1.0, self.seconds_per_step / self.free_seconds_per_step)

    @property
    def share(self) -> float:
        """The share of the time that data cost."""
        return 1.0 - 1.0 / self.speedup

    def __str__(self) -> str:
        return (
            f"with free data the steps would be × {self.speedup:.2f} as fast: {self.free_seconds_per_step * 1e3:.3g} "
            f"ms instead of {self.seconds_per_step * 1e3:.3g} ms ({self.share:.0%} of the time goes to data; "
            f"{self.steps} steps, the first element took {self.first_seconds:.3g} s)"
        )


def headroom(data: Iterable[object], step_fn: Callable[[Nested], object], *, seconds: float = 5.0) -> Headroom:
    """Measure how much faster the steps would be with free data.

    Steps run on the elements as they come, then on a few that are kept in memory, with the pipeline closed. The
    difference is what data cost, whatever the reason: waiting, copies, or threads that hold the GIL or the CPU while a
    step runs. Works on any iterable, for example a PyTorch DataLoader.

    Args:
        data: A dataset, a loader or any other iterable. It is iterated once, for a part.
        step_fn: One training step: called with each element. With a device that works asynchronously it must wait for
            the device, e.g. by reading the loss.
        seconds: How long to measure with data as they come; half of it more without.

    Returns:
        A Headroom, which prints as one line.

    Raises:
        ValueError: The data end before a few steps are done.

    >>> found = hr.observe.headroom(hr.Dataset.range(1000).batch(10), lambda batch: batch.sum(), seconds=0.05)
    >>> found.speedup >= 1
    True
    """
    it = iter(data)
    try:
        measured = timed_steps(it, step_fn, seconds)
    finally:
        close_iterator(it)
    if measured.steps < MIN_STEPS:
        raise ValueError(f"headroom needs at least {MIN_STEPS} steps; the data gave {measured.steps}")
    free = free_step(measured.resident, step_fn, seconds / 2)
    return Headroom(measured.steps, measured.seconds / measured.steps, free, measured.first_seconds)


@dataclass(frozen=True)
class TimedSteps:
    """Steps on elements as they come. The first element is not one of them."""

    steps: int
    seconds: float
    waited_seconds: float
    first_seconds: float
    resident: list[Any]


def timed_steps(
    it: Any,
    step_fn: Callable[[Nested], object] | None,
    seconds: float,
    after_first: Callable[[], None] = lambda: None,
) -> TimedSteps:
    """Run steps for so long. `after_first` is called when the first element is there and its step is done."""
    clock = time.perf_counter
    resident: list[Any] = []
    began = clock()
    resident.extend(islice(it, 1))
    first = clock() - began
    if step_fn is not None and resident:
        step_fn(resident[0])  # what the first step prepares is not counted
    after_first()
    began = asked = clock()
    steps, waited = 0, 0.0
    for element in it:
        given = clock()
        waited += given - asked
        if step_fn is not None:
            if len(resident) < RESIDENT:
                resident.append(element)
            step_fn(element)
        steps += 1
        asked = clock()
        if asked - began >= seconds:
            break
    return TimedSteps(steps, clock() - began, waited, first, resident)


def close_iterator(it: object) -> None:
    """End a pass, if the iterator can be told to."""
    close = getattr(it, "close", None)
    if close is not None:
        close()


def free_step(resident: list[Any], step_fn: Callable[[Nested], object], seconds: float) -> float:
    """Seconds of one step on elements that are there already."""
    clock = time.perf_counter
    began, steps = clock(), 0
    while steps < MIN_STEPS or clock() - began < seconds:
        step_fn(resident[steps % len(resident)])
        steps += 1
    return (clock() - began) / steps
