"""Which share of the data a process has in a mesh of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.columns import Indices
from headrace.core.types import LibraryObject
from headrace.ops.shared.arguments import integer, positive

if TYPE_CHECKING:
    pass

DATA_NAMES = frozenset(
    {"dp", "data", "batch", "replica", "replicate", "shard", "fsdp", "dp_replicate", "dp_shard", "hsdp", "dcn"}
)
"""Dimensions along which processes get different rows."""
CONTEXT_NAMES = frozenset({"cp", "context", "sequence", "sp"})
"""Dimensions along which processes get different parts of a sequence."""


class MeshShare(NamedTuple):
    """The place of a process: among those with other rows, and among those with other parts of the same rows.

    `groups` are the processes that get the same rows, by their place among the rows; None if that is not known.
    """

    rank: int
    world_size: int
    context_rank: int
    context_size: int
    groups: tuple[tuple[int, ...], ...] | None


def share_of_mesh(mesh: object) -> MeshShare:
    """The share of this process in a torch DeviceMesh, a JAX Mesh or NamedSharding, or (rank, world_size, sizes)."""
    if isinstance(mesh, tuple):
        return _of_tuple(mesh)
    library = type(mesh).__module__.partition(".")[0]
    if library == "torch":
        return _of_device_mesh(mesh)
    if library in ("jax", "jaxlib"):
        return _of_jax(mesh)
    raise TypeError(
        "mesh is a torch DeviceMesh, a JAX Mesh or NamedSharding, or (rank, world_size, {'dp': …, 'tp': …}), not "
        f"{mesh!r}"
    )


def _of_tuple(mesh: tuple[object, ...]) -> MeshShare:
    if len(mesh) != 3 or not isinstance(mesh[2], Mapping):
        raise TypeError(f"mesh as a tuple is (rank, world_size, {{'dp': …, 'tp': …}}), not {mesh!r}")
    rank, world_size = integer("rank", mesh[0]), positive("world_size", mesh[1])
    sizes = {str(name): positive(f"the size of {name!r}", size) for name, size in mesh[2].items()}
    if int(np.prod(list(sizes.values()), dtype=np.int64)) != world_size:
        raise ValueError(f"the sizes of the mesh {sizes} do not make {world_size} processes")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be between 0 and {world_size - 1} (world_size - 1), not {rank}")
    return _placed(np.arange(world_size).reshape(list(sizes.values())), tuple(sizes), rank)


def _of_device_mesh(mesh: LibraryObject) -> MeshShare:
    names = mesh.mesh_dim_names
    if names is None:
        raise ValueError('the DeviceMesh has no dimension names: init_device_mesh(…, mesh_dim_names=("dp", "tp"))')
    import torch.distributed

    return _placed(mesh.mesh.numpy(), tuple(names), torch.distributed.get_rank())


def _placed(ranks: Indices, names: tuple[str, ...], rank: int) -> MeshShare:
    """The place of a rank in a grid of ranks with named dimensions."""
    found = np.argwhere(ranks == rank)
    if len(found) != 1:
        raise ValueError(f"rank {rank} is {'not' if not len(found) else 'more than once'} in the mesh {ranks.tolist()}")
    data = [axis for axis, name in enumerate(names) if name in DATA_NAMES]
    context = [axis for axis, name in enumerate(names) if name in CONTEXT_NAMES]
    _warn_of_unknown(names)
    row, rows = _along(ranks.shape, data, found[0])
    part, parts = _along(ranks.shape, context, found[0])
    others = [axis for axis in range(ranks.ndim) if axis not in data]
    grid = ranks.transpose([*data, *others]).reshape(rows, -1)
    return MeshShare(row, rows, part, parts, tuple(tuple(group) for group in grid.tolist()))


SAME_ROWS_NAMES = frozenset({"tp", "pp", "ep", "etp", "tensor", "model", "pipeline", "stage", "expert", "mp"})


def _warn_of_unknown(names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in DATA_NAMES | CONTEXT_NAMES | SAME_ROWS_NAMES]
    if unknown:
        raise ValueError(
            f"it is not known what the dimension {unknown[0]!r} of the mesh does with rows: call those with other rows "
            f"one of {sorted(DATA_NAMES)}, those with the same rows one of {sorted(SAME_ROWS_NAMES)}, those with parts "
            f"of a sequence one of {sorted(CONTEXT_NAMES)}"
        )


def _along(shape: tuple[int, ...], axes: list[int], place: Indices) -> tuple[int, int]:
    """The number of a place along some axes, the last of them fastest, and how many there are."""
    number, size = 0, 1
    for axis in axes:
        number = number * shape[axis] + int(place[axis])
        size *= shape[axis]
    return number, size


def _of_jax(mesh: LibraryObject) -> MeshShare:
    import jax

    names: tuple[str, ...]
    if hasattr(mesh, "spec"):  # a NamedSharding says which axes the rows are spread over
        first = mesh.spec[0] if len(mesh.spec) else None
        names = () if first is None else (first,) if isinstance(first, str) else tuple(first)
        mesh = mesh.mesh
    else:
        _warn_of_unknown(tuple(mesh.axis_names))
        names = tuple(name for name in mesh.axis_names if name in DATA_NAMES)
    processes = np.vectorize(lambda device: device.process_index, otypes=[np.int64])(mesh.devices)
    axes = [mesh.axis_names.index(name) for name in names]
    others = [axis for axis in range(processes.ndim) if axis not in axes]
    rows = int(np.prod([processes.shape[axis] for axis in axes], dtype=np.int64))
    rank, world_size = share_of_processes(processes.transpose([*axes, *others]).reshape(rows, -1), jax.process_index())
    return MeshShare(rank, world_size, 0, 1, None)


def share_of_processes(processes: Indices, process: int) -> tuple[int, int]:
    """The share of a process whose devices hold some of the rows of a global array.

    Args:
        processes: Of each part of the rows, the processes of the devices that hold it.
        process: This one.

    Returns:
        Its rank and the world size of `distribute`.

    Raises:
        ValueError: The processes hold parts of the rows that overlap, or are not next to one another.
    """
    held = {int(p): np.flatnonzero((processes == p).any(1)) for p in np.unique(processes)}
    if process not in held:
        raise ValueError(f"no device of process {process} is in the mesh")
    mine = held[process]
    for other, parts in held.items():
        same = np.array_equal(parts, mine) or not set(parts.tolist()) & set(mine.tolist())
        if not same or len(parts) != len(mine) or (np.diff(parts) != 1).any() or parts[0] % len(parts):
            raise ValueError(
                f"the devices of process {other} hold parts {parts.tolist()} of the rows, those of process {process} "
                f"{mine.tolist()}: each process must hold one range, and either the same or none of another's"
            )
    return int(mine[0]) // len(mine), len(processes) // len(mine)
