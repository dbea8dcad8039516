"""Register the form of a function of images by JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import Argument, Library
from headrace.device.on_jax.forms import JAX_FORMS, JaxArray, JaxForm, Prepared
from headrace.image.operation import Each, each_row

Run = Callable[..., JaxArray]


class Sizes:
    """Images of one shape, as functions that decide about places want them."""

    def __init__(self, shape: tuple[int, ...], count: int) -> None:
        self.shapes: NDArray[np.int64] = np.broadcast_to(np.array(shape, np.int64), (count, 3))

    def __len__(self) -> int:
        return len(self.shapes)


Prepare = Callable[..., Prepared]


def amounts(images: Sizes, **given: object) -> Prepared:
    """Return one float32 for each image."""
    made = {name: each_row(value, len(images), np.float32) for name, value in given.items()}
    for name, value in made.items():
        if value.ndim != 1:
            raise ValueError(f"one number is needed for an image as {name}, not {value.shape[1:]}")
    return made


def jax_image_form(
    operation: Callable[..., object],
    *,
    each: tuple[str, ...] = (),
    prepare: Prepare = amounts,
    check: Callable[..., str | None] | None = None,
) -> Callable[[Run], Run]:
    """Register `run(jax, image, **arguments)` as the form of an operation on an image.

    Arguments in `each` may differ from row to row. `prepare(images, **arguments)` gets them on the CPU, as the
    operation's own block form does, and returns arrays with a value for each image; `run` gets these by name, in place
    of the arguments in `each`. Without such arguments nothing is prepared. A row that is a batch is images in a row.
    """
    signature = inspect.signature(operation)
    first, *others = signature.parameters

    def register(run: Run) -> Run:
        def form(jax: Library, **given: Argument) -> JaxArray:
            image = given.pop(first)
            if image.ndim == 4:
                return jax.vmap(lambda one: run(jax, one, **given))(image)
            return run(jax, image, **given)

        def prepared(shape: tuple[int, ...], count: int, rows: frozenset[str], **given: Argument) -> Prepared:
            if not each:
                return {}
            if prepare is amounts:
                given = {name: given[name] for name in each}
            known = {name: Each(value) if name in rows else value for name, value in given.items()}
            return prepare(Sizes(shape[-3:], count), **known)

        JAX_FORMS[operation.__name__] = JaxForm(form, signature, frozenset(each), prepared, check)
        return run

    assert set(each) <= set(others), "each names arguments"
    return register
