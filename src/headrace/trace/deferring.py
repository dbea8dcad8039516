"""Operations that wait until the next one says what it needs, so that only the cropped part of an image is decoded."""

from __future__ import annotations

import numpy as np

from headrace.trace.scaling import CASTS
from headrace.trace.values import Deferred, Fresh, Kernel, Step, Values


def defer_columns(steps: list[Step], kept: set[int]) -> None:
    """Let operations hand on `Deferred` columns if only the next step reads them, and accepts them.

    Args:
        steps: All steps of a graph, which are changed.
        kept: The slots of what the function returns.
    """
    for step in steps:
        if step.defer is None or step.gives is None or len(step.gives) != 1:
            continue
        reader = _only_reader(steps, step.gives[0], kept)
        if reader is None:
            continue
        if reader.takes_deferred:
            step.defer()
        elif step.takes_deferred:  # an image that was resized
            _cast_at_once(steps, step, reader, kept)


def _only_reader(steps: list[Step], slot: int, kept: set[int]) -> Step | None:
    """Return the step that alone reads a value, as its first argument."""
    readers = [step for step in steps for value in step.uses if value.slot == slot]
    alone = len(readers) == 1 and slot not in kept and readers[0].uses[0].slot == slot
    return readers[0] if alone else None


def _cast_at_once(steps: list[Step], step: Step, reader: Step, kept: set[int]) -> None:
    """Let the operation make bytes of its floats, if a cast follows, or `np.rint` and a cast."""
    assert step.defer is not None and step.gives is not None
    rounding = None
    if _rounds(reader):
        rounding, following = reader, _only_reader(steps, reader.slot, kept)
        if following is None:
            return
        reader = following
    if not _casts(reader):
        return
    step.defer()
    if rounding is not None:
        rounding.kernel = _rounded(step.gives[0], rounding.kernel)
    reader.kernel = _cast(reader.uses[0].slot, reader.sample.dtype, reader.kernel)


def _rounds(step: Step) -> bool:
    call = step.call
    return (
        step.name == "rint"
        and call is not None
        and not call.kwargs
        and len(call.args) == 1
        and _is_float32(step.uses[0])
    )


def _casts(step: Step) -> bool:
    made = step.sample
    if step.name not in CASTS or len(step.uses) != 1 or not isinstance(made, np.ndarray) or made.dtype != np.uint8:
        return False
    source = step.uses[0]
    return _is_float32(source) and source.sample.shape == made.shape


def _is_float32(value: object) -> bool:
    sample = getattr(value, "sample", None)
    return isinstance(sample, np.ndarray) and sample.dtype == np.float32


def _rounded(slot: int, kernel: Kernel) -> Kernel:
    def either(values: Values, n: int) -> object:
        column = values[slot]
        if isinstance(column, Deferred):
            deferred = column.rounded()
            if deferred is not None:
                return deferred
            values[slot] = column.column()
        return kernel(values, n)

    return either


def _cast(slot: int, dtype: np.dtype[np.generic], kernel: Kernel) -> Kernel:
    def either(values: Values, n: int) -> object:
        column = values[slot]
        if isinstance(column, Deferred):
            made = column.cast(dtype)
            if made is not None:
                return made
            values[slot] = column.column()
        return kernel(values, n)

    return Fresh(either)
