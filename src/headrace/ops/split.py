"""Divide the elements at random: training data and the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.core.types import Nested
from headrace.indexed.counter import RANDOM_BOUND, random
from headrace.ops.shared.arguments import integer
from headrace.ops.zip import zip as zip_datasets
from headrace.plan.bound import PickledByReference
from headrace.plan.node import function_name, obstacle
from headrace.trace.binding import bind

if TYPE_CHECKING:
    from headrace.dataset import Dataset

KEY_BITS = 53
"""How many bits of a key's hash are compared with the bounds of parts."""


def split(
    self: Dataset,
    parts: float | Sequence[float] | Sequence[int],
    *,
    seed: int = 0,
    key: str | Callable[..., object] | None = None,
) -> tuple[Dataset, ...]:
    """Divide the elements at random into parts that share none: `train, test = ds.split(0.8, seed=1)`.

    Which part an element is in depends on the seed and its number alone, or on its `key`: every run, epoch and process
    has the same parts, and a resume too. Shuffle the training part afterwards for a new order in each epoch.

    If the dataset can be indexed and has a known length, parts have exact sizes, rounded to whole elements, and come
    in a random order that stays the same. Otherwise, and with a `key`, each element is drawn by itself, in the order of
    the dataset: sizes are then about the fractions.

    Args:
        parts: The fraction of the first part, the rest being the second; or one fraction per part, which add up to 1;
            or one number of elements per part, which add up to the length.
        seed: Another seed gives other parts.
        key: The name of a component, or a function of an element that gives a string, bytes or an integer. Elements
            with the same key are in the same part, such as all the pictures of one patient.

    Returns:
        A tuple of datasets, one per part.

    Raises:
        ValueError: The fractions or numbers do not add up.

    >>> train, test = hr.Dataset.range(10).split(0.8, seed=1)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    >>> visits = hr.Dataset.from_tensor_slices({"patient": ["a", "b", "a", "c"], "x": [1, 2, 3, 4]})
    >>> train, test = visits.split(0.5, key="patient")
    >>> {row["patient"] for row in train} & {row["patient"] for row in test}
    set()
    """
    seed = integer("seed", seed)
    counts = _counts(parts)
    if counts is not None:
        if key is not None:
            raise ValueError("split by a key takes fractions: how many elements have a key is not known before")
        return _by_number(self, counts, seed)
    fractions = _fractions(parts)
    bounds = np.cumsum([0.0, *fractions])
    bounds[-1] = 1.0
    if key is not None:
        return tuple(self.filter(KeyIsIn(key, seed, low, high)) for low, high in pairwise(bounds.tolist()))
    if obstacle(self._node) is None and self._node.cardinality.known:
        ends = [round(bound * len(self)) for bound in bounds.tolist()]
        return _by_number(self, [stop - start for start, stop in pairwise(ends)], seed)
    drawn = zip_datasets((self, random(seed, False)))
    made = []
    for low, high in pairwise([round(bound * RANDOM_BOUND) for bound in bounds.tolist()]):
        kept = drawn.filter(lambda element, draw, low=low, high=high: (draw >= low) & (draw < high))  # noqa: ARG005
        made.append(kept.map(_first_of))
    return tuple(made)


def _first_of(element: object, draw: object) -> Nested:  # noqa: ARG001
    return element


def _counts(parts: Any) -> list[int] | None:
    if isinstance(parts, float | int | np.number) or not all(isinstance(each, int | np.integer) for each in parts):
        return None
    return [integer("parts", each) for each in parts]


def _fractions(parts: Any) -> list[float]:
    if isinstance(parts, float | int | np.number):
        first = float(parts)
        if not 0 < first < 1:
            raise ValueError(f"split takes a fraction between 0 and 1, not {parts!r}; [n, m] are numbers of elements")
        return [first, 1 - first]
    given = [float(each) for each in parts]
    if len(given) < 2 or min(given) <= 0 or abs(sum(given) - 1) > 1e-6:
        raise ValueError(f"split: fractions must be above 0 and add up to 1, not {given}")
    return given


def _by_number(ds: Dataset, counts: list[int], seed: int) -> tuple[Dataset, ...]:
    shuffled = ds.shuffle(seed=seed, reshuffle_each_iteration=False)
    if sum(counts) != len(shuffled) or min(counts) < 0:
        raise ValueError(f"split: {counts} are {sum(counts)} elements, and there are {len(shuffled)}")
    ends = np.cumsum([0, *counts]).tolist()
    return tuple(shuffled[start:stop] for start, stop in pairwise(ends))


class KeyIsIn(PickledByReference):
    """Whether the hash of an element's key is in a range: a predicate that is the same in every process."""

    def __init__(self, key: str | Callable[..., object], seed: int, low: float, high: float) -> None:
        if not isinstance(key, str) and not callable(key):
            raise TypeError(f"key must be the name of a component or a function, not {key!r}")
        self._key = key if isinstance(key, str) else bind(key, "split")
        self._seed = seed.to_bytes(16, "little", signed=True)
        self._low, self._high = low, high

    def __call__(self, *components: object) -> bool:
        hashed = hashlib.blake2b(self._bytes(components), key=self._seed, digest_size=8).digest()
        place = (int.from_bytes(hashed, "little") >> (64 - KEY_BITS)) / (1 << KEY_BITS)
        return self._low <= place < self._high

    def _bytes(self, components: tuple[Any, ...]) -> bytes:
        value = self._key(*components) if callable(self._key) else components[0][self._key]
        value = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
        if isinstance(value, str):
            return b"s" + value.encode()
        if isinstance(value, bytes):
            return b"b" + value
        if isinstance(value, int):  # True and 1 are equal, as they are in Python
            return b"i%d" % value
        called = self._key if isinstance(self._key, str) else function_name(self._key)
        raise TypeError(f"split: the key {called} is {value!r}; a key is a string, bytes or an integer")
