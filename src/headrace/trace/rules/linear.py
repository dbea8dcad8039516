"""Matrix products: one BLAS call per row, the same as for the row alone."""

from __future__ import annotations

import numpy as np

from headrace.trace.rules.common import Rule, rank
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values


def matmul(call: Call, exact: bool) -> Kernel | None:
    """`matmul` goes through a stack of matrices one by one; vectors become matrices of one row or column."""
    if len(call.args) != 2 or call.kwargs or not all(isinstance(a, Value) for a in call.args):
        return None
    a, b = call.args
    if min(rank(a), rank(b)) < 1 or max(rank(a), rank(b)) > 2:
        return None
    if exact and call.sample.dtype.kind in "fc" and 1 in (rank(a), rank(b)) and (rank(a), rank(b)) != (1, 2):
        return None
    if not exact and not b.batched and rank(a) == 1 and rank(b) == 2:
        return lambda values, _: values[a.slot] @ values[b.slot]

    def lifted(value: Operand, item: Value, vector: tuple[Operand, ...]) -> Operand:
        if rank(item) == 2:
            return value
        return value[(slice(None), *vector)] if item.batched else value[vector]

    drop = (slice(None), 0) if rank(a) == 1 else (slice(None),)
    drop = (*drop, ..., 0) if rank(b) == 1 else drop

    def kernel(values: Values, _: int) -> Result:
        left = lifted(values[a.slot], a, (None, slice(None)))
        right = lifted(values[b.slot], b, (slice(None), None))
        return np.ascontiguousarray(np.matmul(left, right)[drop])

    return kernel


def row_by_row(_call: Call, _exact: bool) -> Kernel | None:
    """Return the operation itself, called on each row: BLAS and einsum choose the order of their sums."""
    return None


RULES: dict[str, Rule] = {
    "matmul": matmul,
    **dict.fromkeys(("dot", "vdot", "inner", "einsum", "tensordot", "norm", "vecdot", "matvec", "vecmat"), row_by_row),
}
