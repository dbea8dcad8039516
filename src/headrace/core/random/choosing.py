"""Parts of arrays, chosen by number."""

from __future__ import annotations

import numpy as np

from headrace.core.random.arguments import floats
from headrace.core.types import Array, TensorLike


def laid_out(operation: str, x: TensorLike, axis: int) -> tuple[Array, int]:
    """Return an array with the rows in front, and the axis of a row as a number from 0 on."""
    array = np.asarray(x)
    if not -array.ndim < axis < array.ndim - 1:
        raise ValueError(f"{operation}: an array of {array.ndim - 1} axes has no axis {axis}")
    return array, axis % (array.ndim - 1)


def pick_parts(array: Array, numbers: Array, axis: int) -> Array:
    """Return for each row the parts with its numbers, along its `axis`."""
    new = numbers.ndim - 1
    rows: int | Array = 0 if len(array) == 1 else np.arange(len(array)).reshape(-1, *(1,) * new)
    parts = np.moveaxis(array, axis + 1, 1)[rows, numbers]
    return np.moveaxis(parts, range(1, 1 + new), range(1 + axis, 1 + axis + new)) if axis else parts


def probabilities(p: TensorLike, rows: int, count: int) -> Array:
    """Return what a user gave as `p`, for each row."""
    weights = np.array(np.broadcast_to(floats(p), (rows, count)))
    if not (weights >= 0).all() or not (np.abs(weights.sum(axis=1) - 1) < 1e-8).all():
        raise ValueError("choice: the probabilities p must not be negative, and must add up to 1")
    return weights


def choose_weighted(weights: Array, draws: Array, replace: bool) -> Array:
    """Return numbers chosen with these weights, one after another; what is chosen without replacement loses
    its weight.
    """
    every = np.arange(len(weights))
    chosen = np.empty(draws.shape, np.int64)
    for i in range(draws.shape[1]):
        if i == 0 or not replace:
            steps = np.cumsum(weights, axis=1)
            last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
        reached = (steps <= (draws[:, i] * steps[:, -1])[:, None]).sum(axis=1)
        chosen[:, i] = np.minimum(reached, last)
        if not replace:
            if not (steps[:, -1] > 0).all():
                raise ValueError("choice: fewer probabilities above 0 than are to be chosen without replacement")
            weights[every, chosen[:, i]] = 0
    return chosen
