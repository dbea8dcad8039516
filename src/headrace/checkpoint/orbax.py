"""Orbax: positions of feeds as items of a checkpoint, beside the arrays of a model.

import orbax.checkpoint as ocp
from headrace.checkpoint.orbax import FeedRestore, FeedSave

with ocp.CheckpointManager(folder) as manager:
    manager.save(step, args=ocp.args.Composite(model=ocp.args.StandardSave(model), data=FeedSave(feed)))
    ...
    manager.restore(step, args=ocp.args.Composite(model=ocp.args.StandardRestore(model), data=FeedRestore(feed)))
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.frameworks import framework
from headrace.core.types import Library, StrPath
from headrace.errors import StateError

if TYPE_CHECKING:
    from headrace.adapters.feed import Feed

ocp: Library = framework("orbax.checkpoint", "hr.checkpoint.orbax")
FILE = "headrace.json"


class FeedHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """Write the position of a feed, and continue a feed there.

    The first process writes it. With several JAX processes in step it is valid for each of them, and for any number.
    """

    def save(self, directory: StrPath, args: FeedSave) -> None:
        """Write the position of `args.item` into a folder of the checkpoint."""
        if framework("jax", "hr.checkpoint.orbax").process_index() == 0:
            (Path(directory) / FILE).write_text(json.dumps(args.item.state_dict()))

    def restore(self, directory: StrPath, args: FeedRestore) -> Feed:
        """Continue `args.item` at the position of the checkpoint, and return it."""
        path = Path(directory) / FILE
        if not path.exists():
            raise StateError(f"{directory} holds no position of a feed: save one with FeedSave(feed)")
        args.item.load_state_dict(json.loads(path.read_text()))
        return args.item


@ocp.args.register_with_handler(FeedHandler, for_save=True)
@dataclass
class FeedSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Save the position of a feed.

    Args:
        item: A feed of `to_jax()`, `to_torch()` or `to_keras()`.
    """

    item: Feed


@ocp.args.register_with_handler(FeedHandler, for_restore=True)
@dataclass
class FeedRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """Restore the position of a feed; it continues where the checkpoint was saved.

    Args:
        item: A feed of the same pipeline.
    """

    item: Feed
