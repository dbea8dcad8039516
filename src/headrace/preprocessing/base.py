"""The base of all layers: run on one value, on arrays of any shape, and on columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace import _native
from headrace.columns import RaggedText, Stacked, text_column
from headrace.columns.kind import Column
from headrace.core.ragged import Ragged
from headrace.core.types import AnyFunction, Array, Component, Tensor, TensorLike
from headrace.feature_column.raw import Raw, is_single, plain_column, raw_of
from headrace.plan.spec import TensorSpec
from headrace.trace.operation import traced_operation

MODES = ("int", "one_hot", "multi_hot", "count")
OTHER_NAMES = {"binary": "multi_hot", "tf-idf": "tf_idf"}
"""Former names in Keras."""


class PreprocessingLayer(ABC):
    """A function of values, of whatever shape; it never changes, so that a pipeline may hold on to it."""

    _headrace_constant = True
    inputs = 1
    dtype: Any = None
    """The dtype of results, if not the layer's default."""

    def __call__(self, *values: TensorLike) -> Tensor:
        """Return what the layer makes of a value, or of an array of them."""
        alone = len(values) == 1 and issubclass(type(values[0]), tuple)  # which a symbol need not answer
        given = tuple(values[0]) if alone else values
        if len(given) < self.inputs or (self.inputs == 1 and len(given) > 1):
            asked = "one input" if self.inputs == 1 else "a tuple of at least two inputs"
            raise ValueError(f"{type(self).__name__} takes {asked}, not {len(given)}")
        return preprocess(given, self)

    @abstractmethod
    def results(self, raws: list[Raw]) -> Array:
        """Return a number for each value, or of several inputs for all that stand at one place."""

    def to_output(self, made: Column, axes: int) -> Column:
        """Return the numbers as the layer's output; elements have `axes` axes."""
        del axes
        return made

    def finished(self, made: Column, axes: int) -> Column:
        """Return the same, in the `dtype` that was requested."""
        made = self.to_output(made, axes)
        return made if self.dtype is None else _cast(made, self.dtype)

    @abstractmethod
    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """Return what comes of an element of this shape."""


def _spec(inputs: tuple[TensorSpec, ...], layer: PreprocessingLayer) -> TensorSpec:
    shapes = {each.shape for each in inputs}
    if len(shapes) != 1 or None in shapes:
        raise ValueError(f"{type(layer).__name__} needs inputs of one known shape, not {shapes}")
    (shape,) = shapes
    assert shape is not None
    made = layer.spec(shape)
    return made if layer.dtype is None else TensorSpec(made.shape, layer.dtype)


def _block(inputs: tuple[TensorSpec, ...], layer: PreprocessingLayer) -> AnyFunction:
    axes = inputs[0].rank or 0

    def run(*columns: Column) -> Column:
        as_they_are = len(columns) == 1 and isinstance(columns[0], RaggedText | Stacked)
        made = _run(list(columns) if as_they_are else [plain_column(column) for column in columns], layer, axes)
        return (
            text_column(made.tolist()) if isinstance(made, np.ndarray) and made.dtype == object and not axes else made
        )

    return run


@traced_operation(spec=_spec, block=_block)
def preprocess(inputs: tuple[object, ...], layer: PreprocessingLayer) -> Tensor:
    """Return what the layer makes of one element."""
    if all(map(is_single, inputs)):
        boxes = [plain_column([value.item() if isinstance(value, np.ndarray) else value]) for value in inputs]
        return _run(boxes, layer, 0)[0]
    columns = [one_element(plain_column(value)) for value in inputs]
    made = _run(columns, layer, len(columns[0].shape) - 1)
    return made.values if isinstance(made, Ragged) and isinstance(made.values, Ragged) else made[0]


def _cast(made: Column, dtype: DTypeLike) -> Column:
    return Ragged(_cast(made.values, dtype), made.offsets) if isinstance(made, Ragged) else made.astype(dtype)


def one_element(value: Component) -> Column:
    """Return a column that has this one element."""
    if isinstance(value, Ragged):
        return Ragged(value, [0, len(value)])
    array = value if isinstance(value, np.ndarray) else value.to_numpy(zero_copy_only=False)
    return array[None]


