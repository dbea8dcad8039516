"""Draws: `rng.normal(...)` and the other methods of the generator that `random_map` hands to a function."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.random import BlockGenerator
from headrace.core.random.arguments import as_block_argument
from headrace.trace.errors import Untraceable
from headrace.trace.rules.common import constant, is_known, operand_rows, rank
from headrace.trace.values import Call, Kernel, Operand, Result, Value, Values

METHODS = ("random", "uniform", "normal", "bernoulli", "integers", "permutation", "choice", "shuffle")
NUMBERS = frozenset({"low", "high", "loc", "scale", "p"})
"""Arguments that may be another number for each row."""
ARRAYS = frozenset({"a", "x"})
"""Arguments that may be another array for each row; its length must not depend on data."""


def draw_rule(call: Call, _exact: bool) -> Kernel | None:
    """Return one kernel call for the numbers of all rows: a row alone has the same, by the counter that they are made
    from.
    """
    method = call.name.removeprefix("rng.")
    state = call.args[-1]
    for name, item in call.kwargs.items():
        if not is_known(item) and (name not in NUMBERS | ARRAYS or (name in ARRAYS and not rank(item))):
            raise Untraceable(f"{call.name} with a {name} that is data")
        if name in NUMBERS and isinstance(item, Value) and item.sample.dtype.char in "gFDGmM":
            return None
    getters = {name: _getter(name, item) for name, item in call.kwargs.items() if name != "used"}
    used = call.kwargs["used"]
    if method == "shuffle":
        method = "permutation"
        getters["x"] = operand_rows(call.args[0])

    def kernel(values: Values, n: int) -> Result:
        words = values[state.slot]
        rng = BlockGenerator(int(words[0, 0]), words[:, 1:], used)
        return getattr(rng, method)(**{name: get(values, n) for name, get in getters.items()})

    return kernel


def _getter(name: str, item: Operand) -> Result:
    if is_known(item):
        fixed = as_block_argument(constant(item)) if name in NUMBERS | ARRAYS else constant(item)
        return lambda _values, _n: fixed
    return operand_rows(item) if item.batched else lambda values, _: as_block_argument(values[item.slot])


RULES: dict[str, Callable[[Call, bool], Kernel | None]] = {f"rng.{name}": draw_rule for name in METHODS}
