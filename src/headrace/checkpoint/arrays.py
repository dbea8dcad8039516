"""A state as an array of bytes, for checkpoints that hold nothing but arrays."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import JsonObject
from headrace.errors import StateError

DEFAULT_SIZE_BYTES = 1 << 16


def to_array(state_dict: JsonObject, size_bytes: int = DEFAULT_SIZE_BYTES) -> NDArray[np.uint8]:
    """Return a state as an array of `size_bytes` bytes, the same shape at every position.

    Args:
        state_dict: what `state_dict()` of a feed, or `state()` of an iterator, returned.
        size_bytes: the length of the array; the rest is filled with spaces.

    Returns:
        An array of uint8, which any pytree of arrays can hold.

    Raises:
        ValueError: if the state is longer.

    >>> feed = hr.Dataset.range(6).batch(2).to_jax()
    >>> array = hr.checkpoint.to_array(feed.state_dict(), size_bytes=4096)
    >>> array.shape
    (4096,)
    >>> hr.checkpoint.from_array(array) == feed.state_dict()
    True
    """
    text = json.dumps(state_dict).encode()
    if len(text) > size_bytes:
        raise ValueError(f"the state has {len(text):,} bytes: give to_array(…, size_bytes={2 * len(text)})")
    return np.frombuffer(text.ljust(size_bytes), np.uint8).copy()


def from_array(array: object) -> JsonObject:
    """Return the state that `to_array` stored in an array.

    Args:
        array: an array of NumPy, JAX or PyTorch.

    Returns:
        What `load_state_dict()` of a feed takes.

    Raises:
        StateError: if the array holds no state.
    """
    try:
        state = json.loads(np.asarray(array, np.uint8).tobytes())
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise StateError("the array holds no state of headrace: give what hr.checkpoint.to_array returned")
    return state
