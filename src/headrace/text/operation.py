"""The base of text functions: they take texts and arrays of any shape, and run on whole columns in a map."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns import Column, text_column, values
from headrace.columns.arrow_text import binary, parts
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, Array, Nested, Tensor, TensorLike
from headrace.feature_column.raw import plain_column
from headrace.plan.spec import TensorSpec
from headrace.text.layout import Offsets, texts_of
from headrace.trace.operation import traced_operation

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=AnyFunction)
Words = tuple[NDArray[np.uint8], Offsets, Offsets]
"""The bytes of words, the offset of each, and the offsets of each row's words."""


@dataclass(frozen=True)
class Work:
    """An operation on the texts of a column, all at once.

    `run` takes them as an Arrow array, and returns an array or Arrow text with one value for each. If it `gives_rows`,
    it returns values, and the offsets of each text's values. If it `takes_rows`, it takes the offsets of each row's
    texts, and returns results per row.
    """

    run: AnyFunction
    dtype: DTypeLike | None = None
    """The dtype of its results, if they are not text of the same kind."""
    takes_rows: bool = False
    gives_rows: bool = False
    axis: int | None = -1
    """Along which axis it takes rows: the last one, or None for all axes as one."""

    def spec(self, given: TensorSpec) -> TensorSpec:
        """Return what comes of such an element."""
        if given.dtype is None or given.dtype.kind not in "US" or given.shape is None:
            raise TypeError(f"not text: {given}")
        if self.takes_rows and not given.shape:
            raise ValueError("takes arrays of text, such as split gives")
        shape = given.shape
        if self.takes_rows:
            self._check_axis(len(shape))
            shape = () if self.axis is None else shape[:-1]
        return TensorSpec((*shape, None) if self.gives_rows else shape, self.dtype or given.dtype)

    def on_column(self, column: Column) -> Column:
        """Return all rows."""
        text, layout = texts_of(column)
        if self.takes_rows:
            if not layout.axes:
                raise ValueError("takes arrays of text, such as split gives, not single texts")
            self._check_axis(len(layout.axes))
            layout, cuts = layout.without_any() if self.axis is None else layout.without_last()
            made = self.run(text, cuts)
        else:
            made = self.run(text)
        return layout.lay_rows(*made) if self.gives_rows else layout.lay(made)

    def _check_axis(self, axes: int) -> None:
        if self.axis not in (None, -1, axes - 1):
            raise ValueError(f"axis must be the last one (-1), or None for all axes, not {self.axis} of {axes}")

    def on_element(self, value: object) -> Nested:
        """Return one component of an element."""
        return next(iter(values(self.on_column(one_row(value)))))


def one_row(value: object) -> Column:
    """Return a column that has this one component, a text or an array of them."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, str | bytes):
        return text_column([str(value) if isinstance(value, str) else bytes(value)])
    if isinstance(value, Ragged):
        return Ragged._of(value, np.array([0, len(value)]))
    if not hasattr(value, "__len__"):
        raise TypeError(f"functions of hr.text take str or bytes, not {type(value).__name__}")
    if isinstance(value, Mapping):
        raise TypeError(f"functions of hr.text take str or bytes, not a dict: take one of its components {list(value)}")
    column = plain_column(value)
    if isinstance(column, Ragged):
        return Ragged._of(column, np.array([0, len(column)]))
    return (column if isinstance(column, np.ndarray) else column.to_numpy(zero_copy_only=False))[None]


def text_operation(describe: F) -> F:
    """Make a function of `describe`, which gets the same arguments, checks them, and says what Work there is."""

    def spec(input: TensorLike, *args: object, **kwargs: object) -> TensorSpec:
        work: Work = describe(input, *args, **kwargs)
        return work.spec(input)

    def block(input: TensorLike, *args: object, **kwargs: object) -> Callable[[Column], Column]:
        work: Work = describe(input, *args, **kwargs)
        return work.on_column

    @functools.wraps(describe)
    def function(input: TensorLike, *args: object, **kwargs: object) -> Tensor:
        work: Work = describe(input, *args, **kwargs)
        return work.on_element(input)

    return traced_operation(spec=spec, block=block)(function)  # type: ignore[return-value]


def in_kind(made: Sequence[Array], text: pa.Array) -> pa.Array:
    """Return bytes and offsets as text of the same kind."""
    return binary(made[0], made[1], text.type)


def words_in_kind(made: Words, text: pa.Array) -> tuple[pa.Array, Offsets]:
    """Return words as text of the same kind, and the offsets of each row's words."""
    return binary(made[0], made[1], text.type), made[2]


def as_strings(text: pa.Array) -> pa.Array:
    """Text, or bytes taken for it: Arrow's functions of UTF-8 take nothing else."""
    import pyarrow as pa

    return binary(*parts(text), pa.large_string()) if text.type == pa.large_binary() else text


def check_choice(name: str, value: object, known: Sequence[str]) -> str:
    """Return an option that must be one of these."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
    return str(value)


def as_bytes_of(value: str | bytes) -> bytes:
    """Return an option that is text, as the kernels take it."""
    if not isinstance(value, str | bytes):
        raise TypeError(f"the text must be str or bytes, not {value!r}")
    return value.encode() if isinstance(value, str) else value
