"""Images of a batch mixed with their neighbours by JAX, and labels with them."""

from __future__ import annotations

import inspect

import numpy as np

from headrace.core.types import AnyFunction, Argument, Array, KeywordArguments, Library
from headrace.device.on_jax.forms import JAX_FORMS, JaxArray, JaxForm, Prepared
from headrace.image import mixing


def _probabilities(labels: Array, classes: int | None) -> Array:
    """Return labels (batches, rows) as probabilities; JAX does not notice one that is too large."""
    return np.stack([mixing.one_hot(batch, classes) for batch in labels])


def _labels(shape: tuple[int, ...], given: KeywordArguments) -> Prepared:
    labels = given.get("labels")
    if labels is None:  # probabilities, on the device
        return {}
    mixing.check_batch(shape, np.shape(labels)[1:])
    return {"labels": _probabilities(labels, given["num_classes"])}


def _rolled(jax: Library, x: JaxArray) -> JaxArray:
    return jax.numpy.roll(x, 1, 0)


def _shares(shape: tuple[int, ...], count: int, rows: frozenset[str], **given: Argument) -> Prepared:
    del count, rows
    shares = np.array([mixing.beta_of_uniform(float(d), given["alpha"]) for d in given["draw"]], np.float32)
    return {**_labels(shape, given), "draw": shares}


def _mixup(
    jax: Library, images: JaxArray, labels: JaxArray, draw: JaxArray, alpha: float, num_classes: int | None
) -> tuple[JaxArray, JaxArray]:
    del alpha, num_classes

    def mixed(x: JaxArray) -> JaxArray:
        x = x.astype(np.float32)
        return x * draw + _rolled(jax, x) * (1 - draw)

    return mixed(images), mixed(labels)


def _boxes(shape: tuple[int, ...], count: int, rows: frozenset[str], **given: Argument) -> Prepared:
    del count, rows
    height, width = shape[1:3]
    boxes = [mixing.cutmix_box(row, height, width, given["alpha"]) for row in given["draws"]]
    return {**_labels(shape, given), "draws": np.array(boxes, np.int32)}


def _cutmix(
    jax: Library, images: JaxArray, labels: JaxArray, draws: JaxArray, alpha: float, num_classes: int | None
) -> tuple[JaxArray, JaxArray]:
    del alpha, num_classes
    jnp, (height, width) = jax.numpy, images.shape[1:3]
    top, left, bottom, right = draws
    y, x = jnp.arange(height)[:, None, None], jnp.arange(width)[:, None]
    inside = (y >= top) & (y < bottom) & (x >= left) & (x < right)
    kept = 1 - ((bottom - top) * (right - left)).astype(np.float32) / np.float32(height * width)
    kinds = labels.astype(np.float32)
    return jnp.where(inside, _rolled(jax, images), images), kinds * kept + _rolled(jax, kinds) * (1 - kept)


def _register(operation: AnyFunction, draws: str, run: AnyFunction, prepare: AnyFunction) -> None:
    on_cpu = frozenset({draws, "labels"})
    JAX_FORMS[operation.__name__] = JaxForm(
        run, inspect.signature(operation), on_cpu, prepare, None, floats_stay=frozenset({"labels"})
    )


_register(mixing.mixup_by_draw, "draw", _mixup, _shares)
_register(mixing.cutmix_by_draws, "draws", _cutmix, _boxes)
