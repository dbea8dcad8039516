"""One split of a fragment, running in a worker: a thread makes rows ahead of what trainers ask for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from time import perf_counter_ns

from headrace.cluster.parcels import Label, Packing, Parcel, pack_by_value, passed_rows
from headrace.cluster.requests import Setting, SplitWant
from headrace.cluster.split_share import SplitShare
from headrace.cluster.splits import Fragment, part_of_calls
from headrace.errors import StateError
from headrace.execute.processes.worker import Raised
from headrace.execute.run import Pass
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import END

AHEAD_BYTES = 8 << 20
AHEAD_PARCELS = 64
"""How much is ready at most: rows that no trainer has requested cost a worker memory."""
MIN_SKIP_NANOSECONDS = 200_000
"""Unwanted rows are skipped if making one takes longer than this, the cost of checking twice."""
MAX_SKIP_NANOSECONDS = 100_000_000
MAX_SKIPPED_ROWS = 1 << 12
"""How far a worker skips ahead to the next wanted row, in time or rows, before it reports its progress."""
SPENT = -1
"""The ordinal of a runner that has delivered its end: a reader that missed it must reopen the split."""


class Runner:
    """Make the rows of a split from some position on, as parcels. `ready` wakes the poller of several runners."""

    def __init__(self, fragment: Fragment, setting: Setting, want: SplitWant, ready: threading.Condition) -> None:
        opening = want.opening
        assert opening is not None
        self.split: int = want.split
        self.ordinal: int = want.ordinal
        self._made = want.ordinal
        self.rows: int = 0
        self.share: SplitShare | None = None if setting.shared else opening.share
        self._skips = True
        self.used: float = time.monotonic()
        self._fragment = fragment
        self._setting = setting
        self._opening = opening
        self._ready = ready
        self._parcels: deque[Parcel] = deque()
        self._nbytes = 0
        self._stopped = False
        self.failed: bool = False
        self._run: Pass | None = None
        self._thread = threading.Thread(target=self._make, name=f"split {want.split}", daemon=True)

    def begin(self) -> None:
        """Start to make rows, from the one that the trainer wants first."""
        self._thread.start()

    def _make(self) -> None:
        try:
            self._make_rows()
        except Cancelled:
            pass
        except BaseException as error:
            if not self._stopped:
                self.failed = True
                label = Label(self.split, "raised", self._made, value=Raised.of(error))
                self._put(Parcel(pack_by_value(label), last=True))
        finally:
            if self._run is not None:
                self._run.close()

    def _make_rows(self) -> None:
        setting, opening = self._setting, self._opening
        self._run = run = Pass(
            setting.prepare, block_rows=setting.block_rows, options=setting.options, sizes=dict(opening.sizes)
        )
        if self._stopped:
            return
        epochs = setting.mode == "parallel_epochs"
        plan = self._fragment.split(0 if epochs else self.split)
        prepared = setting.prepare(part_of_calls(plan, setting.splits_at_a_time))
        context = run.context(
            prepared, path=setting.path, level=setting.level, with_ids=setting.with_ids, any_order=False
        )
        run.open(context.epoch(self.split) if epochs else context, opening.marks)
        if opening.skip and run.root.skip(opening.skip, replay=True) < opening.skip:
            raise StateError(
                "the split ended before the element at which the state was taken: its input has changed since"
            )
        pace = run.pace(remote=True)
        packing = Packing(self.split)
        cost = nbytes = 0.0
        while not self._stopped:
            want = pace.rows
            if self.share is not None and self._skips and cost > MIN_SKIP_NANOSECONDS / MAX_SKIPPED_ROWS:
                self._pass_over(run, self.share, cost, nbytes)
                want = max(1, self.share.run(self._made, want)) if cost > MIN_SKIP_NANOSECONDS else want
            started = perf_counter_ns()
            item = run.pull(want)
            if item is END:
                label = Label(self.split, "over", self._made, sizes=run.sizes or None)
                self._put(Parcel(pack_by_value(label), last=True))
                return
            took = perf_counter_ns() - started
            pace.observe(item, took)
            cost, nbytes = took / item.rows, item.nbytes / item.rows
            self._put(packing.parcel(item, self._made, run.sizes))
            self._made += item.rows
            self.rows += item.rows

    def _pass_over(self, run: Pass, share: SplitShare, cost: float, nbytes: float) -> None:
        """Skip the next rows if they are unwanted and a row takes enough nanoseconds that this is worth it.

        It is not worth it if they are made all the same, as after a filter: then it is never tried again.
        """
        most = max(1, min(MAX_SKIPPED_ROWS, int(MAX_SKIP_NANOSECONDS / cost)))
        gap = share.gap(self._made, most)
        if gap * cost < MIN_SKIP_NANOSECONDS:
            return
        mark, started = run.mark(), perf_counter_ns()
        passed = run.root.skip(gap, replay=True)
        self._skips = perf_counter_ns() - started < passed * cost / 2
        if passed:
            self._put(passed_rows(self.split, self._made, passed, mark, round(nbytes * passed)))
            self._made += passed

    def _put(self, parcel: Parcel) -> None:
        with self._ready:
            while self._full and not self._stopped:
                self._ready.wait()
            if self._stopped:  # what a pass gives that is being cancelled is nothing to go by
                return
            self._parcels.append(parcel)
            self._nbytes += parcel.nbytes
            self._ready.notify_all()

    @property
    def _full(self) -> bool:
        return len(self._parcels) >= AHEAD_PARCELS or self._nbytes >= AHEAD_BYTES

    @property
    def sizes(self) -> dict[str, int]:
        """What was chosen here, or for it, that changes the order."""
        return {**self._opening.sizes, **(self._run.sizes if self._run is not None else {})}

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes are ready."""
        return self._nbytes

    @property
    def has_rows(self) -> bool:
        """Return whether anything is ready. The caller holds the lock."""
        return bool(self._parcels)

    def take(self, room: int, schema: object = None) -> list[Parcel]:
        """Return what is ready, up to about `room` bytes, and at least one parcel. The caller holds the lock.

        One answer has rows of one `schema`: others stay for the next.
        """
        self.used = time.monotonic()
        taken: list[Parcel] = []
        while self._parcels and (not taken or room > 0):
            data = self._parcels[0].data
            if data is not None and schema is not None and data.schema != schema:
                break
            schema = schema if data is None else data.schema
            parcel = self._parcels.popleft()
            room -= parcel.nbytes
            self._nbytes -= parcel.nbytes
            self.ordinal = SPENT if parcel.last else self.ordinal + parcel.rows
            taken.append(parcel)
        if taken:
            self._ready.notify_all()
        return taken

    def stop(self) -> None:
        """End as soon as the current call of a user's function returns."""
        with self._ready:
            self._stopped = True
            self._ready.notify_all()
        run = self._run
        if run is not None:
            with contextlib.suppress(RuntimeError):
                run.cancel()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, so long at most."""
        self._thread.join(max(0.0, seconds))
