"""The parts of a graph: values, calls and steps, and their nested arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import AnyFunction, Arguments, Array, Component, DType, KeywordArguments
from headrace.plan.spec import TensorSpec

KINDS = "biufcmM"
"""Dtypes that are traced; text and objects only travel through."""

Result: TypeAlias = Any
"""What a step makes of a block: a column, one value for all rows, or a list or tuple of these."""

Operand: TypeAlias = Any
"""An argument of a recorded call: a `Value`, a plain value, or a list, tuple, dict or slice of these."""

Traced: TypeAlias = Any
"""What a function sees while it is traced: a symbol, or any plain value."""

Values = list[Result]
Kernel = Callable[[Values, int], Result]
"""The function of a step on a block: from the values so far and the number of rows to one more value."""


class Scaled(NamedTuple):
    """Bytes, a fixed number per row, that become float32 by operations with numbers, as parameters of kernels."""

    bytes: int
    what: NDArray[np.int64]
    numbers: NDArray[np.float32]


class Affine(NamedTuple):
    """Operations with numbers on float32, as parameters of kernels: one for all channels, or one for each."""

    what: NDArray[np.int64]
    numbers: NDArray[np.float32]


Scale = Callable[[int, Scaled], bool]
"""Ask an operation to return the value in a slot scaled, as an array, if it can. False if it never will."""


class Deferred(ABC):
    """A column that an operation has yet to make, because the next one may need only a part of it."""

    @abstractmethod
    def column(self) -> Result:
        """Return the column."""

    def rounded(self) -> Deferred | None:
        """Return the column rounded to integers, half to even, if that can be deferred."""
        return None

    def cast(self, dtype: DType) -> Array | None:  # noqa: ARG002
        """Return the column as `astype` has it, if that is less work than to make it first."""
        return None

    def scaled(self, how: Affine) -> Array | None:  # noqa: ARG002
        """Return the column after operations with numbers, if that is less work than to make it first."""
        return None


class Blockwise(NamedTuple):
    """How one of our operations runs on whole columns; see `traced_operation`."""

    spec: AnyFunction
    block: AnyFunction
    even: bool = False
    in_place: bool = False
    scaled: AnyFunction | None = None
    reads_all: Callable[..., bool] | None = None
    deferred: AnyFunction | None = None
    takes_deferred: bool = False


@dataclass(eq=False, slots=True)
class Value:
    """One value of the graph. `sample` is what the function would see for one row, made of dummies."""

    slot: int
    sample: Component
    batched: bool
    static: bool = False
    """Whether the sample is the value itself, a constant for all rows."""
    spec: TensorSpec | None = None
    """The spec of a value that is not a dense array."""
    faithful: bool = True
    """Whether rows of a block have the sample's memory layout."""
    call: Call | None = None
    """The operation that made it."""
    sized: frozenset[int] = frozenset()
    """The row-dependent lengths that its shape may depend on."""

    @property
    def opaque(self) -> bool:
        """Whether the function only passes it on."""
        return self.sample is None


@dataclass(eq=False, slots=True)
class Call:
    """One operation as the function applied it; `args` and `kwargs` hold Values."""

    fn: AnyFunction
    name: str
    args: Arguments
    kwargs: KeywordArguments
    sample: Component = None
    loose: bool = False
    """Whether the sizes of its results may depend on the data."""

    @property
    def values(self) -> list[Value]:
        """The values among the arguments."""
        return list(leaves((self.args, self.kwargs)))


class Fresh:
    """A kernel whose result is always a new array; `into` writes it to a given one instead."""

    def __init__(self, kernel: Kernel, into: Callable[[Values, Any], Any] | None = None) -> None:
        self.kernel = kernel
        self.into = into

    def __call__(self, values: Values, n: int) -> Result:
        """Return the result."""
        return self.kernel(values, n)


@dataclass(eq=False, slots=True)
class Step:
    """A call as it runs on a block."""

    name: str
    slot: int
    kernel: Kernel
    rowwise: bool = False
    errors: KeywordArguments = field(default_factory=dict)
    uses: tuple[Value, ...] = ()
    sample: Component = None
    call: Call | None = None
    """What the function did, while it is traced."""
    in_place: bool = False
    """Whether it reads records through references."""
    gives: range | None = None
    """The slots of the results, for one of our operations."""
    scale: Scale | None = None
    """Make one of these, a text, come as an array of its scaled bytes."""
    reads_all: bool = False
    """Whether it reads a text of the same number of bytes completely."""
    takes_deferred: bool = False
    """Whether its first argument may be a `Deferred` column."""
    defer: Callable[[], None] | None = None
    """Let its result be a `Deferred` column."""


def do_steps(steps: list[Step], values: Values, n: int) -> None:
    """Run steps on a block of `n` rows."""
    for step in steps:
        if step.errors:
            with np.errstate(**step.errors):
                values[step.slot] = step.kernel(values, n)
        else:
            values[step.slot] = step.kernel(values, n)


def leaves(tree: object) -> Iterator[Value]:
    """Yield the values in nested arguments."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))


def map_arguments(tree: Operand, change: Callable[[Any], Any]) -> Operand:
    """Nested arguments with `change` applied to what is no container."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([map_arguments(item, change) for item in tree])
    if kind is dict:
        return {key: map_arguments(item, change) for key, item in tree.items()}
    if kind is slice:
        return slice(change(tree.start), change(tree.stop), change(tree.step))
    return change(tree)


def sample_of(item: object) -> Operand:
    """Return a value's sample; anything else stays."""
    return item.sample if isinstance(item, Value) else item


def call_plainly(call: Call) -> Kernel:
    """Return the operation itself, on values that are the same for all rows."""

    def kernel(values: Values, _: int) -> Result:
        def filled(item: object) -> Operand:
            return values[item.slot] if isinstance(item, Value) else item

        return call.fn(*map_arguments(call.args, filled), **map_arguments(call.kwargs, filled))

    return kernel


def dummy(spec: TensorSpec, *, fill: int | None = None) -> Component:
    """Return a stand-in for rows of this spec, small and not constant; None if rows are no dense arrays."""
    shape, dtype = spec.shape, spec.dtype
    if shape is None or dtype is None or None in shape or dtype.kind not in KINDS:
        return None
    if shape == ():
        return np.array(1 if fill is None else fill).astype(dtype)[()]
    made = np.full([n or 0 for n in shape], np.asarray(fill or 0).astype(dtype))
    if fill is None:
        made.reshape(-1)[1::2] = np.asarray(1).astype(dtype)
    return made
