"""The rules from measurements to a verdict; docs/observe.md has the same table."""

from __future__ import annotations

from headrace.observe.functions import FunctionCost
from headrace.observe.remedies import remedies
from headrace.observe.verdict import Limit, Measurement, StageCost, Verdict, limits

CONSUMER_SHARE = 0.1
"""Below this share of lost time the consumer is the limit."""
FILL_SHARE = 0.5
"""From this share of the whole time on, the first element is the limit."""
SLOW_SHARE = 0.5
"""From this share of a function's time in a hundredth of its calls on, single records are the limit."""
BUSY_CPU = 0.6
"""From this share of CPU time in the calls of a function on, it computes; below WAITING_CPU it waits."""
WAITING_CPU = 0.3
GIL_SHARE = 0.4
"""If at least this share of wake-ups is late, threads are taken to wait for the GIL."""
GIL_CPU_SHARE = 1 / 3
"""From this share of the CPU time of the process on, it is the functions on several threads that hold the GIL."""
EXPLAINED_SHARE = 0.2
"""Below this share of the lost time the longest limit does not explain it …"""
DELAY_SHARE = 0.3
"""… and a thread that had no processor for this share of it does."""
MIN_FILES = 2
"""Fewer files cannot be read in parallel."""
REFUSALS_PER_STEP = 0.2
"""From this many waits for memory in a step on, the budget is the limit."""


def judge(m: Measurement) -> Verdict:
    """The verdict on a measurement: the first rule that holds."""
    ranked = _gil_first(m, limits(m))
    top = ranked[0] if ranked else Limit(0.0)
    following = ranked[1].where if len(ranked) > 1 and ranked[1].seconds > 0.05 * m.seconds else ""
    limit, where, site = _limit(m, top)
    bound = limit if limit in ("consumer", "transfer") else "input"
    if limit == "consumer":
        following = top.where if top.seconds > 0.05 * m.seconds else ""
    return Verdict(bound, limit, m.lost_share, where, site, following, remedies(m, limit, top, ranked[1:]), m)


def _gil_first(m: Measurement, ranked: list[Limit]) -> list[Limit]:
    """The limits, first a function whose threads hold the GIL: every other stage then takes long because it waits."""
    if m.gil_share is None or m.gil_share < GIL_SHARE or not m.cpu_seconds:
        return ranked
    holding = [limit for limit in ranked if limit.function is not None and limit.function.threads > 1]
    held = sum(limit.function.cpu_seconds for limit in holding if limit.function is not None)
    if not holding or held < GIL_CPU_SHARE * m.cpu_seconds:
        return ranked
    first = max(holding, key=lambda limit: 0.0 if limit.function is None else limit.function.cpu_seconds)
    return [first, *(limit for limit in ranked if limit is not first)]


def _limit(m: Measurement, top: Limit) -> tuple[str, str, str | None]:
    whole = m.seconds + m.first_seconds
    if m.shuffles and m.first_seconds >= FILL_SHARE * whole:
        return "shuffle fill", m.shuffles[0], m.shuffle_site
    if m.free_seconds and m.lost_share < CONSUMER_SHARE:
        return "consumer", "the step function", None
    if m.memory_refusals >= REFUSALS_PER_STEP * max(1, m.steps):
        return "memory budget", "Options(ram_budget=…)", None
    lost = m.seconds - m.free_seconds
    if m.free_seconds and top.seconds < EXPLAINED_SHARE * lost and m.delay_seconds >= DELAY_SHARE * lost:
        return "no processor", "threads that could run have no processor", None
    if top.function is not None:
        return _limit_of_function(m, top.function), top.where, top.site
    if top.stage is None:
        return "stage", "", None
    return _limit_of_stage(m, top.stage), top.where, top.site


def _limit_of_function(m: Measurement, f: FunctionCost) -> str:
    if f.slow_share >= SLOW_SHARE:
        return "slow records"
    computing = f.computing_share
    if f.threads > 1 and m.gil_share is not None:
        return "GIL" if m.gil_share >= GIL_SHARE else "function waits" if computing < WAITING_CPU else "CPU"
    if f.threads > 1:
        return "GIL" if computing >= WAITING_CPU else "function waits"
    return "CPU" if computing >= WAITING_CPU else "function waits"


def _limit_of_stage(m: Measurement, stage: StageCost) -> str:
    if stage.is_transfer:
        return "transfer"
    if not stage.is_source:
        return "stage"
    idle = m.cpu_seconds is not None and m.cpu_seconds < BUSY_CPU * m.seconds
    if stage.files is not None and stage.files < min(m.cpus, MIN_FILES) and (idle or stage.in_store):
        return "few files"
    if stage.in_store:
        return "store"
    if not idle:
        return "stage"
    return "source waits" if stage.files is None else "disk"
