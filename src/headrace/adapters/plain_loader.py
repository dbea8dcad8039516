"""Loaders around a feed that lose its position or its batches: refused, or warned of, when they begin a pass."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from headrace.errors import StateError

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
ACCELERATE = "accelerate.data_loader"
PLAIN, STATEFUL = "torch.utils.data.", "torchdata."


class PlainLoaderWarning(UserWarning):
    """A DataLoader in Lightning reads a feed: after a resume, batches come again or never."""


def check_loader(*, shared: bool, prepared: bool) -> None:
    """Look who begins a pass over a feed.

    Args:
        shared: whether the feed reads the share of one process of several.
        prepared: whether an Accelerator has prepared the feed itself.

    Raises:
        RuntimeError: if Accelerate deals out batches again that the feed has dealt out.
        StateError: if Accelerate skips batches of a feed, in an epoch that it does not know.
    """
    if not any(name in sys.modules for name in (*LIGHTNING, ACCELERATE)):
        return
    callers = _callers()
    if not any(name.startswith(PLAIN) for name in callers):
        return
    if ACCELERATE in callers:
        if prepared:
            raise StateError(
                "skip_first_batches reads a feed from the beginning of its first epoch, whichever was resumed: load "
                "the feed's own state instead (Transformers' Trainer: with ignore_data_skip=True); see "
                "docs/checkpoints.md"
            )
        if shared:
            raise RuntimeError(
                "Accelerate deals out batches to the processes, and this feed has done so already, so most would be "
                "lost: give accelerator.prepare the feed itself, or make it with to_torch(shard=False)"
            )
    if not any(name.startswith(LIGHTNING) for name in callers):  # a worker that was forked has its parent's frames
        return
    if any(name.startswith(STATEFUL) for name in callers):
        why = (
            "a StatefulDataLoader reads this feed, and Lightning restores it within an epoch only: after a resume from "
            "a checkpoint at the end of an epoch, batches of the first epoch come again"
        )
    else:
        why = (
            "a plain DataLoader reads this feed, and Lightning cannot save its position: after a resume within an "
            "epoch, batches are trained twice or never"
        )
    warnings.warn(
        f"{why}. Give the feed itself to the trainer, as in trainer.fit(model, ds.to_torch()), which is exact",
        PlainLoaderWarning,
        stacklevel=3,
    )


def _callers() -> list[str]:
    """The modules of the functions that are running, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    names = []
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names
