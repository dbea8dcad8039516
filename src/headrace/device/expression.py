"""Arithmetic on each pixel of an image as a value, which is computed by one kernel or by PyTorch's operations.

Both compute every operation in its own dtype and round after each, so that they give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from headrace.core.types import Array, DType

Scalar: TypeAlias = float | Array
"""A number, or an array of one."""
BOOL = np.dtype(bool)
DTYPES = frozenset(map(np.dtype, ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")))
"""Those that kernels read and write."""
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
BINARY = frozenset({"add", "sub", "mul", "true_divide", "maximum", "minimum"}) | COMPARISONS
"""PyTorch's names. Division is of floats only."""
UNARY = frozenset({"neg", "abs", "floor"})


@dataclass(frozen=True, eq=False)
class Expression:
    """What is computed of a pixel: a value for each channel, or one for all.

    Expressions that are built alike are one object: what is used twice is computed once, and a kernel is found by its
    expression.
    """

    op: str
    args: tuple[Expression, ...]
    dtype: DType
    channels: int
    value: tuple[str | int, ...] = ()
    """The text of a number, the position of a table, or the limits of a clamp."""

    def __add__(self, other: Expression | float) -> Expression:
        return self.binary("add", other)

    def __sub__(self, other: Expression | float) -> Expression:
        return self.binary("sub", other)

    def __mul__(self, other: Expression | float) -> Expression:
        return self.binary("mul", other)

    def __truediv__(self, other: Expression | float) -> Expression:
        return self.binary("true_divide", other)

    def __gt__(self, other: Expression | float) -> Expression:
        return self.binary("gt", other)

    def binary(self, op: str, other: Expression | float) -> Expression:
        """Return the result of one of BINARY with a value of the same dtype; a number is rounded to it."""
        right = other if isinstance(other, Expression) else number(other, self.dtype)
        if right.dtype != self.dtype:
            raise TypeError(f"{op} of {self.dtype} and {right.dtype}")
        dtype = BOOL if op in COMPARISONS else self.dtype
        return _node(op, (self, right), dtype, max(self.channels, right.channels))

    def unary(self, op: str) -> Expression:
        """Return the result of one of UNARY."""
        return _node(op, (self,), self.dtype, self.channels)

    def cast(self, dtype: DTypeLike) -> Expression:
        """Return the value in another dtype, as `arithmetic.cast` gives it."""
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        if self.op == "number":
            return number(np.asarray(literal(self.value[0]), self.dtype).astype(wanted), wanted)
        return self.binary("ne", 0) if wanted == BOOL else _node("cast", (self,), wanted, self.channels)

    def clamp(self, low: float, high: float) -> Expression:
        """Return the value between limits, NaN as it is."""
        return _node("clamp", (self,), self.dtype, self.channels, (repr(low), repr(high)))

    def nan_to_zero(self) -> Expression:
        """Return the value, which must not be infinite, or zero for NaN."""
        return _node("nan_to_zero", (self,), self.dtype, self.channels)

    def shifted(self, bits: int) -> Expression:
        """Return an integer divided by a power of two, rounded down."""
        return _node("shifted", (self,), self.dtype, self.channels, (bits,))

    def highest(self) -> Expression:
        """Return the highest of the channels; NaN if one is."""
        return _node("amax", (self,), self.dtype, 1)

    def lowest(self) -> Expression:
        """Return the lowest of the channels; NaN if one is."""
        return _node("amin", (self,), self.dtype, 1)

    def channel(self, index: int) -> Expression:
        """Return one of the channels."""
        return _node("channel", (self,), self.dtype, 1, (index,))


@lru_cache(maxsize=8192)
def _node(
    op: str, args: tuple[Expression, ...], dtype: DType, channels: int, value: tuple[str | int, ...] = ()
) -> Expression:
    return Expression(op, args, dtype, channels, value)


def pixel(dtype: DTypeLike, channels: int) -> Expression:
    """Return the pixel itself."""
    return _node("pixel", (), np.dtype(dtype), channels)


def number(value: Scalar, dtype: DTypeLike) -> Expression:
    """Return a number that is the same for all pixels. Its text keeps 1, 1.0 and -0.0 apart."""
    return _node("number", (), np.dtype(dtype), 1, (repr(np.asarray(value, dtype).item()),))


def literal(text: str | int) -> float:
    """Return the number of a text that `repr` made."""
    known = {"True": True, "False": False}.get(str(text))
    if known is not None:
        return known
    return int(text) if str(text).lstrip("-").isdigit() else float(text)


def table(position: int, dtype: DTypeLike, channels: int, *, per_image: bool) -> Expression:
    """Return the values of a table, which has a row for each image or one for all, and a column for each channel."""
    return _node("table", (), np.dtype(dtype), channels, (position, int(per_image)))


def where(condition: Expression, yes: Expression, no: Expression | float) -> Expression:
    """Return one of two values of the same dtype."""
    other = no if isinstance(no, Expression) else number(no, yes.dtype)
    return _node("where", (condition, yes, other), yes.dtype, max(condition.channels, yes.channels, other.channels))


def stack(channels: Sequence[Expression]) -> Expression:
    """Return values as the channels of a pixel."""
    return _node("stack", tuple(channels), channels[0].dtype, len(channels))


@lru_cache(maxsize=1024)
def schedule(expression: Expression) -> list[tuple[Expression, tuple[Expression, ...]]]:
    """Return all expressions in it, arguments first, each with those that no later one reads."""
    order: dict[Expression, None] = {}

    def visit(one: Expression) -> None:
        if one not in order:
            for arg in one.args:
                visit(arg)
            order[one] = None

    visit(expression)
    last = {arg: one for one in order for arg in one.args}
    return [(one, tuple(arg for arg in dict.fromkeys(one.args) if last[arg] is one)) for one in order]
