"""Why a trainer's feed is slow, with the copies to the device: `ds.to_torch().why_slow()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.types import Nested
from headrace.observe.functions import with_timed_functions
from headrace.observe.measure_headroom import Headroom
from headrace.observe.measure_headroom import headroom as headroom_of_any
from headrace.observe.verdict import Verdict
from headrace.observe.why import measured
from headrace.plan.datasets import dataset_of

if TYPE_CHECKING:
    from headrace.adapters.feed import Feed


def why_slow(self: Feed, seconds: float = 10.0, step: Callable[[Nested], object] | None = None) -> Verdict:
    """Run the pipeline and the copies to the device for a while, and report what limits them; see `Dataset.why_slow`.

    Args:
        seconds: How long to run the pipeline; half of it more to time steps without it.
        step: One training step, called with each element as the trainer gets it. With a device that works
            asynchronously it must wait for the device, e.g. by reading the loss.

    Returns:
        A Verdict: input-bound, transfer-bound or consumer-bound.

    >>> feed = hr.Dataset.range(1000).batch(10).to_torch()
    >>> feed.why_slow(0.05, lambda batch: batch.sum()).bound in ("input", "transfer", "consumer")
    True
    """
    plan, timers = with_timed_functions(self._node)
    observed = _copy(self)
    observed._node, observed._dataset = plan, dataset_of(plan)
    return measured(plan, timers, iter(observed), seconds, step)


def headroom(self: Feed, step_fn: Callable[[Nested], object], *, seconds: float = 5.0) -> Headroom:
    """Measure how much faster the steps would be with free data; see `Dataset.headroom`.

    Args:
        step_fn: One training step, called with each element as the trainer gets it.
        seconds: How long to measure with data as they come; half of it more without.

    Returns:
        A Headroom, which prints as one line.

    >>> feed = hr.Dataset.range(1000).batch(10).to_torch()
    >>> feed.headroom(lambda batch: batch.sum(), seconds=0.05).speedup >= 1
    True
    """
    return headroom_of_any(_copy(self), step_fn, seconds=seconds)


def _copy(feed: Feed) -> Feed:
    """The same feed over a dataset of its own: its passes are no epochs of the trainer's."""
    made: Feed = object.__new__(type(feed))
    made.__dict__.update(feed.__dict__)
    made._dataset = dataset_of(feed._dataset._node)
    made._newest = made._resume = None
    return made
