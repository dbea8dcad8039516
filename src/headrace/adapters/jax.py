"""JAX: batches as arrays on a device, or spread over several, ahead of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.adapters.feed import Adapted, Feed, PlainTarget, Target
from headrace.columns import Column, values
from headrace.columns.block import Block
from headrace.core.frameworks import framework
from headrace.core.ragged import Ragged
from headrace.core.types import Array, Component, DeviceLike, LibraryObject, Nested
from headrace.ops.shared.keywords import explain_keywords
from headrace.physical.explain import explanation
from headrace.plan.capabilities import device_of_rows
from headrace.plan.explain import Explanation
from headrace.plan.node import Node
from headrace.plan.structure import Structure, flatten
from headrace.plan.widening import warn_of_float64

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@explain_keywords
def to_jax(
    self: Dataset,
    device: DeviceLike = None,
    *,
    sharding: Nested = None,
    prefetch: int | None = None,
    shard: bool | tuple[int, int] = True,
) -> JaxFeed:
    """Return the elements as JAX arrays, copied to their device ahead of the consumer.

    - `device`: a `jax.Device`; None is JAX's default device.
    - `sharding`: a `jax.sharding.Sharding` for all components, or one for each, in the structure of an element. Each
      process gives its own part of the global array, by `jax.make_array_from_process_local_data`.
    - `shard`: with several JAX processes each reads its own share of the elements, every n-th, and all as many. False
      reads everything in every process, for datasets that were sharded before; (count, index) names the share.

    Maps with `device="auto"` are run by JAX, compiled, where the arrays are wanted: see docs/device.md.

    Arrays that headrace made are handed over without a copy if JAX can use their memory; those that share memory
    with something else are copied. Unless `jax_enable_x64` is on, JAX keeps 64-bit numbers in 32 bits. Text and objects
    come as lists. `state_dict()` and `load_state_dict()` save and resume exactly.

    Args:
        device: Device to put the arrays on.
        sharding: A `jax.sharding.Sharding` for the arrays.
        prefetch: Number of elements to prepare ahead. Default: 2 on an accelerator, 0 on the CPU.
        shard: True divides the elements among the processes of the framework; (count, index) chooses a share.

    >>> feed = hr.Dataset.from_tensor_slices(np.arange(6.0, dtype=np.float32)).batch(4).to_jax()
    >>> [batch.shape for batch in feed]
    [(4,), (2,)]
    """
    warn_of_float64(self._node, "to_jax")
    there = device_of_rows(self._node) or ""
    if there.startswith("cuda"):
        raise ValueError(
            f'to_jax: the plan has a map on "{there}", by PyTorch: give the map device="auto", or leave device= out'
        )
    jax = framework("jax", "to_jax")
    if device is not None and sharding is not None:
        raise ValueError("to_jax takes a device or a sharding, not both")
    part = (jax.process_count(), jax.process_index()) if shard is True else shard or None
    if there != "auto":
        return JaxFeed(self, part, device, sharding, prefetch)
    from headrace.adapters.jax_on_device import by_jax

    plan, device = by_jax(self._node, device, sharding)
    return JaxFeed(self, part, device, sharding, prefetch, plan=plan)


class JaxFeed(Feed):
    """A dataset as JAX arrays."""

    def __init__(
        self,
        dataset: Dataset,
        part: tuple[int, int] | None,
        device: DeviceLike,
        sharding: Nested,
        prefetch: int | None,
        *,
        plan: Node | None = None,
    ) -> None:
        super().__init__(dataset, part, plan=plan)
        self._options = (device, sharding, prefetch)
        self._on_device = plan is not None

    def explain(self, *, physical: bool = True) -> Explanation:
        """Show the plan as `Dataset.explain` does, with what JAX runs of maps with `device="auto"`.

        Args:
            physical: Whether to show the plan that runs. False shows the plan as written alone.
        """
        return explanation(Adapted(self._node, target=self.make_target(), site=self._site), physical=physical)

    def make_target(self) -> Target:
        if not self._on_device:
            return Arrays(*self._options)
        from headrace.adapters.jax_on_device import DeviceArrays

        return DeviceArrays(*self._options)


class Arrays(PlainTarget):
    """JAX arrays on a device, or spread over several."""

    name = "to_jax"

    def __init__(self, device: DeviceLike, sharding: Nested, prefetch: int | None) -> None:
        self._jax = jax = framework("jax", "to_jax")
        self._device = device
        self._shardings = None if sharding is None else flatten(sharding)
        # The default device is a setting of the thread, so what holds for the consumer is looked up here.
        self._default = jax.config.jax_default_device or jax.local_devices()[0]
        super().__init__((0 if self._on_cpu() else 2) if prefetch is None else prefetch)

    def _on_cpu(self) -> bool:
        if self._shardings is not None:
            return all(d.platform == "cpu" for s in self._shardings[1] for d in s.device_set)
        return str(getattr(self._device or self._default, "platform", self._default)) == "cpu"

    def check(self, structure: Structure) -> None:
        """Refuse elements of another structure than the shardings."""
        self._places(structure)

    def convert(self, block: Block) -> Block:
        """Return columns of JAX arrays."""
        places = self._places(block.structure)
        with self._jax.default_device(self._default):
            columns: Column = [
                self.rows(column, place, path)
                for column, place, path in zip(block.columns, places, block.structure.paths, strict=True)
            ]
        return Block(block.structure, columns, block.rows)

    def rows(self, column: Column, sharding: Nested, path: str) -> list[Component]:
        """Return the rows of a column as arrays."""
        return [self._leaf(value, sharding, path) for value in values(column)]

    def _places(self, structure: Structure) -> list[Component]:
        """Return the sharding of each component."""
        if self._shardings is None:
            return [None] * structure.leaves
        given, shardings = self._shardings
        if given.kind is None:
            return shardings * structure.leaves
        if given != structure:
            raise ValueError(f"to_jax: the shardings are given for {given}, but the elements are {structure}")
        return shardings

    def _leaf(self, value: object, sharding: Nested, path: str) -> Component:
        if isinstance(value, Ragged):
            raise TypeError(
                f"to_jax: component{path} is ragged, which JAX does not know: use padded_batch, or "
                "map(lambda r: r.to_padded())"
            )
        if not isinstance(value, np.ndarray | np.generic):
            return value
        array = np.asarray(value)
        if array.dtype.hasobject:
            return array.tolist()
        return self._put(array, path) if sharding is None else self._spread(array, sharding, path)

    def _put(self, array: Array, path: str) -> LibraryObject:
        try:
            return self._jax.device_put(_own(array), self._device)
        except TypeError as error:
            raise TypeError(f"to_jax: component{path} of dtype {array.dtype}: {error}; change it with map") from None

    def _spread(self, array: Array, sharding: Nested, path: str) -> LibraryObject:
        try:
            return self._jax.make_array_from_process_local_data(sharding, _own(array))
        except ValueError as error:
            raise cannot_spread(path, array.shape, sharding, error) from None


def cannot_spread(path: str, shape: tuple[int, ...], sharding: Nested, error: Exception) -> ValueError:
    """Return the error for an array that its sharding does not divide."""
    return ValueError(
        f"to_jax: component{path} of shape {shape} cannot be spread as {sharding}: {error}\n"
        "  batch(…, drop_remainder=True) makes all batches as large as the first"
    )


def _own(array: Array) -> Array:
    """Return the array, or a copy if its memory is shared: on the CPU, JAX keeps using what it gets.

    (`may_alias=False` does not prevent that if the memory happens to be aligned.)
    """
    return array if array.flags.writeable else array.copy()
