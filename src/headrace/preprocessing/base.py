"""What all layers have in common: how they run on one value, on arrays of any shape, and on columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.feature_column.raw import Raw, is_single, plain_column, raw_of
from headrace.plan.spec import TensorSpec
from headrace.ragged import Ragged
from headrace.trace.operation import traced_operation

MODES = ("int", "one_hot", "multi_hot", "count")


class PreprocessingLayer(ABC):
    """A function of values, of whatever shape; it never changes, so that a pipeline may hold on to it."""

    _headrace_constant = True
    inputs = 1

    def __call__(self, *values: Any) -> Any:
        """What the layer makes of a value, or of an array of them."""
        given = tuple(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else values
        if len(given) < self.inputs or (self.inputs == 1 and len(given) > 1):
            asked = "one input" if self.inputs == 1 else "a tuple of at least two inputs"
            raise ValueError(f"{type(self).__name__} takes {asked}, not {len(given)}")
        return preprocess(given, self)

    @abstractmethod
    def results(self, raws: list[Raw]) -> NDArray[Any]:
        """A number for each value, or of several inputs for all that stand at one place."""

    def to_output(self, made: Any, axes: int) -> Any:
        """The numbers as the layer gives them; elements have so many axes."""
        del axes
        return made

    @abstractmethod
    def spec(self, shape: tuple[int | None, ...]) -> TensorSpec:
        """What comes of an element of this shape."""


def _spec(inputs: tuple[TensorSpec, ...], layer: PreprocessingLayer) -> TensorSpec:
    shapes = {each.shape for each in inputs}
    if len(shapes) != 1 or None in shapes:
        raise ValueError(f"{type(layer).__name__} needs inputs of one known shape, not {shapes}")
    (shape,) = shapes
    assert shape is not None
    return layer.spec(shape)


def _block(inputs: tuple[TensorSpec, ...], layer: PreprocessingLayer) -> Callable[..., Any]:
    axes = inputs[0].rank or 0
    return lambda *columns: _run([plain_column(column) for column in columns], layer, axes)


@traced_operation(spec=_spec, block=_block)
def preprocess(inputs: tuple[Any, ...], layer: PreprocessingLayer) -> Any:
    """What the layer makes of one element."""
    if all(map(is_single, inputs)):
        boxes = [plain_column([value.item() if isinstance(value, np.ndarray) else value]) for value in inputs]
        return _run(boxes, layer, 0)[0]
    columns = [_one_element(plain_column(value)) for value in inputs]
    made = _run(columns, layer, len(columns[0].shape) - 1)
    return made.values if isinstance(made, Ragged) and isinstance(made.values, Ragged) else made[0]


def _one_element(value: Any) -> Any:
    """A column that has this one element."""
    if isinstance(value, Ragged):
        return Ragged(value, [0, len(value)])
    array = value if isinstance(value, np.ndarray) else value.to_numpy(zero_copy_only=False)
    return array[None]


def _run(columns: list[Any], layer: PreprocessingLayer, axes: int) -> Any:
    first = columns[0]
    if isinstance(first, Ragged):
        flat = [column.values for column in columns]
        if any(not np.array_equal(column.offsets, first.offsets) for column in columns):
            raise ValueError(f"{type(layer).__name__} takes inputs of one shape")
        if isinstance(flat[0], Ragged):
            return Ragged(_run(flat, layer, axes - 1), first.offsets)
        return layer.to_output(Ragged(layer.results([raw_of(each) for each in flat]), first.offsets), axes)
    shape = first.shape if isinstance(first, np.ndarray) else (len(first),)
    shapes = [column.shape if isinstance(column, np.ndarray) else (len(column),) for column in columns]
    if any(other != shape for other in shapes):
        raise ValueError(f"{type(layer).__name__} takes inputs of one shape, not {shapes}")
    made = layer.results([raw_of(c.reshape(-1) if isinstance(c, np.ndarray) else c) for c in columns])
    return layer.to_output(made.reshape(shape), axes)


def mode_of(mode: str, *, known: tuple[str, ...] = MODES) -> str:
    """An output_mode that there is."""
    if mode not in known:
        raise ValueError(f"output_mode must be one of {', '.join(map(repr, known))}, not {mode!r}")
    return mode


def encode(ids: Any, axes: int, mode: str, depth: int) -> Any:
    """Ids as they are, or as vectors of `depth`; many-hot and counts take the last axis of an element together."""
    if mode == "int":
        return ids
    if isinstance(ids, Ragged):
        if mode == "one_hot":
            return Ragged(encode(ids.values, 0, mode, depth), ids.offsets)
        return _count_ids(ids.values, np.ascontiguousarray(ids.offsets), mode, depth)
    if mode == "one_hot":
        ids = ids[..., 0] if axes > 1 and ids.shape[-1] == 1 else ids
        rows = ids.size
        return _count_ids(ids.reshape(-1), np.arange(rows + 1), mode, depth).reshape(*ids.shape, depth)
    ids = ids if axes else ids[..., None]
    rows = int(np.prod(ids.shape[:-1], dtype=int))
    counted = _count_ids(ids.reshape(-1), np.arange(rows + 1) * ids.shape[-1], mode, depth)
    return counted.reshape(*ids.shape[:-1], depth)


def _count_ids(ids: NDArray[Any], offsets: NDArray[np.int64], mode: str, depth: int) -> NDArray[np.float32]:
    out = np.zeros((len(offsets) - 1, depth), np.float32)
    _native.add_counts(np.ascontiguousarray(ids, np.int64), offsets, np.empty(0, np.float32), depth, out, 0)
    return np.minimum(out, 1) if mode == "multi_hot" else out


def encoded_spec(shape: tuple[int | None, ...], mode: str, depth: int, dtype: Any = np.int64) -> TensorSpec:
    """What `encode` gives of an element of this shape."""
    if mode == "int":
        return TensorSpec(shape, dtype)
    if mode == "one_hot":
        kept = shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape
        return TensorSpec((*kept, depth), np.float32)
    return TensorSpec((*shape[:-1], depth), np.float32)
