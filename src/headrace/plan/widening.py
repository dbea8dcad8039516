"""Components that became 64 bits wide by NumPy's rules, but would have stayed at 32 by TensorFlow's."""

from __future__ import annotations

import numpy as np

from headrace.errors import warn_once
from headrace.plan.node import Node, walk
from headrace.plan.spec import Spec, same_dtype

WIDE = (np.dtype(np.float64), np.dtype(np.complex128), np.dtype(np.int64), np.dtype(np.uint64))


def widened(before: Spec, after: Spec) -> str:
    """Return which components of `after` are of a wide dtype that none of `before` has, as text; empty if none are."""
    if before.structure is None or after.structure is None:
        return ""
    had = {s.dtype for s in before.leaves}
    numbers = any(d is not None and d.kind in "biufc" for d in had)
    found = [
        f"{path} {s.dtype}".strip()
        for path, s in zip(after.structure.paths, after.leaves, strict=True)
        if numbers and s.dtype is not None and s.dtype in WIDE and s.dtype not in had
    ]
    return f"widened to {', '.join(found)}" if found else ""


def warn_of_float64(node: Node, adapter: str) -> None:
    """Warn, once for each function, of float64 on its way to a trainer that a function made of integers."""
    double = np.dtype(np.float64)
    if not _has(node.spec, double):
        return
    for maker in walk(node):
        if not hasattr(maker, "function") or len(maker.inputs) != 1 or maker.spec.structure is None:
            continue
        before = {s.dtype for s in maker.inputs[0].spec.leaves}
        integers = any(d is not None and d.kind in "iu" for d in before)
        if integers and not any(d is not None and d.kind in "fc" for d in before) and _has(maker.spec, double):
            warn_once(
                ("float64", maker.site),
                f"{adapter}: {maker.operation} ({maker.site}) makes float64 of integers, as NumPy does when it divides "
                "them (TensorFlow: float32, of 8 and 16 bits). That is twice the bytes: write "
                "x.astype(np.float32) / 255",
            )
            return


def _has(spec: Spec, dtype: np.dtype[np.float64]) -> bool:
    return any(same_dtype(s.dtype, dtype) for s in spec.leaves)
