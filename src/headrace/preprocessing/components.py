"""Layers for the components of elements: what all numbers of a dataset need, learnt in one pass, applied in a map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace.columns import Varied
from headrace.columns.block import Block
from headrace.columns.kind import Column
from headrace.core.types import Argument, Array, Component, Nested, StrPath, Tensor, TensorLike
from headrace.errors import what_there_is
from headrace.feature_column.gather import gather
from headrace.feature_column.learners import Quantiles
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import Structure
from headrace.preprocessing.adapt import flat
from headrace.preprocessing.base import PreprocessingLayer
from headrace.preprocessing.normalization import Normalization
from headrace.preprocessing.numbers import Discretization
from headrace.preprocessing.row_moments import RowMoments

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Path = tuple[Hashable, ...]


def component_paths(structure: Structure) -> list[Path]:
    """Return the keys that lead to each component; of an element that is one itself, none."""
    if structure.kind is None:
        return [()]
    pairs = zip(structure.keys, structure.children, strict=True)
    return [(key, *path) for key, child in pairs for path in component_paths(child)]


def component_name(path: Path) -> str:
    """Return what a component is called: `age`, `0`, `image/width`; an element that is one itself has no name."""
    return "/".join(map(str, path))


@dataclass(frozen=True, eq=False)
class ComponentLayers(ABC):
    """A layer for each of some components, by their names; the others are left as they are."""

    layers: Mapping[str, PreprocessingLayer] = field(default_factory=dict)

    _headrace_constant = True

    def __call__(self, *components: TensorLike) -> Tensor:
        """Return the element with these components changed: as `ds.map` hands them over."""
        if len(components) == 1:
            return self._changed(components[0], ())
        return tuple(self._changed(each, (i,)) for i, each in enumerate(components))

    def _changed(self, value: Component, path: Path) -> Nested:
        kind = type(value)  # of a symbol too, which has no other class than its own
        if issubclass(kind, Mapping):
            return {key: self._changed(each, (*path, key)) for key, each in value.items()}
        if issubclass(kind, tuple):
            names = getattr(kind, "_fields", range(len(value)))
            made = [self._changed(each, (*path, name)) for name, each in zip(names, value, strict=True)]
            return kind(*made) if hasattr(kind, "_fields") else tuple(made)
        if is_dataclass(kind):
            parts = {each.name: self._changed(getattr(value, each.name), (*path, each.name)) for each in fields(kind)}
            return replace(value, **parts)
        layer = self.layers.get(component_name(path))
        return value if layer is None else layer(value)

    @classmethod
    def _learn(
        cls, ds: Any, columns: Sequence[object] | None, make: Callable[[TensorSpec], object], **how: Argument
    ) -> dict[str, Any]:
        """Return what is learnt of each component: of all of real numbers, or of those named."""
        found: dict[str, Any] = {}
        wanted = None if columns is None else [str(each) for each in columns]
        known = ds._node.spec
        if known.structure is None:
            known = Spec.of_signature(ds.element_spec)
        _check_classes(cls, known.structure)
        names = [component_name(path) for path in component_paths(known.structure)]
        for name in wanted or ():
            if name not in names:
                raise KeyError(f"{cls.__name__}.adapt: no component {name!r}: {what_there_is(name, names)}")
        for name, leaf in zip(names, known.leaves, strict=True):
            real = leaf.dtype is not None and leaf.dtype.kind == "f"
            if name in (wanted if wanted is not None else [name] if real else []):
                found[name] = make(leaf)
        if not found:
            raise ValueError(f"{cls.__name__}.adapt: there are no components of real numbers: name others by columns=")

        def take(block: Block) -> None:
            for name, column in zip(names, block.columns, strict=True):
                if name in found:
                    cls._take(found[name], column, _numbers(cls, name, column))

        gather(ds, list(found.values()), take, purpose=f"{cls.__name__} {', '.join(found)}", **how)
        return found

    @classmethod
    @abstractmethod
    def _take(cls, learner: Any, column: Column, values: Array) -> None: ...

    @classmethod
    @abstractmethod
    def adapt(cls, ds: Dataset) -> Self:
        """Layers made of what a dataset holds."""


def _check_classes(cls: type, structure: Structure) -> None:
    """Refuse elements that a layer could not put together again."""
    kind = structure.kind
    if kind is not None and kind is not type(None) and not issubclass(kind, tuple | Mapping) and not is_dataclass(kind):
        raise TypeError(f"{cls.__name__} takes tuples, dicts and dataclasses apart, not a {kind.__name__}")
    for child in structure.children:
        _check_classes(cls, child)


def _numbers(cls: type, name: str, column: Column) -> Array:
    values = column.packed() if isinstance(column, Varied) else flat(column)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iufb":
        raise TypeError(f"{cls.__name__}: component {name!r} does not hold numbers, or arrays of different dtypes")
    return values


class Normalizer(ComponentLayers):
    """Numbers around 0, with a deviation of 1: of each component, by `hr.preprocessing.Normalization`.

    Each index of the last axis has its own mean; if rows differ in its length, all share one.

    Args:
        layers: Layers by component.

    >>> ds = hr.Dataset.from_tensor_slices({"age": [20.0, 30.0, 40.0], "name": ["a", "b", "c"]})
    >>> normalizer = hr.Normalizer.adapt(ds)
    >>> [row["age"] for row in ds.map(normalizer)]
    [np.float32(-1.2247449), np.float32(0.0), np.float32(1.2247449)]
    """

    @classmethod
    def adapt(
        cls,
        ds: Dataset,
        columns: Sequence[object] | None = None,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> Normalizer:
        """Means and variances of a dataset's components, in one pass: of all real numbers, or of `columns`, by name.

        NaN and infinity do not count. `state`, `save_every` and `progress`: see `hr.text.Vocabulary.adapt`.
        """
        found = cls._learn(ds, columns, _row_moments, state=state, save_every=save_every, progress=progress)
        layers: dict[str, PreprocessingLayer] = {}
        for name, learner in found.items():
            moments = learner.moments()
            if moments is None:
                raise ValueError(f"Normalizer: component {name!r} holds no number, at some place")
            mean, variance = moments
            layers[name] = Normalization(axis=-1 if np.ndim(mean) else None, mean=mean, variance=variance)
        return cls(layers)

    @classmethod
    def _take(cls, learner: Any, column: Column, values: Array) -> None:
        learner.take(column, values)


def _row_moments(leaf: TensorSpec) -> RowMoments:
    return RowMoments(leaf.shape[-1] if leaf.shape else None)


class Discretizer(ComponentLayers):
    """Numbers to buckets that are about equally full: of each component, by `hr.preprocessing.Discretization`.

    Args:
        layers: Layers by component.

    >>> ds = hr.Dataset.from_tensor_slices({"age": [20.0, 25.0, 30.0, 60.0]})
    >>> [row["age"] for row in ds.map(hr.Discretizer.adapt(ds, num_bins=2))]
    [np.int64(0), np.int64(0), np.int64(1), np.int64(1)]
    """

    @classmethod
    def adapt(
        cls,
        ds: Dataset,
        columns: Sequence[object] | None = None,
        *,
        num_bins: int = 10,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> Discretizer:
        """Return quantiles of a dataset's components, in one pass: of all real numbers, or of `columns`, by name.

        Exact up to a million different numbers. `state`, `save_every` and `progress`: see `hr.text.Vocabulary.adapt`.
        """
        if num_bins < 2:
            raise ValueError(f"Discretizer: num_bins must be at least 2, not {num_bins}")
        found = cls._learn(ds, columns, lambda _: Quantiles(), state=state, save_every=save_every, progress=progress)
        layers: dict[str, PreprocessingLayer] = {}
        for name, learner in found.items():
            bounds = learner.quantiles(num_bins)
            if not bounds:
                raise ValueError(f"Discretizer: component {name!r} holds no number")
            layers[name] = Discretization(bin_boundaries=bounds)
        return cls(layers)

    @classmethod
    def _take(cls, learner: Any, column: Column, values: Array) -> None:  # noqa: ARG003
        learner.take(values)
