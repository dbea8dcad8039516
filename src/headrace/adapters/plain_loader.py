"""Loaders around a feed that lose its position or its batches: refused, or warned of, when they begin a pass."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.core.types import LibraryObject, Nested
from headrace.errors import StateError

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
ACCELERATE = "accelerate.data_loader"
PLAIN, STATEFUL = "torch.utils.data.", "torchdata."


class PlainLoaderWarning(UserWarning):
    """A DataLoader in Lightning reads a feed: after a resume, batches come again or never."""


@dataclass(frozen=True)
class AccelerateLoader:
    """A DataLoader of Accelerate (and so of Transformers' Trainer) that reads the elements of a feed."""

    elements_to_skip: int
    """How many elements of the epoch it reads and drops to resume."""
    batch_size: int


class Skipped(Iterator[Nested]):
    """A pass of unknown length whose first elements are dropped to resume: it must not end among them."""

    def __init__(self, elements: Iterator[Nested], loader: AccelerateLoader) -> None:
        self._elements = elements
        self._count = loader.elements_to_skip
        self._batch_size = loader.batch_size

    def __next__(self) -> Nested:
        try:
            element = next(self._elements)
        except StopIteration:
            if self._count >= self._batch_size:  # the last batch of an epoch may be smaller
                raise StateError(
                    "the trainer skips more elements to resume than this epoch has: it takes all epochs for one, "
                    f"because their length is unknown. {BATCHES_OF_THE_FEED}"
                ) from None
            raise
        self._count -= 1
        return element


BATCHES_OF_THE_FEED = (
    "Let the feed make the batches and save its own position: accelerator.prepare(ds.batch(n).to_torch()), and in "
    "Transformers' Trainer ignore_data_skip=True; see docs/checkpoints.md"
)


def check_loader(*, shared: bool, prepared: bool) -> AccelerateLoader | None:
    """Inspect the callers that begin a pass over a feed; return the DataLoader if it is one of Accelerate.

    Args:
        shared: whether the feed reads the share of one process of several.
        prepared: whether an Accelerator has prepared the feed itself.

    Raises:
        RuntimeError: if Accelerate deals out batches again that the feed has dealt out.
        StateError: if Accelerate skips batches of a feed, in an epoch that it does not know.
    """
    if not any(name in sys.modules for name in (*LIGHTNING, ACCELERATE)):
        return None
    callers = _callers()
    if not any(name.startswith(PLAIN) for name in callers):
        return None
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
        if not any(name.startswith(STATEFUL) for name in callers):
            return _accelerate_loader()
    if not any(name.startswith(LIGHTNING) for name in callers):  # a worker that was forked has its parent's frames
        return None
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
    return None


def _accelerate_loader() -> AccelerateLoader:
    """Return the outermost loader of Accelerate whose pass has begun."""
    frame: FrameType | None = sys._getframe(2)
    skipped, size = 0, 1
    while frame is not None:
        loader: LibraryObject = frame.f_locals.get("self")
        if frame.f_globals.get("__name__") == ACCELERATE and hasattr(loader, "skip_batches"):
            size = getattr(loader, "total_batch_size", None) or loader.batch_size or 1
            skipped = max(skipped, loader.skip_batches)
        frame = frame.f_back
    return AccelerateLoader(skipped * size, size)


def _callers() -> list[str]:
    """The modules of the functions that are running, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    names = []
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names
