"""Slices that begin at a data-dependent position and have the same length in every row: `x[i : i + 24, j : j + 24]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.trace.errors import Untraceable
from headrace.trace.rules.common import constant, is_known, operand, operand_rows
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values


def moving(index: object) -> bool:
    """Return whether an index holds a slice by data."""
    return any(isinstance(p, slice) and not is_known(p) for p in (index if isinstance(index, tuple) else (index,)))


@dataclass
class Slide:
    """A slice along one axis of a row: its start and end, as data, and its length."""

    axis: int
    size: int
    start: Value
    stop: Value
    length: int

    def starts(self, values: Values) -> Result:
        """Return where the slice begins in each row. Raise if NumPy would truncate it."""
        first, end = (values[v.slot].astype(np.int64) for v in (self.start, self.stop))
        if not ((first >= 0) & (first <= self.size - self.length) & (end - first == self.length)).all():
            raise IndexError("a slice reaches beyond the array")
        return first

    @property
    def within(self) -> bool:
        """Whether it is known without the data that no slice reaches beyond the array."""
        found = _bounds(self.start)
        largest = min(np.iinfo(v.sample.dtype).max for v in (self.start, self.stop))  # beyond it numbers wrap around
        return found is not None and found[0] >= 0 and found[1] <= min(self.size, largest) - self.length


def _windows(block: Operand, fixed: tuple[Operand, ...], slides: list[Slide], *, writeable: bool = False) -> Result:
    """Return a view with axes for the rows, for the starts of slices, and for their contents."""
    view = block[(slice(None), *fixed)]
    shape = list(view.shape)
    for slide in slides:
        shape[1 + slide.axis] = slide.length
    begins = [slide.size - slide.length + 1 for slide in slides]
    steps = [view.strides[1 + slide.axis] for slide in slides]
    whole = (len(view), *begins, *shape[1:])
    return as_strided(view, whole, (view.strides[0], *steps, *view.strides[1:]), writeable=writeable)


def window_getitem(call: Call) -> Kernel:
    """Such a part of each row."""
    source, index = call.args
    fixed, slides = _taken_apart(source, index)
    if any(call.sample.shape[s.axis] != s.length for s in slides):
        raise Untraceable("slices beyond the end of an array")
    call.loose = not all(s.within for s in slides)
    rows = operand_rows(source)

    def kernel(values: Values, n: int) -> Result:
        return _windows(rows(values, n), fixed, slides)[(np.arange(n), *[s.starts(values) for s in slides])]

    return kernel


def window_setitem(call: Call) -> Kernel:
    """Such a part of each row, written to."""
    target, index, value = call.args
    fixed, slides = _taken_apart(target, index)
    before = operand_rows(target)
    given = operand(value, call.sample[fixed].ndim)

    def kernel(values: Values, n: int) -> Result:
        made = np.array(before(values, n), order="C")
        begins = [s.starts(values) for s in slides]
        _windows(made, fixed, slides, writeable=True)[(np.arange(n), *begins)] = given(values)
        return made

    return kernel


def _taken_apart(source: Operand, index: Operand) -> tuple[tuple[Operand, ...], list[Slide]]:
    """Return the index without its slices by data, and these."""
    parts = list(index) if isinstance(index, tuple) else [index]
    shape = source.sample.shape
    if Ellipsis in [p for p in parts if not isinstance(p, Value)]:
        place = next(i for i, p in enumerate(parts) if p is Ellipsis)
        used = sum(p is not None and p is not Ellipsis for p in parts)
        parts[place : place + 1] = [slice(None)] * (len(shape) - used)
    slides: list[Slide] = []
    fixed: list[Operand] = []
    of_source = of_result = 0
    for part in parts:
        still = constant(part) if is_known(part) else slice(None)
        number = isinstance(still, int | np.integer) and not isinstance(still, bool)
        if not number and still is not None and not isinstance(still, slice):
            raise Untraceable("slices by data and by other means at once")
        if not is_known(part):
            slides.append(Slide(of_result, shape[of_source], part.start, part.stop, _length(part)))
        fixed.append(still)
        of_source += still is not None
        of_result += not number
    return tuple(fixed), slides


def _length(part: object) -> int:
    if isinstance(part, slice) and is_known(part.step) and constant(part.step) in (None, 1):
        (start, before), (stop, after) = _line(part.start), _line(part.stop)
        if isinstance(start, Value) and start is stop and after > before:
            return after - before
    raise Untraceable("slices by data, and not `i : i + length`")


def _line(value: object) -> tuple[Any, int]:
    """Return a number as another one plus a constant."""
    offset = 0
    while isinstance(value, Value) and value.call is not None and value.call.name in ("add", "subtract"):
        one, other = value.call.args
        if value.call.name == "add" and _whole(one):
            one, other = other, one
        if not _whole(other) or not isinstance(one, Value):
            break
        offset += int(constant(other)) * (1 if value.call.name == "add" else -1)
        value = one
    number = isinstance(value, Value) and value.sample.dtype.kind in "iu" and not np.ndim(value.sample)
    return (value if number else None), offset


def _whole(item: object) -> bool:
    return is_known(item) and isinstance(constant(item), int | np.integer) and not isinstance(constant(item), bool)


def _bounds(value: Value) -> tuple[int, int] | None:
    """Return the least and the greatest that a drawn number can be, None for what is not drawn between constants."""
    drawn, offset = _line(value)
    while drawn is not None and drawn.call is not None and drawn.call.name == "getitem":
        drawn = drawn.call.args[0]
    call = drawn.call if isinstance(drawn, Value) else None
    if call is None or call.name != "rng.integers":
        return None
    low, high = call.kwargs["low"], call.kwargs.get("high")
    low, high = (0, low) if high is None else (low, high)
    if not _whole(low) or not _whole(high):
        return None
    last = int(constant(high)) - (not constant(call.kwargs.get("endpoint", False)))
    return int(constant(low)) + offset, last + offset
