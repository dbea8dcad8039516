"""Which element of which pass a user asks about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.types import JsonObject
from headrace.errors import HeadraceError
from headrace.execute import state as states
from headrace.ops.shared.arguments import integer
from headrace.ops.with_options import for_pass
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.dataset import Dataset


class NoSuchStepError(HeadraceError, IndexError):
    """A dataset ends before the step that was asked about."""


@dataclass(frozen=True)
class Step:
    """An element of a pass: the plan with its seeds, the epoch, the number, and buffer sizes that were chosen."""

    plan: Node
    step: int
    epoch: int
    sizes: dict[str, int]


def step_of(ds: Dataset, caller: str, step: int | None, epoch: int, state: JsonObject | None) -> Step:
    """Read the arguments of a function that asks about one element; a state says what it knows."""
    plan = for_pass(ds._node)
    seeds, sizes = ds._epochs.seeds, dict(ds._epochs.sizes)
    if state is not None:
        states.check(state, plan)
        seeds, epoch, sizes = state["seeds"], state["epoch"], dict(state.get("sizes", {}))
        step = state["delivered"] - 1 if step is None else step
    if step is None:
        raise TypeError(f"{caller} needs a step, or a state")
    step, epoch = integer("step", step), integer("epoch", epoch)
    if step < 0 or epoch < 0:
        raise NoSuchStepError(f"{caller}: there is no step {step} of epoch {epoch}; both are counted from 0")
    return Step(states.with_seeds(plan, seeds) if seeds else plan, step, epoch, sizes)
