"""Bytes that become floats and are scaled at once, such as pixels: one step in place of several."""

from __future__ import annotations

import math

import numpy as np

from headrace import _native
from headrace.columns.dense import room_for
from headrace.core.types import Component
from headrace.trace.values import Fresh, Kernel, Operand, Result, Scaled, Step, Value, Values

CASTS = frozenset({"astype", "asarray", "array", "scalar type"})
ARITHMETIC = {"add": 0, "subtract": 1, "multiply": 2, "divide": 3, "true_divide": 3}
DIVIDE = ARITHMETIC["divide"]
EITHER_WAY = frozenset({"add", "multiply"})
EXACT_INTEGERS = 1 << 24
"""Up to this every integer is exact in float32."""


def scale_at_once(steps: list[Step], kept: set[int]) -> None:
    """Let the last of the steps that cast bytes to float32 and compute with numbers do all of their work.

    IEEE 754 defines the result of each operation, so it does not matter which step does it. Memory takes the time: the
    floats are written once, and not read again.
    """
    for first in steps:
        source = _bytes_to_floats(first)
        if source is None:
            continue
        chain, operations = [first], []
        while (after := next_operation(steps, chain[-1].slot, first.sample, kept)) is not None:
            step, kind, number = after[0], after[1], number_of(after[2])
            if number is None or (number == 0 and kind == DIVIDE):
                break
            chain.append(step)
            operations.append((kind, number))
        if operations:
            how = Scaled(
                source.sample.size,
                np.array([kind for kind, _ in operations], np.int64),
                np.array([number for _, number in operations], np.float32),
            )
            chain[-1].kernel = _all_at_once(source.slot, chain, how)
            for step in chain[:-1]:
                step.kernel = _pass_on(source.slot)
            _scale_where_read(steps, source, chain[-1], how, kept)


def _bytes_to_floats(step: Step) -> Value | None:
    """Return the bytes that a step makes float32 of."""
    if step.name not in CASTS or step.errors or not isinstance(step.kernel, Fresh) or len(step.uses) != 1:
        return None
    source, made = step.uses[0], step.sample
    if not source.batched or not isinstance(source.sample, np.ndarray) or source.sample.dtype != np.uint8:
        return None
    return source if made.dtype == np.float32 and made.shape == source.sample.shape else None


def next_operation(steps: list[Step], slot: int, sample: Component, kept: set[int]) -> tuple[Step, int, Operand] | None:
    """Return the step that alone reads a value in float32, if it adds, subtracts, multiplies or divides, with the kind
    of arithmetic and the other operand.
    """
    readers = [step for step in steps if any(value.slot == slot for value in step.uses)]
    if len(readers) != 1 or slot in kept:
        return None
    (step,) = readers
    call, plain = step.call, step.name in ARITHMETIC and not step.errors and isinstance(step.kernel, Fresh)
    if call is None or not plain or call.kwargs or len(call.args) != 2:
        return None
    if step.sample.dtype != np.float32 or step.sample.shape != sample.shape:
        return None
    given, other = call.args
    if not _is_slot(given, slot) and step.name in EITHER_WAY:
        given, other = other, given
    return (step, ARITHMETIC[step.name], other) if _is_slot(given, slot) and not _is_slot(other, slot) else None


def _is_slot(item: object, slot: int) -> bool:
    return isinstance(item, Value) and item.slot == slot


def number_of(item: Operand) -> float | None:
    """Return an operand that is the same number forever, as NumPy takes it beside float32."""
    value = item.sample if isinstance(item, Value) and item.static else item
    if type(value) is int and abs(value) > EXACT_INTEGERS:
        return None
    if type(value) not in (int, float, np.float32):
        return None
    with np.errstate(over="ignore"):
        number = float(np.float32(value))
    return number if math.isfinite(number) else None


def _all_at_once(slot: int, chain: list[Step], how: Scaled) -> Kernel:
    one_by_one = [(step.slot, step.kernel) for step in chain]

    def kernel(values: Values, n: int) -> Result:
        source = values[slot]
        if source.dtype != np.uint8 or not source.flags.c_contiguous:
            for step_slot, step in one_by_one:
                values[step_slot] = step(values, n)
            return values[step_slot]
        out = room_for(source.shape, np.float32)
        _native.scale_bytes(source.reshape(-1), how.what, how.numbers, out.reshape(-1))
        return out

    return Fresh(kernel)


def _scale_where_read(steps: list[Step], source: Value, last: Step, how: Scaled, kept: set[int]) -> None:
    """Let the operation that finds the text return scaled numbers, if its bytes have no other use: they are never a
    column.

    The steps from there to the `last` one then have nothing to do. If it is a text after all, everything runs as usual.
    """
    makers = {slot: step for step in steps for slot in (step.slot, *(step.gives or ()))}
    uses = [value.slot for step in steps for value in step.uses]
    between: list[Step] = []
    slot = source.slot
    while uses.count(slot) == 1 and slot not in kept and (step := makers.get(slot)) is not None:
        if step.scale is not None:
            if between and between[-1].reads_all and step.scale(slot, how):
                for other in between:
                    other.kernel = _unless_scaled(slot, other.kernel)
                last.kernel = Fresh(_scaled_or(slot, source.sample.shape, last.kernel))
            return
        if not (_only_reshapes(step) or step.reads_all) or len(step.uses) != 1 or step.errors:
            return
        between.append(step)
        slot = step.uses[0].slot


def _only_reshapes(step: Step) -> bool:
    """Return whether it gives the same values in the same order, of the same rows or of rows of a length that is
    supposed.
    """
    call = step.call
    return step.name in ("", "reshape") and not (call and (call.kwargs or any(isinstance(a, str) for a in call.args)))


def _is_scaled(found: object) -> bool:
    return type(found) is np.ndarray and found.dtype == np.float32


def _unless_scaled(text: int, kernel: Kernel) -> Kernel:
    return lambda values, n: None if _is_scaled(values[text]) else kernel(values, n)


def _scaled_or(text: int, shape: tuple[int, ...], kernel: Kernel) -> Kernel:
    def either(values: Values, n: int) -> Result:
        found = values[text]
        return found.reshape(n, *shape) if _is_scaled(found) else kernel(values, n)

    return either


def _pass_on(slot: int) -> Kernel:
    return lambda values, _: values[slot]
