"""Learn the shapes of a function's results from one element.

Sizes of one element say nothing about others, unless one of our operations made them: an image that `hr.image.resize`
returned has the requested size. While a call is watched, arrays remember which of their sizes are known this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from headrace.core.types import AnyFunction, Argument, KeywordArguments
from headrace.plan.frameworks import as_array, is_tensor
from headrace.plan.spec import Shape, Spec, TensorSpec, leaf_spec
from headrace.plan.structure import flatten
from headrace.trace.values import Operand, Result, Traced, map_arguments

_watching = 0
_lock = Lock()


@contextmanager
def watch_shapes() -> Iterator[None]:
    """Let our operations note which sizes of their results are known."""
    global _watching  # noqa: PLW0603
    with _lock:
        _watching += 1
    try:
        yield
    finally:
        with _lock:
            _watching -= 1


def watched(
    fn: Callable[..., object], spec: Callable[..., object], args: tuple[object, ...], kwargs: KeywordArguments
) -> Operand:
    """Return an operation's result, with the sizes that its `spec` determines noted if its call is watched."""
    if not _watching:
        return fn(*args, **kwargs)
    made = fn(*map_arguments(args, plain), **map_arguments(kwargs, plain))
    try:
        described, named = map_arguments(args, _described), map_arguments(kwargs, _described)
        structure, specs = flatten(spec(*described, **named))
        found, leaves = flatten(made)
        if found == structure:
            return structure.pack([noted(leaf, one.shape) for leaf, one in zip(leaves, specs, strict=True)])
    except Exception:  # nothing is known then
        return made
    return made


def noted(value: object, shape: Shape) -> Operand:
    """Return an array that remembers which of its sizes are known."""
    if type(value) is not np.ndarray or shape is None or len(shape) != value.ndim or shape == (None,) * value.ndim:
        return value
    made = value.view(Noted)
    made.known = tuple(size if size == n else None for size, n in zip(shape, value.shape, strict=True))
    return made


def known_shape(value: object) -> Shape:
    """Return the sizes of a value that hold for all elements."""
    if isinstance(value, Noted):
        return value.known
    shape = leaf_spec(value).shape
    return None if shape is None else (None,) * len(shape)


def plain(value: object) -> Operand:
    """Return the array itself."""
    return value.view(np.ndarray) if isinstance(value, Noted) else value


def _described(value: object) -> Operand:
    return TensorSpec(known_shape(value), value.dtype) if isinstance(value, np.ndarray) else value


class Noted(np.ndarray[Any, Any]):
    """An array whose `known` sizes are the same for all elements."""

    known: Shape = None

    def __array_finalize__(self, source: object) -> None:
        self.known = (None,) * self.ndim

    def astype(self, *args: Argument, **kwargs: Argument) -> Operand:
        """Convert, with the sizes as known as before."""
        return noted(self.view(np.ndarray).astype(*args, **kwargs), self.known)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Traced, **kwargs: Argument) -> Operand:
        arrays = [plain(item) for item in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(plain(item) for item in out)
        made = getattr(ufunc, method)(*arrays, **kwargs)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if method != "__call__" or not isinstance(made, np.ndarray):
            return made
        return noted(made, _broadcast(inputs, made.ndim))


def _broadcast(inputs: tuple[object, ...], rank: int) -> Shape:
    """Return the known sizes of a result: larger than 1, of any operand, or 1 of all."""
    shapes = [known_shape(item) or () for item in inputs]
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes: list[int | None] = []
    for column in zip(*aligned, strict=True):
        large = [n for n in column if n is not None and n > 1]
        sizes.append(large[0] if large else (1 if all(n == 1 for n in column) else None))
    return tuple(sizes)


def _is_foreign(leaf: Any) -> bool:
    """Return whether a result is a tensor of another library."""
    return not isinstance(leaf, np.ndarray | np.generic) and is_tensor(leaf)


class WatchedFunction:
    """Call a function and note which sizes of its first result are known."""

    def __init__(self, fn: AnyFunction, arguments: Spec) -> None:
        self._fn = fn
        self._arguments = arguments
        self.spec: Spec | None = None

    def __call__(self, *args: object) -> Result:
        """Return what the function gives."""
        if self.spec is not None:
            return self._fn(*args)
        try:
            with watch_shapes():
                result = self._fn(*self._noted(args))
        except Exception:  # it may be for arrays of this class alone
            return self._fn(*args)
        structure, leaves = flatten(tuple(result) if type(result) is list else result)
        leaves = [as_array(leaf) if _is_foreign(leaf) else leaf for leaf in leaves]
        specs = tuple(leaf_spec(leaf).with_shape(known_shape(leaf)) for leaf in leaves)
        self.spec = Spec(structure, specs)
        return structure.pack([plain(leaf) for leaf in leaves])

    def _noted(self, args: tuple[object, ...]) -> Operand:
        known = self._arguments.structure
        structure, leaves = flatten(args if known is not None and known.unpacks else args[0])
        if structure != known:
            return args
        shapes = [s.shape for s in self._arguments.leaves]
        element = structure.pack([noted(leaf, shape) for leaf, shape in zip(leaves, shapes, strict=True)])
        return tuple(element) if structure.unpacks else (element,)
