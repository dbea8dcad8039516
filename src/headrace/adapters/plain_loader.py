"""Loaders around a feed that lose its position or its batches: refused, or warned of, when they begin a pass."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headrace.core.keys import globally_seeded
from headrace.core.types import LibraryObject, Nested
from headrace.errors import StateError
from headrace.execute.state import first_unseeded, require_seeds
from headrace.plan.node import Node

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
ACCELERATE = "accelerate.data_loader"
TRANSFORMERS = "transformers.trainer"
COMPOSER = "composer.trainer.trainer"
PLAIN, STATEFUL = "torch.utils.data.", "torchdata."
TRAINERS = (*LIGHTNING, "accelerate", "transformers")


class PlainLoaderWarning(UserWarning):
    """A loader or sampler of a trainer reads headrace in a way that a resume, or other processes, cannot repeat."""


@dataclass(frozen=True)
class AccelerateLoader:
    """A DataLoader of Accelerate (and so of Transformers' Trainer) that reads the elements of a feed."""

    elements_to_skip: int
    """How many elements of the epoch it reads and drops to resume."""
    batch_size: int
    is_one_of_many: bool
    """Whether each of several processes reads all elements and keeps its share."""

    def check_seeds(self, plan: Node) -> None:
        """Require seeds where the loader relies on the same order in another process; warn before a resume will.

        Raises:
            StateError: if elements are skipped to resume, and another process drew their order.
            ValueError: if several processes read all elements, each in another order.
        """
        if self.is_one_of_many:
            require_seeds(plan, "every process reads all elements here, and Accelerate keeps a share of them")
        drawn = None if globally_seeded() else first_unseeded(plan)
        if drawn is None:
            return
        if self.elements_to_skip:
            raise StateError(
                f"the trainer resumes by reading the epoch again, and {drawn} without a seed draws another order than "
                f"before: write {drawn}(…, seed=1), or hr.set_random_seed. {BATCHES_OF_THE_FEED}"
            )
        warnings.warn(
            f"{drawn} has no seed, and a DataLoader of Accelerate or of Transformers' Trainer reads this feed: it "
            f"resumes by reading the epoch again, which will be refused. Write {drawn}(…, seed=1). "
            f"{BATCHES_OF_THE_FEED}",
            PlainLoaderWarning,
            stacklevel=4,
        )


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
            warn_of_processes()
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
    skipped, size, is_one_of_many = 0, 1, False
    while frame is not None:
        loader: LibraryObject = frame.f_locals.get("self")
        if frame.f_globals.get("__name__") == ACCELERATE and hasattr(loader, "skip_batches"):
            size = getattr(loader, "total_batch_size", None) or loader.batch_size or 1
            skipped = max(skipped, loader.skip_batches)
        if type(loader).__name__ == "IterableDatasetShard" and loader.num_processes > 1:
            is_one_of_many = True
        frame = frame.f_back
    return AccelerateLoader(skipped * size, size, is_one_of_many)


def warn_of_sampler(plan: Node) -> None:
    """Warn if the sampler of a trainer asks for the length of a dataset that another process numbers otherwise.

    Trainers take elements by number. They resume by skipping numbers, and deal out numbers to processes.
    """
    asking = str(sys._getframe(2).f_globals.get("__name__"))
    if not asking.startswith((PLAIN, *TRAINERS)):
        return
    warn_of_processes()
    if globally_seeded():
        return
    drawn = first_unseeded(plan)
    if drawn is None or not (_several_processes() or any(name.startswith(TRAINERS) for name in _callers())):
        return
    warnings.warn(
        f"{drawn} has no seed, and a trainer takes elements of this dataset by number: every process draws other "
        "elements for the same numbers, so that after a resume, and with several processes, elements are trained twice "
        f"or never. Write {drawn}(…, seed=1), or hr.set_random_seed",
        PlainLoaderWarning,
        stacklevel=3,
    )


def warn_of_processes() -> None:
    """Warn if Transformers' Trainer resumes what another number of processes saved.

    It counts steps, and skips as many batches as the checkpoint has steps, however many elements these had.
    """
    frame: FrameType | None = sys._getframe(1) if TRANSFORMERS in sys.modules else None
    while frame is not None:
        if frame.f_code.co_name == "_inner_training_loop" and frame.f_globals.get("__name__") == TRANSFORMERS:
            break
        frame = frame.f_back
    checkpoint = None if frame is None else frame.f_locals.get("resume_from_checkpoint")
    if frame is None or not checkpoint:
        return
    trainer: LibraryObject = frame.f_locals["self"]
    arguments, saved = trainer.args, _processes_that_saved(Path(checkpoint), trainer.args)
    if arguments.ignore_data_skip or saved in (None, arguments.world_size):
        return
    batch_size = _saved_batch_size(Path(checkpoint))
    if batch_size is not None and saved * batch_size == arguments.world_size * trainer._train_batch_size:
        return
    warnings.warn(
        f"{checkpoint} was saved by {saved} process{'es' * (saved != 1)}, and {arguments.world_size} "
        f"resume{'s' * (arguments.world_size == 1)} it: the Trainer skips as many steps, and steps now have another "
        "number of elements, so that elements are trained twice or never. Resume with as many processes, or choose "
        f"per_device_train_batch_size so that a step has as many elements. {BATCHES_OF_THE_FEED}",
        PlainLoaderWarning,
        stacklevel=4,
    )


def _processes_that_saved(checkpoint: Path, arguments: LibraryObject) -> int | None:
    """Return how many processes saved a checkpoint of Transformers' Trainer; None if it does not tell.

    Each process writes a file of its own, which on several machines may not be where the others are.
    """
    count = len(list(checkpoint.glob("rng_state_*.pth")))
    if (checkpoint / "rng_state.pth").exists():
        return None if count else 1
    here = int(os.environ.get("LOCAL_WORLD_SIZE", arguments.world_size))
    own = checkpoint / f"rng_state_{arguments.process_index}.pth"
    if here < arguments.world_size and count <= arguments.world_size and own.exists():
        return None
    return count or None


def _saved_batch_size(checkpoint: Path) -> int | None:
    """Return how many elements a process had at a step; None if that is not known."""
    try:
        size = json.loads((checkpoint / "trainer_state.json").read_bytes())["train_batch_size"]
    except (OSError, ValueError, LookupError):
        return None
    return size if isinstance(size, int) else None


def warn_of_composer(plan: Node) -> None:
    """Warn if MosaicML Composer begins a pass over batches without seeds: it resumes by reading the epoch again."""
    if COMPOSER not in sys.modules or COMPOSER not in _callers() or globally_seeded():
        return
    drawn = first_unseeded(plan)
    if drawn is not None:
        warnings.warn(
            f"{drawn} has no seed, and Composer resumes by reading the epoch again: in the next process it has another "
            f"order, so that elements are trained twice or never. Write {drawn}(…, seed=1), or hr.set_random_seed",
            PlainLoaderWarning,
            stacklevel=3,
        )


def _several_processes() -> bool:
    """Whether torch.distributed has several processes."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return False
    several: bool = distributed.get_world_size() > 1
    return several


def _callers() -> list[str]:
    """The modules of the functions that are running, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    names = []
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names
