"""Hashes of values and of their combinations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns.kind import Column
from headrace.core.types import Component, Nested
from headrace.feature_column.categorical import bucket_numbers
from headrace.feature_column.crossed import FIRST_HASH
from headrace.feature_column.raw import Hashes, Raw, hash_values
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.base import PreprocessingLayer, encode, encoded_spec, settle_options


@dataclass(frozen=True)
class Hashing(PreprocessingLayer):
    """Text or integers to one of `num_bins`, as Keras's layer of this name; `mask_value` has bin 0 for itself.

    With a `salt`, a number or two, the hash is SipHash-2-4 under that key, else FarmHash's Fingerprint64.

    Args:
        num_bins: Number of bins.
        mask_value: Value that gets the bin 0.
        salt: Number or pair of numbers that changes the hash.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        sparse: Accepted for compatibility with Keras; only False is supported.
        name: Accepted for compatibility with Keras.
        dtype: Data type of the output.

    >>> hr.preprocessing.Hashing(num_bins=3)(["A", "B", "C", "D", "E"])
    array([1, 0, 1, 1, 2])
    """

    num_bins: int
    mask_value: Component = None
    salt: Nested = None
    output_mode: str = "int"
    sparse: bool = False
    name: str | None = field(default=None, kw_only=True)
    dtype: DTypeLike | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        bins(self.num_bins)
        settle_options(self)
        object.__setattr__(self, "salt", salt_words(self.salt, "Hashing"))

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """Return a bin for each value."""
        (raw,) = raws
        if raw.numbers is not None and raw.numbers.dtype.kind == "f":
            raw = Raw(raw.rows, numbers=raw.numbers.astype(np.int64))
        hashes = salted_hashes(raw, self.salt)
        if self.mask_value is None or self.num_bins == 1:
            return bucket_numbers(hashes, self.num_bins)
        return np.where(_equal(raw, self.mask_value), 0, bucket_numbers(hashes, self.num_bins - 1, 1))

    def to_output(self, made: Column, axes: int) -> Column:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, self.num_bins)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, self.num_bins)


@dataclass(frozen=True)
class HashedCrossing(PreprocessingLayer):
    """Hash each combination of values at one index to one of `num_bins`, like Keras's layer of this name.

    Args:
        num_bins: Number of bins.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        sparse: Accepted for compatibility with Keras; only False is supported.
        name: Accepted for compatibility with Keras.
        dtype: Data type of the output.

    >>> hr.preprocessing.HashedCrossing(num_bins=5)((["A", "B", "A"], [101, 101, 102]))
    array([1, 4, 3])
    """

    num_bins: int
    output_mode: str = "int"
    sparse: bool = False
    name: str | None = None
    dtype: DTypeLike | None = None
    inputs = 2

    def __post_init__(self) -> None:
        bins(self.num_bins)
        settle_options(self, known=("int", "one_hot"))

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """Return a bin for each place."""
        made = np.full(raws[0].size, FIRST_HASH, np.uint64)
        for raw in raws:
            if raw.kind not in ("text", "integers"):
                raise TypeError(f"HashedCrossing takes text and integers, not {raw.kind}")
            _native.cross_rows(made, raw.hashes() if raw.text is not None else raw.integers.view(np.uint64))
        return bucket_numbers(made, self.num_bins)

    def to_output(self, made: Column, axes: int) -> Column:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, self.num_bins)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, self.num_bins)


def salt_words(salt: Nested, layer: str) -> tuple[int, int] | None:
    """Return the key of SipHash, of one integer or two."""
    if salt is None:
        return None
    words = (salt, salt) if isinstance(salt, int) else tuple(salt)
    if len(words) != 2 or not all(isinstance(word, int) for word in words):
        raise ValueError(f"{layer}: salt must be an integer or two, not {salt!r}")
    return words


def salted_hashes(raw: Raw, salt: tuple[int, int] | None) -> Hashes:
    """SipHash under this key, else Fingerprint64."""
    return raw.hashes() if salt is None else hash_values(raw, np.array([word % 2**64 for word in salt], np.uint64))


def bins(count: int) -> None:
    """Check the number of bins."""
    if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
        raise ValueError(f"num_bins must be at least 1, not {count!r}")


def _equal(raw: Raw, value: Component) -> NDArray[np.bool_]:
    if raw.text is None:
        return np.asarray(raw.numbers == value)
    wanted = value.encode() if isinstance(value, str) else bytes(value)
    content, cuts = raw.text
    lengths = np.diff(cuts)
    found: NDArray[np.bool_] = lengths == len(wanted)
    for place, byte in enumerate(wanted):
        there = np.flatnonzero(found)
        found[there] = content[cuts[there] + place] == byte
    return found
