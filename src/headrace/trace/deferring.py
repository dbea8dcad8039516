"""Operations that wait until the next one says what it needs, so that only the cropped part of an image is decoded."""

from __future__ import annotations

import numpy as np

from headrace.core.types import Array
from headrace.trace.scaling import CASTS, DIVIDE, next_operation, number_of
from headrace.trace.values import Affine, Deferred, Fresh, Kernel, Operand, Step, Value, Values


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
            _scale_at_once(steps, step, reader.uses[0], kept)


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


def _scale_at_once(steps: list[Step], step: Step, made: Value, kept: set[int]) -> None:
    """Let the operation compute with its floats, if nothing else reads them: with numbers, or with one per channel."""
    if not _is_float32(made) or made.sample.ndim != IMAGE_RANK:
        return
    chain: list[Step] = []
    operations: list[tuple[int, Operand]] = []
    slot, channels = made.slot, made.sample.shape[-1]
    while (after := next_operation(steps, slot, made.sample, kept)) is not None:
        following, kind, operand = after
        if number_of(operand) is None and not _may_be_per_channel(operand, channels):
            break
        chain.append(following)
        operations.append((kind, operand))
        slot = following.slot
    if chain:
        assert step.defer is not None
        step.defer()
        chain[-1].kernel = _scaled(made.slot, channels, chain, operations)
        for between in chain[:-1]:
            between.kernel = _nothing


IMAGE_RANK = 3


def _may_be_per_channel(item: Operand, channels: int) -> bool:
    return isinstance(item, Value) and not item.batched and _per_channel(item.sample, channels) is not None


def _per_channel(array: object, channels: int) -> Array | None:
    """Return the numbers of an array in float32 that has one for all channels, or one for each, and no other axis."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not 1 <= array.ndim <= IMAGE_RANK:
        return None
    return array.reshape(-1) if array.shape[-1] == array.size and array.size in (1, channels) else None


def _scaled(slot: int, channels: int, chain: list[Step], operations: list[tuple[int, Operand]]) -> Kernel:
    one_by_one = [(step.slot, step.kernel) for step in chain]

    def either(values: Values, n: int) -> object:
        column = values[slot]
        if isinstance(column, Deferred):
            how = _affine(values, channels, operations)
            made = None if how is None else column.scaled(how)
            if made is not None:
                return made
            values[slot] = column.column()
        for step_slot, kernel in one_by_one:
            values[step_slot] = kernel(values, n)
        return values[chain[-1].slot]

    return Fresh(either)


def _affine(values: Values, channels: int, operations: list[tuple[int, Operand]]) -> Affine | None:
    """Return the operations with their numbers; None if these are not finite, of another shape now, or divide by 0."""
    numbers = np.empty((len(operations), channels), np.float32)
    for row, (kind, operand) in zip(numbers, operations, strict=True):
        number = number_of(operand)
        found = _per_channel(values[operand.slot], channels) if number is None else number
        if found is None:
            return None
        row[:] = found
        if not np.isfinite(row).all() or (kind == DIVIDE and not row.all()):
            return None
    return Affine(np.array([kind for kind, _ in operations], np.int64), numbers)


def _nothing(values: Values, n: int) -> object:  # noqa: ARG001 - a kernel
    return None
