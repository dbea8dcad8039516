"""Infer a function's result sizes if its elements have sizes that only the rows determine.

A function of such elements is traced for elements of several sizes. Sizes of its results that are the same for all of
them do not depend on the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from headrace.plan.spec import Spec, TensorSpec
from headrace.trace.graph import Graph
from headrace.trace.tracing import trace
from headrace.trace.values import KINDS

SMALL_SIZES = (1, 2, 3, 31)
LARGE_SIZES = (4099, 521, 67)
MAX_VALUES = 1 << 18  # in all dummies together
MIN_TRACES = 3


def spec_for_any_sizes(fn: Callable[..., object], spec: Spec) -> Spec | None:
    """Return the spec of the results for elements of this spec, which leaves sizes open; None if it is unknown."""
    if not _is_traceable(spec):
        return None
    found: list[Graph] = []
    for size in (*SMALL_SIZES, next((n for n in LARGE_SIZES if _values(spec, n) <= MAX_VALUES), 0)):
        longer = len(found) > 2 and len(found[-1].steps) > len(found[0].steps)
        if not size or longer:  # a loop over the rows of an element, which is traced step by step
            continue
        made = trace(fn, _sized(spec, size), exact=True, any_text=True)
        if isinstance(made, Graph):
            found.append(made)
    if len(found) < MIN_TRACES or len({graph.structure for graph in found}) > 1:
        return None
    return reduce(Spec.common, [graph.spec for graph in found])


def _is_traceable(spec: Spec) -> bool:
    if spec.structure is None or not all(isinstance(s, TensorSpec) and s.shape is not None for s in spec.leaves):
        return False
    numbers = [s for s in spec.leaves if s.dtype is not None and s.dtype.kind in KINDS]
    return any(None in (s.shape or ()) for s in numbers)


def _sized(spec: Spec, size: int) -> Spec:
    """Replace open sizes: by the same ones for all leading axes, by others for axes after them."""
    leaves = []
    for s in spec.leaves:
        shape = s.shape
        if shape is not None and s.dtype is not None and s.dtype.kind in KINDS:
            shape = tuple(size + axis if n is None else n for axis, n in enumerate(shape))
        leaves.append(s.with_shape(shape))
    return Spec(spec.structure, tuple(leaves))


def _values(spec: Spec, size: int) -> int:
    return sum(math.prod(n or 0 for n in s.shape or ()) for s in _sized(spec, size).leaves)
