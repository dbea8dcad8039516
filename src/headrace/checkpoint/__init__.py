"""Positions of feeds in the checkpoints of trainers.

`state_dict()` of a feed is a dict of one string, which pickle, JSON and torch.distributed.checkpoint hold as it is.
Here is what else trainers need: `hr.checkpoint.orbax` for Orbax, `to_array` and `from_array` for checkpoints that hold
nothing but arrays.
"""

from __future__ import annotations

import importlib

from headrace.checkpoint.arrays import from_array, to_array
from headrace.core.types import Attribute

__all__ = ["from_array", "orbax", "to_array"]


def __getattr__(name: str) -> Attribute:
    if name == "orbax":
        return importlib.import_module("headrace.checkpoint.orbax")
    raise AttributeError(f"module 'headrace.checkpoint' has no attribute {name!r}")
