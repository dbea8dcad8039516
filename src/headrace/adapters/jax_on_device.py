"""JAX: batches that a map with `device="auto"` made by JAX, handed over where they are."""

from __future__ import annotations

from typing import Any

import headrace.image.on_jax as _forms  # noqa: F401 - registers them
from headrace.adapters.jax import Arrays, cannot_spread
from headrace.columns import Column
from headrace.core.frameworks import framework
from headrace.core.types import Component, DeviceLike, Library, LibraryObject, Nested
from headrace.device.columns import DeviceColumn
from headrace.device.cut import is_text
from headrace.device.on_jax.machine import Place
from headrace.ops.device_map import placed_by_jax
from headrace.plan.node import Node
from headrace.plan.spec import TensorSpec
from headrace.plan.structure import flatten

NO_TEXT = (
    "which JAX does not have: leave it out of the result of the map with device=, or make numbers of it before "
    "(hr.text has hashes and vocabularies)"
)


def by_jax(plan: Node, device: DeviceLike, sharding: Nested) -> tuple[Node, Any]:
    """Return the plan with its maps on "auto" run by JAX, and the device for what the CPU computes."""
    jax = framework("jax", "to_jax")
    place = _place(jax, device, sharding)
    made = placed_by_jax(plan, place)
    spec = made.spec
    if spec.structure is not None:
        for found, path in zip(spec.leaves, spec.structure.paths, strict=True):
            if isinstance(found, TensorSpec) and found.dtype is not None and is_text(found):
                raise TypeError(f"to_jax: component{path} is text, {NO_TEXT}")
    return made, place.rows if sharding is None else None


def _place(jax: Library, device: DeviceLike, sharding: Nested) -> Place:
    """Return where rows are computed: on the devices of the first sharding that divides batches, or on one device."""
    if sharding is None:
        chosen = device or jax.config.jax_default_device or jax.local_devices()[0]
        if isinstance(chosen, str):
            chosen = jax.local_devices(backend=chosen)[0]
        return Place(chosen, chosen)
    known = flatten(sharding)[1]
    for one in known:
        if isinstance(one, jax.sharding.NamedSharding) and one.is_fully_addressable and one.spec and one.spec[0]:
            spec = jax.sharding.PartitionSpec
            rows = jax.sharding.NamedSharding(one.mesh, spec(one.spec[0]), memory_kind=one.memory_kind)
            return Place(rows, jax.sharding.NamedSharding(one.mesh, spec()))
    first = min(known[0].addressable_devices, key=lambda each: int(each.id))
    return Place(first, first)


class DeviceArrays(Arrays):
    """JAX arrays of rows that are on their device; what is still on the CPU follows."""

    def rows(self, column: Column, sharding: Nested, path: str) -> list[Component]:
        if not isinstance(column, DeviceColumn):
            leaves = super().rows(column, sharding, path)
            if any(isinstance(leaf, list | str | bytes) for leaf in leaves):
                raise TypeError(f"to_jax: component{path} is text, {NO_TEXT}")
            return leaves
        tensor = column.tensor
        shape = tensor.shape[1:]
        made = [tensor.reshape(shape)] if len(tensor) == 1 else list(tensor)
        return made if sharding is None else [self._divided(array, sharding, path) for array in made]

    def _divided(self, array: LibraryObject, sharding: Nested, path: str) -> Component:
        if not sharding.is_fully_addressable:  # several processes: each gives its part
            return self._leaf(self._jax.device_get(array), sharding, path)
        try:
            return self._jax.device_put(array, sharding)
        except ValueError as error:
            raise cannot_spread(path, array.shape, sharding, error) from None
