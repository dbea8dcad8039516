"""Numbers in buckets, and as categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Array, StrPath, Tensor, TensorLike
from headrace.feature_column.learners import Quantiles
from headrace.feature_column.raw import Raw
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.adapt import How, flat, learn
from headrace.preprocessing.base import PreprocessingLayer, encode, encoded_spec, preprocess, settle_options

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@dataclass(frozen=True)
class Discretization(PreprocessingLayer):
    """Map numbers to buckets between boundaries, like Keras's layer of this name.

    Args:
        bin_boundaries: Boundaries between the bins. Default: learned by `adapt`.
        num_bins: Number of bins.
        epsilon: Accepted for compatibility with Keras; quantiles are exact.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        sparse: Accepted for compatibility with Keras; only False is supported.
        dtype: Data type of the output.
        name: Accepted for compatibility with Keras.

    >>> hr.preprocessing.Discretization(bin_boundaries=[0.0, 1.0])([-1.5, 0.0, 3.4])
    array([0, 1, 2])
    """

    bin_boundaries: Sequence[float] | None = None
    num_bins: int | None = None
    epsilon: float = 0.01
    output_mode: str = "int"
    sparse: bool = False
    dtype: DTypeLike | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        settle_options(self)
        if self.num_bins is not None and self.num_bins < 2:
            raise ValueError(f"Discretization: num_bins must be at least 2, not {self.num_bins}")
        if (self.bin_boundaries is None) == (self.num_bins is None):
            raise ValueError("Discretization takes bin_boundaries, or num_bins to find some by adapt(data)")
        if self.bin_boundaries is not None:
            bounds = tuple(float(bound) for bound in self.bin_boundaries)
            if list(bounds) != sorted(bounds):
                raise ValueError("Discretization: bin_boundaries must rise: sort them")
            object.__setattr__(self, "bin_boundaries", bounds)

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """Return the bucket of each number."""
        values = np.ascontiguousarray(_numbers(self, raws[0]), np.float32)
        made = np.empty(len(values), np.int64)
        _native.bucketize(values, np.array(self._bounds(), np.float32), made)
        return made

    def _bounds(self) -> Sequence[float]:
        if self.bin_boundaries is None:
            raise ValueError("Discretization has no boundaries: give some, or take them from data by adapt(data)")
        return self.bin_boundaries

    def to_output(self, made: Column, axes: int) -> Column:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, len(self._bounds()) + 1)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, len(self._bounds()) + 1)

    def adapt(
        self,
        data: Dataset | TensorLike,
        steps: int | None = None,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> Discretization:
        """Return the layer with boundaries that cut `data` into `num_bins` of as equal a size as can be.

        The quantiles are exact while there are no more than a million different numbers, and beyond that closer than
        Keras's `epsilon`. `steps`, `state`, `save_every` and `progress`: see `StringLookup.adapt`.

        >>> hr.preprocessing.Discretization(num_bins=2).adapt([1.0, 2.0, 3.0, 4.0, 5.0]).bin_boundaries
        (3.0,)
        """
        if self.num_bins is None:
            raise ValueError("Discretization: say num_bins instead of bin_boundaries to find them in data")
        learner = Quantiles()

        def take(column: Column, axes: int) -> None:
            del axes
            learner.take(numbers_in(self, flat(column)))

        learn(self, data, [learner], take, How(steps, state, save_every, progress))
        bounds = learner.quantiles(self.num_bins)
        if not bounds:
            raise ValueError("Discretization: there is no number in the data")
        return replace(self, bin_boundaries=bounds, num_bins=None)


@dataclass(frozen=True)
class CategoryEncoding(PreprocessingLayer):
    """Integers from 0 to `num_tokens` - 1 as vectors, as Keras's layer of this name.

    Args:
        num_tokens: Number of tokens.
        output_mode: Form of the output, such as "int", "one_hot", "multi_hot" or "count".
        sparse: Accepted for compatibility with Keras; only False is supported.
        name: Accepted for compatibility with Keras.
        dtype: Data type of the output.

    >>> hr.preprocessing.CategoryEncoding(4, "multi_hot")(np.array([[0, 1], [1, 3]]))
    array([[1., 1., 0., 0.],
           [0., 1., 0., 1.]], dtype=float32)
    """

    num_tokens: int
    output_mode: str = "multi_hot"
    sparse: bool = False
    name: str | None = field(default=None, kw_only=True)
    dtype: DTypeLike | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        settle_options(self, known=("one_hot", "multi_hot", "count"))
        if isinstance(self.num_tokens, bool) or not hasattr(self.num_tokens, "__index__") or self.num_tokens < 1:
            raise ValueError(f"CategoryEncoding: num_tokens must be at least 1, not {self.num_tokens!r}")

    def __call__(self, *values: TensorLike, count_weights: TensorLike = None) -> Tensor:
        """Return vectors; with `count_weights`, of the shape of the integers, sums of these instead of counts."""
        if count_weights is None:
            return super().__call__(*values)
        if self.output_mode != "count":
            raise ValueError("CategoryEncoding: count_weights needs output_mode='count'")
        return preprocess((*values, count_weights), _WeightedCounts(self))

    def results(self, raws: list[Raw]) -> NDArray[np.int64]:
        """Return the integers, checked."""
        values = _numbers(self, raws[0])
        ids = values.astype(np.int64)
        outside = (ids < 0) | (ids >= self.num_tokens)
        if outside.any():
            found = int(ids[outside.argmax()])
            raise ValueError(f"CategoryEncoding: {found} is not in 0 … {self.num_tokens - 1}: num_tokens is too small")
        return ids

    def to_output(self, made: Column, axes: int) -> Column:
        """By `output_mode`."""
        return encode(made, axes, self.output_mode, self.num_tokens)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """By `output_mode`."""
        return encoded_spec(shape, self.output_mode, self.num_tokens)


WEIGHTED = np.dtype([("id", np.int64), ("weight", np.float32)])


@dataclass(frozen=True)
class _WeightedCounts(PreprocessingLayer):
    """Integers with weights."""

    layer: CategoryEncoding
    inputs = 2

    @property
    def dtype(self) -> Any:
        """That of the layer."""
        return self.layer.dtype

    def results(self, raws: list[Raw]) -> Array:
        made = np.empty(raws[0].size, WEIGHTED)
        made["id"], made["weight"] = self.layer.results(raws[:1]), _numbers(self.layer, raws[1])
        return made

    def to_output(self, made: Column, axes: int) -> Column:
        ids, weights = (made["id"], made["weight"]) if isinstance(made, np.ndarray) else _both(made)
        return encode(ids, axes, "count", self.layer.num_tokens, weights)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        return self.layer.spec(shape)


def _both(made: Ragged) -> tuple[Ragged, Array]:
    return Ragged(made.values["id"], made.offsets), made.values["weight"]


def numbers_in(layer: PreprocessingLayer, values: object) -> Array:
    """Return an array of numbers."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iufb":
        raise TypeError(f"{type(layer).__name__} takes numbers, not text")
    return values


def _numbers(layer: PreprocessingLayer, raw: Raw) -> Array:
    if raw.numbers is None:
        raise TypeError(f"{type(layer).__name__} takes numbers, not text")
    return raw.numbers
