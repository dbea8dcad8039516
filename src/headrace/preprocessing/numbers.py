"""Numbers: in buckets, as categories, and around 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.feature_column.raw import Raw, is_single, plain_column
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.base import PreprocessingLayer, encode, encoded_spec, mode_of
from headrace.ragged import Ragged


@dataclass(frozen=True)
class Discretization(PreprocessingLayer):
    """Numbers to the bucket between boundaries that they lie in, as Keras's layer of this name.

    >>> hr.preprocessing.Discretization(bin_boundaries=[0.0, 1.0])([-1.5, 0.0, 3.4])
    array([0, 1, 2])
    """

    bin_boundaries: Sequence[float] | None = None
    num_bins: int | None = None
    output_mode: str = "int"

    def __post_init__(self) -> None:
        mode_of(self.output_mode)
        if (self.bin_boundaries is None) == (self.num_bins is None):
            raise ValueError("Discretization takes bin_boundaries, or num_bins to find some by adapt(data)")
        if self.bin_boundaries is not None:
            bounds = tuple(float(bound) for bound in self.bin_boundaries)
            if list(bounds) != sorted(bounds):
                raise ValueError("Discretization: bin_boundaries must rise: sort them")
            object.__setattr__(self, "bin_boundaries", bounds)

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """The bucket of each number."""
        values = np.ascontiguousarray(_numbers(self, raws[0]), np.float32)
        made = np.empty(len(values), np.int64)
        _native.bucketize(values, np.array(self._bounds(), np.float32), made)
        return made

    def _bounds(self) -> Sequence[float]:
        if self.bin_boundaries is None:
            raise ValueError("Discretization has no boundaries: give some, or take them from data by adapt(data)")
        return self.bin_boundaries

    def to_output(self, made: Any, axes: int) -> Any:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, len(self._bounds()) + 1)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, len(self._bounds()) + 1)

    def adapt(self, data: Any) -> Discretization:
        """The layer with boundaries that cut `data` into `num_bins` of as equal a size as can be.

        The quantiles are exact, where Keras's are approximate: all numbers are held at once.

        >>> hr.preprocessing.Discretization(num_bins=2).adapt([1.0, 2.0, 3.0, 4.0, 5.0]).bin_boundaries
        (3.0,)
        """
        if self.num_bins is None:
            raise ValueError("Discretization: say num_bins instead of bin_boundaries to find them in data")
        values = np.concatenate([_flat(batch) for batch in _batches(data)])
        values = values[~np.isnan(values)]
        if not len(values):
            raise ValueError("Discretization: there is no number in the data")
        bounds = np.unique(np.quantile(values, np.arange(1, self.num_bins) / self.num_bins))
        return Discretization(bounds.tolist(), None, self.output_mode)


@dataclass(frozen=True)
class CategoryEncoding(PreprocessingLayer):
    """Integers from 0 to `num_tokens` - 1 as vectors, as Keras's layer of this name.

    >>> hr.preprocessing.CategoryEncoding(4, "multi_hot")(np.array([[0, 1], [1, 3]]))
    array([[1., 1., 0., 0.],
           [0., 1., 0., 1.]], dtype=float32)
    """

    num_tokens: int
    output_mode: str = "multi_hot"

    def __post_init__(self) -> None:
        mode_of(self.output_mode, known=("one_hot", "multi_hot", "count"))
        if isinstance(self.num_tokens, bool) or not hasattr(self.num_tokens, "__index__") or self.num_tokens < 1:
            raise ValueError(f"CategoryEncoding: num_tokens must be at least 1, not {self.num_tokens!r}")

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """The integers, checked."""
        values = _numbers(self, raws[0])
        ids = values.astype(np.int64)
        outside = (ids < 0) | (ids >= self.num_tokens)
        if outside.any():
            found = int(ids[outside.argmax()])
            raise ValueError(f"CategoryEncoding: {found} is not in 0 … {self.num_tokens - 1}: num_tokens is too small")
        return ids

    def to_output(self, made: Any, axes: int) -> Any:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, self.num_tokens)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, self.num_tokens)


@dataclass(frozen=True, eq=False)
class Normalization(PreprocessingLayer):
    """Numbers less their mean, by their deviation, as Keras's layer of this name; `invert` turns that round.

    `mean` and `variance` are numbers, or one for each place of the last axis.

    >>> hr.preprocessing.Normalization(mean=3.0, variance=4.0)([1.0, 3.0, 7.0])
    array([-1.,  0.,  2.], dtype=float32)
    """

    mean: Any = None
    variance: Any = None
    invert: bool = False

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.variance is None):
            raise ValueError("Normalization takes both mean and variance, or neither and adapt(data)")

    def results(self, raws: list[Raw]) -> NDArray[np.float32]:
        """The numbers as float32; the last axis is known only to `encoded`."""
        return np.array(_numbers(self, raws[0]), np.float32)

    def to_output(self, made: Any, axes: int) -> Any:
        """Moved and scaled."""
        if self.mean is None:
            raise ValueError("Normalization has no mean: give mean and variance, or take them from data by adapt(data)")
        if isinstance(made, Ragged):
            return Ragged(self.to_output(made.values, axes - 1), made.offsets)
        mean, variance = (np.asarray(each, np.float32) for each in (self.mean, self.variance))
        deviation = np.maximum(np.sqrt(variance), np.float32(1e-7))
        return mean + made * deviation if self.invert else (made - mean) / deviation

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """Of the same shape."""
        return TensorSpec(shape, np.float32)

    def adapt(self, data: Any, *, axis: int | None = None) -> Normalization:
        """The layer with the mean and variance of `data`, an array or a dataset.

        They are of all numbers, or with `axis=-1` of those at each place of the last axis.

        >>> layer = hr.preprocessing.Normalization().adapt([1.0, 3.0, 5.0])
        >>> float(layer.mean), float(layer.variance)
        (3.0, 2.6666667461395264)
        """
        if axis not in (None, -1):
            raise ValueError(f"Normalization: axis must be None or -1, not {axis}")
        count, mean, squares = 0, np.float64(0), np.float64(0)
        for batch in _batches(data):
            values = np.asarray(batch, np.float64)
            values = values.reshape(-1, values.shape[-1]) if axis == -1 else values.reshape(-1)
            if not len(values):
                continue
            here = values.mean(axis=0)
            more = count + len(values)
            squares = squares + ((values - here) ** 2).sum(axis=0) + (here - mean) ** 2 * count * len(values) / more
            mean, count = mean + (here - mean) * len(values) / more, more
        if not count:
            raise ValueError("Normalization: there is no number in the data")
        return replace(self, mean=np.float32(mean), variance=np.float32(squares / count))


def _numbers(layer: PreprocessingLayer, raw: Raw) -> NDArray[Any]:
    if raw.numbers is None:
        raise TypeError(f"{type(layer).__name__} takes numbers, not text")
    return raw.numbers


def _batches(data: Any) -> Any:
    return data if hasattr(data, "element_spec") else [data]


def _flat(batch: Any) -> NDArray[np.float64]:
    column = batch if is_single(batch) else plain_column(batch)
    while isinstance(column, Ragged):
        column = column.values
    return np.asarray(column, np.float64).reshape(-1)
