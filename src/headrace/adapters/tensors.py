"""Columns of NumPy arrays as PyTorch tensors."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.adapters.feed import PlainTarget
from headrace.columns import Column, values
from headrace.columns.block import Block
from headrace.core.extended import bits, is_extended
from headrace.core.frameworks import framework
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, DeviceLike, DType, Nested, TorchTensor
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    import torch


class Casts:
    """The torch dtype of each component: by its path in the element, else by its NumPy dtype, else its own."""

    def __init__(self, wanted: Mapping[Any, object]) -> None:
        self._places: dict[tuple[Any, ...], Any] = {}
        self._dtypes: dict[DType, Any] = {}
        for key, dtype in wanted.items():
            if isinstance(key, np.dtype | type):
                self._dtypes[np.dtype(key)] = dtype
            else:
                self._places[key if isinstance(key, tuple) else (key,)] = dtype

    def __bool__(self) -> bool:
        return bool(self._places or self._dtypes)

    def of(self, structure: Structure) -> list[Component]:
        """Return the dtype requested for each leaf by its path, None if there is none."""
        places = list(leaf_places(structure))
        for place in self._places:
            if place not in places:
                known = ", ".join(repr(p[0] if len(p) == 1 else p) for p in places if p)
                shown = place[0] if len(place) == 1 else place
                raise ValueError(f"to_torch: dtypes names component {shown!r}, but the elements have {known or 'one'}")
        return [self._places.get(place) for place in places]

    def dtype(self, own: DType) -> torch.dtype | None:
        """Return the dtype requested by NumPy dtype."""
        return self._dtypes.get(own)


def leaf_places(structure: Structure, before: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each leaf: the keys on the way to it."""
    if structure.kind is None:
        return [before]
    return [p for k, c in zip(structure.keys, structure.children, strict=True) for p in leaf_places(c, (*before, k))]


class Unlocked:
    """The memory of a read-only array, for a consumer that requires a writable array but only reads it."""

    def __init__(self, array: Array) -> None:
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def readable(array: Array, path: str) -> TorchTensor:
    """Return a tensor over the memory of an array, to be read only."""
    if array.flags.writeable:
        return over(array, path)
    if is_extended(array.dtype):
        return over(np.asarray(Unlocked(bits(array))).view(array.dtype), path)
    return over(np.asarray(Unlocked(array)), path)


def own_tensor(array: Array, path: str) -> TorchTensor:
    """Return a tensor of an array: over the same memory, if that is the array's own, else of a copy."""
    return over(array if array.flags.writeable else array.copy(), path)


def over(array: Array, path: str) -> TorchTensor:
    """Return a tensor over the memory of an array, if torch supports it."""
    from_numpy = sys.modules["torch"].from_numpy
    if is_extended(array.dtype) and (dtype := getattr(sys.modules["torch"], array.dtype.name, None)) is not None:
        return from_numpy(bits(array)).view(dtype)
    try:
        return from_numpy(array)
    except (TypeError, ValueError) as error:
        if not array.dtype.isnative or any(s < 0 for s in array.strides):
            return from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
        raise TypeError(
            f"to_torch: component{path} has dtype {array.dtype}, which torch does not know: change it with map, such "
            f"as x.astype(np.int64)"
        ) from error


def nested_tensor(rows: object, offsets: object) -> TorchTensor:
    """Return a jagged nested tensor."""
    torch = framework("torch", "to_torch")
    return torch.nested.nested_tensor_from_jagged(rows, offsets)


class Tensors(PlainTarget):
    """Tensors on the CPU, or on a device that copies as it likes."""

    name = "to_torch"

    def __init__(self, casts: Casts, device: DeviceLike, *, pin: bool, ahead: int) -> None:
        super().__init__(ahead)
        self._casts = casts
        self._device = device
        self._pin = pin

    def check(self, structure: Structure) -> None:
        """Refuse elements that do not have the components that dtypes name."""
        self._casts.of(structure)

    def convert(self, block: Block) -> Block:
        """Return columns of tensors."""
        structure = block.structure
        wanted = self._casts.of(structure) if self._casts else [None] * len(block.columns)
        columns: list[Column] = [
            self._column(column, dtype, path)
            for column, dtype, path in zip(block.columns, wanted, structure.paths, strict=True)
        ]
        return Block(structure, columns, block.rows)

    def _column(self, column: Column, dtype: torch.dtype | None, path: str) -> list[Component]:
        if not isinstance(column, np.ndarray) or column.dtype.hasobject:
            return [self._leaf(value, dtype, path) for value in values(column)]
        if column.ndim == 1:
            rows = list(own_tensor(column, path).unbind())
        elif column.flags.writeable:
            rows = [over(row, path) for row in column]
        else:
            rows = [over(row.copy(), path) for row in column]
        dtype = dtype or self._casts.dtype(column.dtype)
        plain = dtype is None and self._device is None and not self._pin
        return rows if plain else [self._placed(row, dtype) for row in rows]

    def _leaf(self, value: Component, dtype: torch.dtype | None, path: str) -> Nested:
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return value.tolist()
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            return self._placed(own_tensor(array, path), dtype or self._casts.dtype(array.dtype))
        if isinstance(value, Ragged):
            rows = self._placed(own_tensor(value.values, path), dtype or self._casts.dtype(value.dtype))
            return nested_tensor(rows, self._placed(over(value.offsets.copy(), path), None))
        return value

    def _placed(self, tensor: TorchTensor, dtype: torch.dtype | None) -> TorchTensor:
        if dtype is not None or self._device is not None:
            tensor = tensor.to(device=self._device, dtype=dtype)
        return tensor.pin_memory() if self._pin else tensor
