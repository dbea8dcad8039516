"""Lightning: a feed whose position in a checkpoint is that of the batch which was trained last.

Lightning saves and loads the state of a feed like that of any stateful loader. Three habits of its fit loop would make
the state wrong, so the feed looks at the loop that reads it:

- If the length of an epoch is unknown, its fetcher takes a batch before the last one is trained.
- A checkpoint at the end of an epoch is resumed without loading states if `max_epochs` ends the training.
- A checkpoint at the last batch of an epoch is resumed with the next epoch, or with what is left of the last one
  (nothing), whatever the feed could still give after `limit_train_batches`.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from headrace.adapters.feed import FeedIterator
from headrace.adapters.plain_loader import LIGHTNING, PlainLoaderWarning
from headrace.core.types import JsonObject, LibraryObject, Nested
from headrace.execute.state import check_form, opened, packed, sealed

if TYPE_CHECKING:
    from headrace.adapters.feed import Feed
    from headrace.iterator import Place

    Base = Feed
else:
    Base = object


@dataclass
class Running:
    """The loops of Lightning that are running, innermost first."""

    fit_loop: LibraryObject
    function: str
    """The function of the fit loop that runs."""
    fetcher: LibraryObject


def running() -> Running | None:
    """Return the fit loop that calls this function, None if there is none or an evaluation loop is in between."""
    if not any(name in sys.modules for name in LIGHTNING):
        return None
    fetcher = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package, _, module = str(frame.f_globals.get("__name__")).partition(".loops.")
        if package in LIGHTNING:
            loop = frame.f_locals.get("self")
            if module in ("evaluation_loop", "prediction_loop"):
                return None
            if module == "fetchers":
                fetcher = loop if fetcher is None else fetcher
            elif module == "fit_loop":
                return Running(loop, frame.f_code.co_name, fetcher)
        frame = frame.f_back
    return None


class Fetched(Iterator[Nested]):
    """The batches of a pass that Lightning's fetcher reads; `place` is that of the batches which it handed on."""

    def __init__(self, batches: FeedIterator, fetcher: LibraryObject) -> None:
        self.batches = batches
        self.given: int = 0
        self._fetcher = fetcher
        self._places = deque([batches._iterator._place])
        self._ended = False

    def __next__(self) -> Nested:
        try:
            batch = next(self.batches)
        except StopIteration:
            self._ended = True
            raise
        self.given += 1
        self._places.append(self.batches._iterator._place)
        ahead = self._fetcher.prefetch_batches if self._fetcher.length is None else 0
        while len(self._places) > ahead + 1:
            self._places.popleft()
        return batch

    def place(self) -> Place:
        """Return the position behind the last batch that left the fetcher."""
        return self._places[-1 if self._ended or self._fetcher.done else 0]

    @property
    def is_untouched(self) -> bool:
        """Whether the fetcher has delivered no batch yet."""
        return not self._ended and self.given == len(self._fetcher.batches)


class InLightning(Base):
    """What a feed does where Lightning's fit loop reads it."""

    _fetched: Fetched | None = None
    _nothing_left = False
    """The next pass has no batches: Lightning reads it to find out that the epoch is over."""

    def __iter__(self) -> Iterator[Nested]:  # type: ignore[override]
        fetched, self._fetched = self._fetched, None
        if fetched is not None and self._resume is None and self._reads(fetched) and fetched.is_untouched:
            self._resume = fetched.batches._iterator._state_at(fetched.place())
        loops = running()
        if loops is None or loops.fetcher is None:
            return super().__iter__()
        with _WarnOfOtherVersion():
            self._continue_epochs(loops)
        if self._nothing_left:
            self._nothing_left = False
            return iter(())
        batches: Iterator[Nested] = super().__iter__()
        if isinstance(batches, FeedIterator) and hasattr(loops.fetcher, "prefetch_batches"):
            batches = self._fetched = Fetched(batches, loops.fetcher)
        return batches

    def _continue_epochs(self, loops: Running) -> None:
        """Go on with the next epoch after a checkpoint whose states Lightning does not load, because one had ended."""
        loop = loops.fit_loop
        states = loop._combined_loader_states_to_load
        if loops.function != "setup_data" or not states or loop.restarting or not loop.is_resuming:
            return
        feeds = [one for one in loop._combined_loader.flattened if hasattr(one, "load_state_dict")]
        for feed, state in zip(feeds, states, strict=True):
            if feed is self:
                super().load_state_dict(_ended(state))

    def load_state_dict(self, state_dict: JsonObject) -> None:
        self._fetched, self._nothing_left = None, False
        loops = running()
        if loops is not None and loops.function == "_load_combined_loader_states":
            with _WarnOfOtherVersion():
                batch = loops.fit_loop.epoch_loop.batch_progress
                if batch.is_last_batch:
                    state_dict = _ended(state_dict)
                    self._nothing_left = batch.total.completed == batch.total.processed
        super().load_state_dict(state_dict)

    def _reads(self, fetched: Fetched) -> bool:
        return fetched.batches._iterator is self._newest

    def _state(self) -> JsonObject:
        fetched = self._fetched
        if fetched is not None and self._resume is None and self._reads(fetched):
            return fetched.batches._iterator._state_at(fetched.place())
        return super()._state()


def _ended(state_dict: JsonObject) -> JsonObject:
    """Return the state of a pass whose trainer begins another one next, even if `limit_train_batches` left batches."""
    state = opened(state_dict)
    check_form(state)
    return packed(sealed({**state, "over": True, "marks": {}}))


class _WarnOfOtherVersion:
    """A version of Lightning whose loops look otherwise is warned of: a resume may then begin an epoch anew."""

    def __enter__(self) -> None:
        """Do nothing: a feed needs no preparation."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, AttributeError):
            return False
        version = next(sys.modules[name].__version__ for name in LIGHTNING if name in sys.modules)
        warnings.warn(
            f"the loops of Lightning {version} are not those that headrace knows ({error}): after a resume at the end "
            "of an epoch, its batches may come again. Save within epochs, or load the feed's own state_dict()",
            PlainLoaderWarning,
            stacklevel=4,
        )
        return True
