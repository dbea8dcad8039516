"""Let steps write into memory that is no longer read."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.columns import Varied
from headrace.core.types import Component
from headrace.trace.values import Fresh, Kernel, Operand, Result, Step, Values


def reuse_memory(steps: list[Step], kept: set[int], own: frozenset[int] = frozenset()) -> list[Step]:
    """Return the steps, some of which write into an array that is no longer read: warm memory costs less.

    `own` are the slots of results of our operations, which have their own memory if they are writable.
    """
    uses = [value.slot for step in steps for value in step.uses]
    makers = {step.slot: step for step in steps}
    for step in steps:
        into = step.kernel.into if isinstance(step.kernel, Fresh) else None
        for value in step.uses if into is not None else ():
            made = makers.get(value.slot)
            again = uses.count(value.slot) > 1 or value.slot in kept
            if again or value.sample is None or not _alike(value.sample, step.sample):
                continue
            if value.slot in own and isinstance(step.kernel, Fresh):
                step.kernel = Fresh(_into_if_writable(into, value.slot, value.sample, step.kernel.kernel), None)
                break
            if made is None or not isinstance(made.kernel, Fresh):
                continue
            step.kernel = Fresh(_into(into, value.slot), None)
            break
    return steps


def _into(into: Any, slot: int) -> Kernel:
    return lambda values, _: into(values, values[slot])


def _into_if_writable(into: Any, slot: int, sample: Component, otherwise: Kernel) -> Kernel:
    shape, dtype = sample.shape, sample.dtype

    def kernel(values: Values, n: int) -> Result:
        given = values[slot]
        fine = type(given) is np.ndarray and given.flags.writeable and given.flags.c_contiguous
        if not fine or given.shape[1:] != shape or given.dtype != dtype or _is_shared(values, slot):
            return otherwise(values, n)
        return into(values, given)

    return kernel


def _is_shared(values: Values, slot: int) -> bool:
    """Return whether another value may share the memory, for example if an operation returned its argument."""
    memory = _memory(values[slot])
    return any(_memory(value) is memory for i, value in enumerate(values) if i != slot)


def _memory(value: object) -> object:
    """Return the object that holds the memory of a column."""
    while (base := getattr(value, "base", None)) is not None:
        value = base
    data = getattr(value, "data" if isinstance(value, Varied) else "values", None)
    return value if isinstance(value, np.ndarray) or not isinstance(data, np.ndarray) else _memory(data)


def _alike(a: Operand, b: Operand) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and (not isinstance(a, np.ndarray) or a.strides == b.strides))
