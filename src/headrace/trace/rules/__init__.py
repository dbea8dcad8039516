"""Batching rules: how an operation on rows runs on whole blocks, bit for bit. One table, split by family.

A rule maps a call to a kernel, or None if it cannot promise the same bits: then the operation itself is called row by
row. What has no rule and is not in `ROWWISE` is not traced.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.trace.errors import Untraceable
from headrace.trace.rules import casts, draws, elementwise, indexing, linear, ordering, reductions, shapes
from headrace.trace.rules.common import LAYOUT_FREE, Rule, by_row, laid_out_alike, self_test
from headrace.trace.values import Call, Kernel

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **casts.RULES,
    **shapes.RULES,
    **indexing.RULES,
    **ordering.RULES,
    **reductions.RULES,
    **linear.RULES,
    **draws.RULES,
}

ROWWISE = frozenset(RULES) | {
    "angle", "average", "builtin round", "convolve", "corrcoef", "correlate", "cov", "cross", "diagonal", "ediff1d",
    "fft", "fft2", "fftn", "gradient", "ifft", "ifft2", "ifftn", "interp", "irfft", "kron", "median", "nanargmax",
    "nanargmin", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile",
    "nanstd", "nansum", "nanvar", "outer", "percentile", "quantile", "rfft", "sinc", "trace", "trapezoid", "unwrap",
    "vander", "det", "inv", "cholesky", "slogdet", "matrix_power", "multi_dot", "polyval", "i0", "nan_to_num",
    "isin", "packbits", "unpackbits", "histogram", "choose", "partition", "argpartition", "lexsort", "triu", "tril",
    "diag", "diagflat", "round", "around", "fix", "cond", "matrix_norm", "vector_norm", "eigvalsh", "meshgrid",
    "apply_over_axes", "ptp", "bincount", "mT", "view", "insert", "delete", "append", "resize",
}  # fmt: skip
"""Operations that may run row by row: shape and dtype of their results do not depend on values."""


def chooser(exact: bool) -> Callable[[Call], tuple[Kernel, bool, bool]]:
    """Return the function that chooses kernels: bit-exact ones, or the fastest if last bits may differ."""

    def choose(call: Call) -> tuple[Kernel, bool, bool]:
        rule = RULES.get(call.name)
        if rule is None and call.name.partition(".")[0] in elementwise.UFUNCS:
            rule = elementwise.ufunc
        kernel = rule(call, exact) if rule is not None else None
        if kernel is not None:
            made = self_test(call, kernel, exact)
            if made is not None:
                return kernel, False, laid_out_alike(made, call.sample)
        if rule is None and call.name not in ROWWISE:
            raise Untraceable(f"uses {call.name}, which is not traced")
        if exact and not all(v.faithful for v in call.values) and call.name not in LAYOUT_FREE:
            raise Untraceable(f"{call.name} of an array whose order in memory matters")
        return by_row(call), True, _dense(call.sample)

    return choose


def _dense(sample: object) -> bool:
    several = sample if isinstance(sample, tuple | list) else [sample]
    return all(not isinstance(one, np.ndarray) or one.flags.c_contiguous for one in several)
