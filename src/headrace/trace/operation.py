"""headrace's own functions that work on whole columns when a traced function calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from headrace.core.types import AnyFunction, KeywordArguments
from headrace.trace.symbols import Symbol
from headrace.trace.values import Blockwise, Traced, map_arguments
from headrace.trace.watching import watched

F = TypeVar("F", bound=AnyFunction)


OF_NUMPY: KeywordArguments = {}
"""By name, functions of NumPy that are operations on columns when a traced function calls them."""


def traced_operation(
    *,
    spec: Callable[..., object],
    block: Callable[..., object],
    even: bool = False,
    in_place: bool = False,
    scaled: Callable[..., object] | None = None,
    reads_all: Callable[..., bool] | None = None,
    deferred: Callable[..., object] | None = None,
    takes_deferred: bool = False,
) -> Callable[[F], F]:
    """Make a function of one element's components an operation of graphs.

    Called on components it runs as written. Within a traced function, whose arguments are symbols, it becomes a step:
    `spec` gets TensorSpecs in place of the symbols and gives TensorSpecs in the structure of the result; `block` gets
    the same and gives a function of whole columns (arrays, Ragged, Arrow arrays, lists), one for each symbol, which
    gives columns in that structure. It must give the same bits, and raise if any row raises; writable arrays must not
    share memory. `even` says that rows mostly have one size if `spec` has None: a traced function continues from there,
    and blocks of other rows are made row by row. `in_place` says that a column of records may also be a `RecordRefs`.
    `scaled` gets what `block` gets, which of the results is a text, and how its bytes are `Scaled`: it returns another
    such function that accepts them, or None. `reads_all` says, of the same arguments, whether it reads a text of the
    same number of bytes completely. `deferred` gets what `block` gets, for an operation with one result: its function
    may return a `Deferred` column, if the next operation accepts one. `takes_deferred` says that this one does, as its
    first argument; it may then return one, too.
    """

    how = Blockwise(spec, block, even, in_place, scaled, reads_all, deferred, takes_deferred)

    def decorate(fn: F) -> F:
        @functools.wraps(fn)
        def operation(*args: object, **kwargs: object) -> Traced:
            symbol = _first_symbol((args, kwargs))
            if symbol is None:
                return watched(fn, how.spec, args, kwargs)
            return symbol._recorder.operation(fn.__name__, args, kwargs, how)

        operation._headrace_operation = True  # type: ignore[attr-defined]
        return operation  # type: ignore[return-value]

    return decorate


def _first_symbol(tree: object) -> Symbol | None:
    found: list[Symbol] = []

    def look(item: object) -> Traced:
        if type(item) is Symbol:
            found.append(item)
        return item

    map_arguments(tree, look)
    return found[0] if found else None
