"""The forms of operations by JAX: one table by name, filled where the operations are defined."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from headrace.core.types import Array
from headrace.trace.values import Value

JaxArray: TypeAlias = Any
"""An array of JAX, or the tracer that stands for it."""

Prepared = dict[str, Array]
"""What the CPU computes for the rows, by the name of an argument of `run`."""

Run = TypeVar("Run", bound=Callable[..., JaxArray])


@dataclass(frozen=True)
class JaxForm:
    """How an operation of ours runs by JAX on one row.

    `run` gets the library and the operation's arguments by name: values of the row as arrays of JAX, and what `prepare`
    returned in place of the arguments named in `on_cpu`. `prepare` gets the shape of the row's first argument, the
    number of rows, the names of arguments with a value for each row, and all other arguments by name, those in
    `on_cpu` as rows. `check` gets the arguments as they are known when
    the function is traced, and returns why they are not supported.
    """

    run: Callable[..., JaxArray]
    signature: inspect.Signature
    on_cpu: frozenset[str]
    prepare: Callable[..., Prepared]
    check: Callable[..., str | None] | None
    floats_stay: frozenset[str] = frozenset()
    """Those of them that are read on the device if they are floats."""


JAX_FORMS: dict[str, JaxForm] = {}
"""By the name of the operation."""

ON_CPU = frozenset({"resized_crop_by_draws"})
"""What the CPU runs on images of one size, too: it makes them smaller, and parts of many sizes have no static shape."""


def reads_on_cpu(form: JaxForm, name: str, given: object) -> bool:
    """Return whether the CPU reads an argument of an operation."""
    if name in form.floats_stay and isinstance(given, Value) and given.sample.dtype.kind == "f":
        return False
    return name in form.on_cpu