def _run(columns: list[Any], layer: PreprocessingLayer, axes: int) -> Column:
    first = columns[0]
    if isinstance(first, RaggedText):
        return layer.finished(Ragged._of(layer.results([raw_of(first.inner)]), first.offsets), axes)
    if isinstance(first, Stacked):
        return layer.finished(layer.results([raw_of(first.inner)]).reshape(len(first), *first.shape), axes)
    if isinstance(first, Ragged):
        flat = [column.values for column in columns]
        if any(not np.array_equal(column.offsets, first.offsets) for column in columns):
            raise ValueError(f"{type(layer).__name__} takes inputs of one shape")
        if isinstance(flat[0], Ragged):
            return Ragged(_run(flat, layer, axes - 1), first.offsets)
        return layer.finished(Ragged(layer.results([raw_of(each) for each in flat]), first.offsets), axes)
    shape = first.shape if isinstance(first, np.ndarray) else (len(first),)
    shapes = [column.shape if isinstance(column, np.ndarray) else (len(column),) for column in columns]
    if any(other != shape for other in shapes):
        raise ValueError(f"{type(layer).__name__} takes inputs of one shape, not {shapes}")
    made = layer.results([raw_of(c.reshape(-1) if isinstance(c, np.ndarray) else c) for c in columns])
    return layer.finished(made.reshape(shape), axes)


def settle_options(layer: Any, known: tuple[str, ...] = MODES) -> None:
    """Check the options of all layers, `output_mode`, `sparse` and `dtype`, while the layer is constructed."""
    name = type(layer).__name__
    if hasattr(layer, "output_mode"):
        mode = OTHER_NAMES.get(layer.output_mode, layer.output_mode)
        if mode not in known:
            raise ValueError(f"{name}: output_mode must be one of {', '.join(map(repr, known))}, not {mode!r}")
        object.__setattr__(layer, "output_mode", mode)
    if getattr(layer, "sparse", False):
        raise ValueError(
            f"{name}: sparse=True gives TensorFlow's sparse tensors: leave it out, or take ids by output_mode='int'"
        )
    if layer.dtype is not None:
        dtype = np.dtype(getattr(layer.dtype, "as_numpy_dtype", layer.dtype))
        whole = getattr(layer, "output_mode", None) == "int"
        if dtype.kind not in ("iu" if whole else "iuf"):
            raise ValueError(f"{name}: dtype must be of {'integers' if whole else 'numbers'}, not {dtype}")
        object.__setattr__(layer, "dtype", dtype)


def encode(ids: Column, axes: int, mode: str, depth: int, weights: Column = None) -> Column:
    """Return ids as they are, or as vectors of `depth`; multi-hot and counts combine the last axis of an element."""
    if mode == "int":
        return ids
    if isinstance(ids, Ragged):
        if mode == "one_hot":
            return Ragged(encode(ids.values, 0, mode, depth), ids.offsets)
        return _count_ids(ids.values, np.ascontiguousarray(ids.offsets), mode, depth, weights)
    if mode == "one_hot":
        ids = ids[..., 0] if axes > 1 and ids.shape[-1] == 1 else ids
        rows = ids.size
        return _count_ids(ids.reshape(-1), np.arange(rows + 1), mode, depth).reshape(*ids.shape, depth)
    ids = ids if axes else ids[..., None]
    rows = int(np.prod(ids.shape[:-1], dtype=int))
    counted = _count_ids(ids.reshape(-1), np.arange(rows + 1) * ids.shape[-1], mode, depth, weights)
    return counted.reshape(*ids.shape[:-1], depth)


def _count_ids(
    ids: Array, offsets: NDArray[np.int64], mode: str, depth: int, weights: Column = None
) -> NDArray[np.float32]:
    out = np.zeros((len(offsets) - 1, depth), np.float32)
    by = np.empty(0, np.float32) if weights is None else np.ascontiguousarray(weights, np.float32).reshape(-1)
    _native.add_counts(np.ascontiguousarray(ids, np.int64), offsets, by, depth, out, 0)
    return np.minimum(out, 1) if mode == "multi_hot" else out


def encoded_spec(shape: tuple[int | None, ...], mode: str, depth: int, dtype: DTypeLike = np.int64) -> TensorSpec:
    """Return what `encode` gives of an element of this shape."""
    if mode == "int":
        return TensorSpec(shape, dtype)
    if mode == "one_hot":
        kept = shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape
        return TensorSpec((*kept, depth), np.float32)
    return TensorSpec((*shape[:-1], depth), np.float32)
