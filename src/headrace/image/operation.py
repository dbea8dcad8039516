"""Functions of images and of whole columns of images: one kernel for both."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from headrace.columns import Column, column_of, values
from headrace.core.types import AnyFunction, Array, Tensor
from headrace.image.encoded import EncodedJpegs
from headrace.image.images import Images
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation
from headrace.trace.values import Deferred, Operand, map_arguments

F = TypeVar("F", bound=AnyFunction)
Shape = tuple[int | None, int | None, int | None]


def in_windows(rows: Callable[..., Column]) -> Callable[..., Column | Deferred | None]:
    """Return `deferred` of an operation that only cuts: of JPEGs that are still encoded it gives windows."""

    def deferred(images: Deferred, **given: object) -> Column | Deferred | None:
        return rows(images, **given) if isinstance(images, EncodedJpegs) else None

    return deferred


class Each:
    """An argument with one value per row."""

    __slots__ = ("rows",)

    def __init__(self, rows: Column) -> None:
        self.rows: Column = rows


def each_row(argument: object, count: int, dtype: DTypeLike = np.float64) -> Array:
    """Return an argument for every row: its own, or the one that all share."""
    if isinstance(argument, Each):
        return np.ascontiguousarray(argument.rows, dtype)
    value = np.asarray(argument, dtype)
    return np.ascontiguousarray(np.broadcast_to(value, (count, *value.shape)))


def image_operation(
    rows: Callable[..., Column],
    shape: Callable[..., tuple[Shape, Any]] | None = None,
    *,
    each: tuple[str, ...] = (),
    deferred: Callable[..., Column | Deferred | None] | None = None,
) -> Callable[[F], F]:
    """Make a function of one image, or of a batch of them, an operation on columns.

    `rows` gets Images and the other arguments, and gives a column. `shape` gets the shape and dtype of an image, and
    the other arguments, and gives those of the result; by default they stay. Arguments named in `each` may differ from
    row to row, and are then given to `rows` as `Each`. `deferred` gets a `Deferred` column of images in their place; it
    returns None if it has no better way than to make them.
    """

    def decorate(fn: F) -> F:
        signature = inspect.signature(fn)
        first = next(iter(signature.parameters))

        def bind(*args: object, **named: object) -> dict[str, Any]:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            return bound.arguments

        def spec(*args: object, **named: object) -> TensorSpec:
            given = bind(*args, **named)
            image = given.pop(first)
            if not isinstance(image, TensorSpec) or image.rank not in (3, 4) or image.dtype is None:
                raise ValueError(f"it is given {image} where an image is needed")
            for name, value in given.items():
                if _has_spec(value) and not (name in each and isinstance(value, TensorSpec)):
                    raise ValueError(f"{name} depends on the data")
            assert image.shape is not None
            size: tuple[int | None, ...] = image.shape[-3:]
            made, dtype = (size, image.dtype) if shape is None else shape(size, image.dtype, **given)
            return TensorSpec((*image.shape[:-3], *made), dtype)

        def block(*args: object, **named: object) -> Callable[..., Column | Deferred]:
            def run(*columns: Column | Deferred) -> Column | Deferred:
                left = iter(columns)

                def fill(item: object) -> Operand:
                    return Each(next(left)) if isinstance(item, TensorSpec) else item

                filled, keywords = map_arguments((args, named), fill)
                given = bind(*filled, **keywords)
                images = given.pop(first).rows
                if isinstance(images, Deferred):
                    made = None if deferred is None else deferred(images, **given)
                    if made is not None:
                        return made
                    images = images.column()
                return _run_rows(rows, images, given)

            return run

        @functools.wraps(fn)
        def element(*args: object, **named: object) -> Tensor:
            given = bind(*args, **named)
            image = np.asarray(given.pop(first))
            if image.ndim not in (3, 4):
                raise ValueError(f"an image has height, width and channels, not the shape {image.shape}")
            made = rows(Images.of_column(image if image.ndim == 4 else image[None]), **given)
            if image.ndim == 3:
                return next(iter(values(made)))
            return made if isinstance(made, np.ndarray) else np.stack(list(values(made)))

        return traced_operation(spec=spec, block=block, takes_deferred=deferred is not None)(element)  # type: ignore[return-value]

    return decorate


def _run_rows(rows: Callable[..., Column], column: Column, given: dict[str, Any]) -> Column:
    if isinstance(column, np.ndarray) and column.ndim == 5:  # rows are batches
        count, size = column.shape[:2]
        spread = {name: Each(np.repeat(v.rows, size, 0)) if isinstance(v, Each) else v for name, v in given.items()}
        made = rows(Images.of_column(column.reshape(count * size, *column.shape[2:])), **spread)
        return made.reshape(count, size, *made.shape[1:])
    if isinstance(column, np.ndarray) or _rank(column) == 3:
        return rows(Images.of_column(column), **given)
    made = []
    for i, row in enumerate(values(column)):
        own = {
            name: Each(v.rows[i : i + 1].repeat(len(row), 0)) if isinstance(v, Each) else v for name, v in given.items()
        }
        made.append(rows(Images.of_column(row), **own))
    return column_of(made)


def _rank(column: Column) -> int:
    first = next(iter(values(column)))
    return int(np.ndim(first))


def _has_spec(tree: object) -> bool:
    found: list[Any] = []
    map_arguments(tree, lambda item: found.append(item) if isinstance(item, TensorSpec) else None)
    return bool(found)


HAVE_STATELESS = frozenset({
    "random_brightness", "random_contrast", "random_crop", "random_flip_left_right", "random_flip_up_down",
    "random_hue", "random_saturation",
})  # fmt: skip
"""Names of functions that `hr.image.stateless_…` has a counterpart of."""


def drawn(fn: F) -> F:
    """Return a function of an image and a generator, made of draws and of operations: it is traced as what it calls."""
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            try:
                drawn_from = hasattr(signature.bind(*args, **kwargs).arguments["rng"], "random")
            except TypeError:
                drawn_from = False
            if drawn_from:
                raise
            seeded = f"; hr.image.stateless_{fn.__name__} takes a seed" if fn.__name__ in HAVE_STATELESS else ""
            raise TypeError(
                f"{error}: {fn.__name__} takes ({', '.join(signature.parameters)}), with the random generator that "
                f"ds.random_map(fn, seed=...) passes to fn(element, rng){seeded}"
            ) from None

    function._headrace_operation = True  # type: ignore[attr-defined]
    return function  # type: ignore[return-value]
