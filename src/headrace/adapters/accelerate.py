"""Accelerate: a feed that `accelerator.prepare` takes as a DataLoader that is prepared already."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from headrace.adapters.feed import FeedIterator
from headrace.core.frameworks import framework
from headrace.core.types import Attribute, DeviceLike, JsonObject, Nested

if TYPE_CHECKING:
    from headrace.adapters.feed import Feed
    from headrace.iterator import Place

    Base = Feed
else:
    Base = object


LOADER = {
    "batch_size": None,
    "drop_last": False,
    "sampler": None,
    "batch_sampler": None,
    "num_workers": 0,
    "prefetch_factor": None,
}
"""What Accelerate asks of a DataLoader besides."""


class LoaderForAccelerate:
    """An object that is a DataLoader where Accelerate asks, and nowhere else.

    `Accelerator.prepare` passes over whatever is no DataLoader, without a word. Other trainers rebuild DataLoaders,
    advise on their workers, or read them in other ways, so that a feed must be none for them.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] == "accelerate":
            return framework("torch.utils.data", "to_torch").DataLoader
        return type(self)


class Prepared(LoaderForAccelerate, Base):
    """What Accelerate expects of a DataLoader that it has prepared.

    `Accelerator.prepare` does not wrap a loader that says it is prepared. It lists it among those whose states
    `save_state` writes and `load_state` reads. A feed deals out batches to the processes by itself, one to each in turn
    as `dispatch_batches=True` does, and each process reads only its own.

    A pass then reads one batch ahead, because gradient accumulation must know which batch is the last. The position
    before that batch is kept in `_held`, so that a state is exact.
    """

    use_stateful_dataloader = True
    """`save_state` writes the states of such loaders, whatever the DataLoaderConfiguration says of others."""
    end_of_dataloader = False
    remainder = -1
    _drop_last = False
    _prepared = False
    _held: Place | None = None

    @property
    def _is_accelerate_prepared(self) -> bool:
        """True; asked by `Accelerator.prepare`, so from then on this feed belongs to an Accelerator."""
        self._prepared = True
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, _: bool) -> None:
        """Set by `Accelerator.prepare` on everything that it has prepared."""

    def __getattr__(self, name: str) -> Attribute:
        if name == "dataset" and self._prepared:
            return self
        if name in LOADER and self._prepared:
            return LOADER[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def reset(self) -> None:
        """Forget the end of the last pass."""
        self.end_of_dataloader = False

    def _move_to(self, device: DeviceLike) -> None:
        """Put the batches of the next passes on a device."""

    def __iter__(self) -> Iterator[Nested]:  # type: ignore[override]
        self._held = None
        if not self._prepared:
            return super().__iter__()
        self._move_to(framework("accelerate.state", "accelerator.prepare").PartialState().device)
        return self._accelerated(super().__iter__())

    def _accelerated(self, batches: FeedIterator) -> Iterator[Nested]:
        """Yield the batches of a pass, and tell Accelerate of its beginning, its last batch and its end."""
        states = framework("accelerate.state", "accelerator.prepare").GradientState()
        newest = batches._iterator
        self.reset()
        states._add_dataloader(self)
        try:
            with closing(batches):
                current = next(batches, _END)
                while current is not _END:
                    self._held = newest._place
                    following, error = _END, None
                    try:
                        following = next(batches, _END)
                    except Exception as raised:  # belongs after this batch
                        error = raised
                    if following is _END and error is None:
                        self.end_of_dataloader, self._held = True, None
                    yield current
                    if error is not None:
                        self._held = None
                        raise error
                    current = following
        finally:
            states._remove_dataloader(self)

    def _state(self) -> JsonObject:
        if self._held is not None and self._newest is not None and self._resume is None:
            return self._newest._state_at(self._held)
        return super()._state()


_END: Any = object()
