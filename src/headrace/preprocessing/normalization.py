"""Numbers around 0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import Nested, StrPath, TensorLike
from headrace.feature_column.learnable import deviation, normalized
from headrace.feature_column.learners import Moments
from headrace.feature_column.raw import Raw
from headrace.plan.datasets import is_dataset
from headrace.plan.spec import TensorSpec
from headrace.preprocessing.adapt import How, flat, learn
from headrace.preprocessing.base import PreprocessingLayer, settle_options
from headrace.preprocessing.numbers import numbers_in

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Normalization(PreprocessingLayer):
    """Subtract the mean and divide by the deviation, like Keras's layer of this name; `invert` reverses that.

    Each index of `axis`, one or several, has its own `mean` and `variance`; with None, all numbers share one. Axes
    are counted in the arrays that the layer is given: those from the end mean the same for rows and for batches.

    Args:
        axis: Axis, or axes, with statistics of their own.
        mean: Mean. Default: learned by `adapt`.
        variance: Variance. Default: learned by `adapt`.
        invert: Whether to compute the inverse.
        name: Accepted for compatibility with Keras.
        dtype: Data type of the output.

    >>> hr.preprocessing.Normalization(mean=3.0, variance=4.0)([1.0, 3.0, 7.0])
    array([-1.,  0.,  2.], dtype=float32)
    """

    axis: Nested = -1
    mean: TensorLike = None
    variance: TensorLike = None
    invert: bool = False
    name: str | None = field(default=None, kw_only=True)
    dtype: DTypeLike | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        settle_options(self)
        axis = () if self.axis is None else self.axis if isinstance(self.axis, tuple | list) else (self.axis,)
        if not all(isinstance(each, int) for each in axis):
            raise ValueError(f"Normalization: axis must be an integer, several, or None, not {self.axis!r}")
        object.__setattr__(self, "axis", tuple(axis))
        if (self.mean is None) != (self.variance is None):
            raise ValueError("Normalization takes both mean and variance, or neither and adapt(data)")
        if self.mean is None:
            return
        for each in ("mean", "variance"):
            object.__setattr__(self, each, np.array(getattr(self, each), np.float32))
        if self.mean.shape != self.variance.shape:
            raise ValueError(f"Normalization: mean has the shape {self.mean.shape}, variance {self.variance.shape}")
        if self.mean.ndim > len(self.axis):
            raise ValueError(
                f"Normalization: mean has {self.mean.ndim} axes, and axis names {len(self.axis)}: say which they are"
            )

    def results(self, raws: list[Raw]) -> NDArray[np.float32]:
        """Return the numbers as float32; their axes are known only to `to_output`."""
        if raws[0].numbers is None:
            raise TypeError("Normalization takes numbers, not text")
        return np.array(raws[0].numbers, np.float32)

    def to_output(self, made: Column, axes: int) -> Column:
        """Moved and scaled."""
        if self.mean is None:
            raise ValueError("Normalization has no mean: give mean and variance, or take them from data by adapt(data)")
        if isinstance(made, Ragged):
            return Ragged(self.to_output(made.values, axes - 1), made.offsets)
        mean, variance = (self._placed(each, made.shape[1:]) for each in (self.mean, self.variance))
        return mean + made * deviation(variance) if self.invert else normalized(made, mean, variance)

    def _placed(self, moments: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return moments with their axes aligned to those of an element of this shape."""
        if moments.size == 1:
            return moments.reshape(())
        kept = kept_axes(self.axis, len(shape))
        sizes = [1] * len(shape)
        for axis, size in zip(reversed(kept), reversed(moments.shape), strict=False):
            if size not in (1, shape[axis]):
                raise ValueError(
                    f"Normalization: mean has {size} entries along an axis, but the input has {shape[axis]}"
                )
            sizes[axis] = size
        return moments.reshape(sizes)

    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """Return a spec of the same shape."""
        return TensorSpec(shape, np.float32)

    def adapt(
        self,
        data: Dataset | TensorLike,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> Normalization:
        """Return the layer with the mean and variance of `data`, an array of rows or a dataset of rows or batches.

        NaN and infinity are ignored. One axis of numbers is as many rows of one. `state`, `save_every` and
        `progress`: see `StringLookup.adapt`.

        >>> layer = hr.preprocessing.Normalization().adapt(np.array([[1.0, 10.0], [3.0, 30.0]]))
        >>> layer.mean, layer.variance
        (array([ 2., 20.], dtype=float32), array([  1., 100.], dtype=float32))
        """
        learner, found_shapes = Moments(), set[tuple[int, ...]]()
        from_end = self.axis

        def take(column: Column, axes: int) -> None:
            nonlocal from_end
            values = numbers_in(self, flat(column))
            if not self.axis or axes == 0 or (axes == 1 and _has_batches_of_numbers(data)):
                learner.take(values)
                return
            if isinstance(column, Ragged):
                raise ValueError("Normalization: rows of different lengths have no places of their own: say axis=None")
            count = axes if is_dataset(data) and axes > 1 else column.ndim  # an element of one axis is a row
            from_end = tuple(axis - count for axis in kept_axes(self.axis, count))
            shape = tuple(column.shape[axis] for axis in from_end)
            found_shapes.add(shape)
            if len(found_shapes) > 1:
                raise ValueError(f"Normalization: axis {self.axis} has different sizes, {sorted(found_shapes)}")
            learner.take(np.moveaxis(column, from_end, range(-len(shape), 0)).reshape(-1, *shape))

        learn(self, data, [learner], take, How(None, state, save_every, progress))
        found = learner.moments()
        if found is None:
            raise ValueError("Normalization: there is no number in the data")
        return replace(self, axis=from_end, mean=found[0], variance=found[1])


def kept_axes(axis: tuple[int, ...], count: int) -> list[int]:
    """Return the axes that keep their own entries, of an array of `count` axes, in order."""
    for each in axis:
        if not -count <= each < count:
            raise ValueError(f"Normalization: axis {each} is none of the {count} that the input has")
    return sorted(each % count for each in axis)


def _has_batches_of_numbers(data: object) -> bool:
    """Return whether the elements of a dataset are known to have one axis, of any length."""
    if not is_dataset(data):
        return False
    leaves = data._node.spec.leaves
    return len(leaves) == 1 and leaves[0].shape == (None,)
