"""Which of several processes this one is."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from headrace.errors import warn_once
from headrace.ops.shared.arguments import integer, positive
from headrace.plan.node import user_site


class Rank(NamedTuple):
    """One process among `world_size`."""

    rank: int
    world_size: int


def rank_of(rank: int | None, world_size: int | None) -> Rank:
    """Return what the user says, else torch.distributed, JAX, or RANK and WORLD_SIZE; without any, one process, and
    warn.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("give both rank and world_size, or neither")
    if rank is None or world_size is None:
        return _torch_rank() or _jax_rank() or _environment_rank() or _alone()
    return _checked(integer("rank", rank), positive("world_size", world_size))


def _checked(rank: int, world_size: int) -> Rank:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be between 0 and {world_size - 1} (world_size - 1), not {rank}")
    return Rank(rank, world_size)


def _alone() -> Rank:
    site = user_site()
    warn_once(
        ("no rank", site),
        f"distribute added at {site} gives this process all elements: no rank and world_size were given, and there is "
        "no group of torch.distributed or JAX, nor RANK and WORLD_SIZE in the environment. Set up the group before, or "
        "say rank=0, world_size=1 if this process is alone",
    )
    return Rank(0, 1)


def _torch_rank() -> Rank | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def _jax_rank() -> Rank | None:
    jax = sys.modules.get("jax")
    initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is None or initialized is None or not initialized():
        return None
    return Rank(jax.process_index(), jax.process_count())


def _environment_rank() -> Rank | None:
    given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if given == (None, None):
        return None
    try:
        rank, world_size = (int(value or "") for value in given)
    except ValueError:
        raise ValueError(
            f"the environment says RANK={given[0]!r} and WORLD_SIZE={given[1]!r}, which should be two numbers; give "
            "rank= and world_size="
        ) from None
    return _checked(rank, positive("WORLD_SIZE", world_size))
