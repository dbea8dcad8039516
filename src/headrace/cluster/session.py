"""One pass over splits, as a trainer sees it: the worker of each split, the rows received, and recovery from lost
workers.

All state is here: a worker that dies takes nothing with it, and its splits continue elsewhere after the last row
received.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.feeder import Feeder
from headrace.cluster.members import Cluster, ClusterWorker, Gone
from headrace.cluster.parcels import Label, unpack_item
from headrace.cluster.requests import PackedFragment, Setting, SplitOpening, SplitWant
from headrace.cluster.split_share import SplitShare
from headrace.cluster.splits import Fragment
from headrace.cluster.thin_block import ThinBlock, absent_rows, thin_item
from headrace.columns.block import Block, Item
from headrace.core.types import JsonObject
from headrace.errors import ElementError, WorkerError
from headrace.execute.context import Context
from headrace.execute.processes.worker import Raised
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import END, Pulled
from headrace.plan.marks import Mark, Marked, Marks, SavedMark, to_json
from headrace.plan.node import Node, waits
from headrace.plan.structure import Structure

if TYPE_CHECKING:
    import pyarrow as pa

BUFFER_BYTES = 64 << 20
"""How many bytes of all splits together are ready in the trainer."""
MIN_SPLIT_BYTES = 256 << 10
MAX_FATAL_LOSSES = 4
"""A split is not tried again if the connections of this many workers broke after they opened it, without a row."""
MAX_LOST_WORKERS = 16
"""The same for workers lost in any way: silent ones, or before they opened it, which says little about the split."""
FIRST_ROWS = 1 << 48
"""Splits count their rows from multiples of this: what was requested of one start is never taken for another's."""
CHECK_SECONDS = 0.25
"""How often a consumer that waits for a split checks whether another worker could take it."""


SETTLE_SECONDS = 10.0
"""How long a pass whose rows cost something waits for workers that are being started, before it deals out splits."""

WINDOW_SECONDS = 10.0
SLOW_WAIT_SHARE = 0.2
"""The period of the check for slow splits, and the share of it that must be waiting for a split to be moved."""


class SplitStart(NamedTuple):
    """Where a split begins: `skip` rows after these positions, which are those of its row number `row`."""

    marks: Marks
    skip: int
    row: int = 0

    def same(self, other: SplitStart) -> bool:
        """Return whether both are one place."""
        return self.skip == other.skip and to_json(self.marks) == to_json(other.marks)


class Loss(NamedTuple):
    """The loss of a worker that had a split: `fatal` if the split may be the cause."""

    why: str
    fatal: bool


class Split:
    """The state of one split. Its rows are counted from `first` on, which differs for every start."""

    def __init__(self, number: int, start: SplitStart, first: int, share: SplitShare | None) -> None:
        self.number = number
        self.share: SplitShare | None = None if share is None else share.named_from(first - start.row - start.skip)
        self.start = start
        self.place: Marked = SavedMark(start.marks)
        self.skip: int = start.skip
        self.first = first
        self.ordinal: int = first
        self.items: deque[Item] = deque()
        self.nbytes = 0
        self.member: ClusterWorker | None = None
        self.opened = False
        self.begun = False
        self.over = False
        self.raised: BaseException | None = None
        self.losses: list[Loss] = []
        self.moved = False
        self.came: float = monotonic()

    @property
    def rows(self) -> int:
        """Return how many rows have come."""
        return self.ordinal - self.first

    @property
    def active(self) -> bool:
        """Whether there is more to come."""
        return not self.over and self.raised is None


class Session:
    """The splits of one pass. At its close workers have `ending_seconds` to finish their current work."""

    def __init__(
        self,
        fragment: Fragment,
        mode: str,
        cluster: Cluster,
        ctx: Context,
        node: Node,
        at_a_time: int,
        *,
        shared: bool = False,
        shares: Mapping[int, SplitShare] | None = None,
        ending_seconds: float = 0.0,
    ) -> None:
        self.name: str = uuid.uuid4().hex
        self.packed: PackedFragment = PackedFragment.of(fragment)
        run = ctx.run
        self.setting: Setting = Setting(
            self.packed.digest,
            self.packed.key,
            mode,
            ctx.path,
            ctx.level,
            ctx.with_ids,
            run.options,
            run.prepare,
            run.block_rows,
            shared,
            max(1, at_a_time),
        )
        self.ending_seconds = ending_seconds
        self._is_shared = shared
        self._is_costly = waits(fragment.plan)
        self._settled = monotonic() + SETTLE_SECONDS
        self._shares = shares
        self._structure: Structure | None = None
        self._row_bytes = 1.0
        self._splits_in_all = fragment.splits
        self._node = node
        self._run = run
        self._cluster = cluster
        self._sizes_of = f"{ctx.stage.path} split "
        self._splits: dict[int, Split] = {}
        self._begun = 0
        self._feeders: dict[ClusterWorker, Feeder] = {}
        self._ended: list[Feeder] = []
        self._closed = False
        self._waits_for: int | None = None
        self._waited: dict[int, float] = {}
        self._window = monotonic()
        self._lonely: float | None = monotonic()
        self.changed: threading.Condition = threading.Condition(threading.RLock())
        self._room = max(MIN_SPLIT_BYTES, BUFFER_BYTES // max(1, at_a_time))
        run.watch(self)
        for member in cluster.listen(self):
            self.joined(member)

    def expect(self, number: int, start: SplitStart) -> None:
        """Start a split that will be needed."""
        with self.changed:
            if number not in self._splits and not self._closed:
                self._begun += 1
                first = start.row + start.skip if self._is_shared else self._begun * FIRST_ROWS
                share = None if self._shares is None else self._shares[number]
                self._splits[number] = Split(number, start, first, share)
                self._assign()

    def begin(self, number: int, start: SplitStart) -> None:
        """Start a split that is needed from here on."""
        with self.changed:
            known = self._splits.get(number)
            if known is not None and known.start.same(start):
                return
            self._splits.pop(number, None)
            self.expect(number, start)

    def take(self, number: int, want: int) -> Pulled:
        """Return the next rows of a split, as soon as some are there."""
        with self.changed:
            split = self._splits[number]
            began = monotonic()
            while not split.items and split.active:
                self._check_waiting(split, began)
                self._waits_for = number
                self.changed.wait(CHECK_SECONDS)
            if self._waits_for is not None:
                now, self._waits_for = monotonic(), None
                self._waited[number] = self._waited.get(number, 0.0) + now - began
                self._look_back(now)
            if split.items:
                return self._taken(split, want)
            if split.raised is not None:
                raise split.raised
            return END

    def _taken(self, split: Split, want: int) -> Item:
        item = split.items.popleft()
        split.nbytes -= item.nbytes
        if item.rows > want:
            rest = item.slice(want, item.rows)
            split.items.appendleft(rest)
            split.nbytes += rest.nbytes
            item = item.slice(0, want)
        self.changed.notify_all()
        return item

    def _check_waiting(self, split: Split, began: float) -> None:
        """While the consumer waits, check whether there is a worker, and whether another one would be faster."""
        if self._closed or self._run.cancelled:
            raise Cancelled
        now = monotonic()
        if self._lonely is not None and not self._cluster.may_have(1):
            raise WorkerError(f"distribute_over: no worker takes this pass: {self._cluster.why_not()}")
        if self._lonely is not None and now - max(self._lonely, began) > self._cluster.patience:
            raise WorkerError(
                f"distribute_over: no worker for {self._cluster.patience:.0f} seconds: {self._cluster.why_not()}"
            )
        if split.member is None:
            self._assign()
        waited = now - max(began, split.came)
        if split.member is not None and waited > 4 * CHECK_SECONDS and not (split.moved or self._stays):
            self._move_to_idle(split)

    @property
    def _stays(self) -> bool:
        """Whether a split that a worker has begun stays there as long as the worker lives.

        Rows that the worker has made ahead would be made again elsewhere. If a function of the user makes them, it may
        cost money or have effects, so it runs again only after a failure.
        """
        return self._is_shared or self._is_costly

    def _move_to_idle(self, split: Split) -> None:
        """If a worker with several splits is behind and another is idle, move this split."""
        if len(self._active_of(split.member)) < 2:
            return
        idle = [m for m in self._feeders if m is not split.member and not any(map(self._wanted, self._active_of(m)))]
        if idle:
            split.moved = True
            self._give(split, self._least_loaded(idle))
            self.changed.notify_all()

    def _look_back(self, now: float) -> None:
        """Once in a while: a worker that most of the waiting was for is slow, or busy for others, and has one less."""
        if self._stays or now - self._window < WINDOW_SECONDS:
            return
        waited, self._waited, self._window = self._waited, {}, now
        total = sum(waited.values())
        if total < SLOW_WAIT_SHARE * WINDOW_SECONDS or len(self._feeders) < 2:
            return
        by_member: dict[ClusterWorker, float] = {}
        for number, seconds in waited.items():
            member = self._splits[number].member if number in self._splits else None
            if member is not None:
                by_member[member] = by_member.get(member, 0.0) + seconds
        worst = max(by_member, key=lambda m: by_member[m], default=None)
        if worst is None or by_member[worst] < total * (1 + 1 / len(self._feeders)) / 2:
            return
        mine = [s for s in self._active_of(worst) if s.number in waited]
        if mine:
            slowest = max(mine, key=lambda s: waited[s.number])
            self._give(slowest, self._least_loaded([m for m in self._feeders if m is not worst]))

    def _least_loaded(self, members: list[ClusterWorker]) -> ClusterWorker:
        load = {member: len(self._active_of(member)) for member in members}
        return random.choice([member for member in members if load[member] == min(load.values())])

    def _wanted(self, split: Split) -> bool:
        return split.active and (not split.items or split.nbytes < self._room)

    def _active_of(self, member: ClusterWorker | None) -> list[Split]:
        return [s for s in self._splits.values() if s.member is member and s.active]

    def wants(self, member: ClusterWorker, asked: Callable[[int], bool]) -> list[SplitWant]:
        """Return what to ask of a worker, of the splits that are `asked` for; the caller holds the lock."""
        found = []
        for split in self._active_of(member):
            if asked(split.number) and self._wanted(split):
                opening = None if split.opened else self._opening(split)
                split.begun = True
                found.append(SplitWant(split.number, split.ordinal, self._room - split.nbytes, opening))
        return found

    def _opening(self, split: Split) -> SplitOpening:
        prefix = f"{self._sizes_of}{split.number} "
        sizes = {k.removeprefix(prefix): v for k, v in self._run.sizes.items() if k.startswith(prefix)}
        return SplitOpening(split.place.marks(), split.skip, sizes, split.share)

    def deliver(self, member: ClusterWorker, label: Label, data: pa.RecordBatch | None) -> None:
        """Receive a parcel. Drop what was requested before a split went elsewhere: it comes from there."""
        with self.changed:
            split = self._splits.get(label.split)
            if split is None or split.member is not member or self._closed:
                return
            if label.what in ("unknown", "opened"):
                split.opened = label.what == "opened"
                return
            here = split.ordinal
            behind = here - label.ordinal  # a shared parcel may begin before the row that a state has led to
            if not 0 <= behind < max(1, label.rows) or not split.active:
                return
        item = None if label.what in ("over", "raised") else self._item(split, member, label, data)
        with self.changed:
            if split.member is not member or split.ordinal != here:
                return
            if item is not None and behind:
                item = item.slice(behind, item.rows)
            split.opened, split.losses, split.moved, split.came = True, [], False, monotonic()
            for name, size in (label.sizes or {}).items():
                self._run.sizes[f"{self._sizes_of}{split.number} {name}"] = size
            if item is not None:
                split.items.append(item)
                split.nbytes += item.nbytes
                split.ordinal += item.rows
                split.place, split.skip = item.mark.later(item.rows), 0
            elif label.what == "over":
                split.over = True
                self._expect_next()
            else:
                split.raised = _named(label.value, member)
            self.changed.notify_all()

    def _item(self, split: Split, member: ClusterWorker, label: Label, data: pa.RecordBatch | None) -> Item:
        """Return the rows of a parcel; if some are left out, with the numbers that all are expected to have."""
        if split.share is None:
            return unpack_item(label, data, self._error_of(member))
        numbers = split.share.numbers(label.ordinal, label.rows)
        if label.what == "passed":
            made: Item = absent_rows(numbers, label.mark, self._structure)
        else:
            item = unpack_item(label, data, self._error_of(member))
            if isinstance(item, Block):
                self._structure, self._row_bytes = item.structure, item.nbytes / item.rows
            made = thin_item(item, numbers, label.kept)
        if isinstance(made, ThinBlock):
            made.count_bytes(self._row_bytes)
        return made

    def _expect_next(self) -> None:
        following = max(self._splits) + 1
        if following < self._splits_in_all:
            self.expect(following, SplitStart({}, 0))

    def _error_of(self, member: ClusterWorker) -> Callable[[Raised, Mark], ElementError]:
        def error(raised: Raised, mark: Mark) -> ElementError:
            made = _named(raised, member)
            return made if isinstance(made, ElementError) else self._node.error(made, mark.ordinal)

        return error

    def refuse(self, error: BaseException) -> None:
        """Fail the pass if a worker rejects it: all others would, too."""
        with self.changed:
            for split in self._splits.values():
                if split.active:
                    split.raised = error
            self.changed.notify_all()

    def joined(self, member: ClusterWorker) -> None:
        """Add a worker: it gets its share of the splits."""
        with self.changed:
            if self._closed or member in self._feeders or not member.alive:
                return
            self._feeders[member] = Feeder(self, member)
            self._lonely = None
            if not self._is_shared:
                self._balance(member)
            self._assign()

    def left(self, member: ClusterWorker) -> None:
        """Handle the loss of a worker: its splits continue elsewhere."""
        self._lose(member, None)

    def lost(self, member: ClusterWorker, gone: Gone) -> None:
        """Handle a worker that was lost during a request."""
        self._lose(member, gone)
        self._cluster.report(member, str(gone))

    def _lose(self, member: ClusterWorker, gone: Gone | None) -> None:
        with self.changed:
            feeder = self._feeders.pop(member, None)
            if feeder is None:
                return
            self._ended.append(feeder)
            for split in self._active_of(member):
                if gone is not None:
                    split.losses.append(Loss(f"{member.name}: {gone}", split.opened and not gone.silent))
                    fatal = sum(loss.fatal for loss in split.losses)
                    if fatal >= MAX_FATAL_LOSSES or len(split.losses) >= MAX_LOST_WORKERS:
                        split.raised = _hopeless(split)
                split.member, split.opened = None, False
            if not self._feeders:
                self._lonely = monotonic()
            self._assign()
            self.changed.notify_all()
        member.cancel(self.name)

    def _assign(self) -> None:
        """Assign free splits to the workers that have least; shared ones, to the worker that all trainers agree on."""
        if self._is_shared:
            self._agree()
            return
        waiting = [s for s in self._splits.values() if s.member is None and s.active]
        if not waiting or not self._feeders:
            return
        if self._is_costly and self._cluster.starting() and monotonic() < self._settled:
            return  # a worker that comes later gets no split that has begun
        load = {member: len(self._active_of(member)) for member in self._feeders}
        for split in waiting:
            least = min(load, key=lambda m: (load[m], self._rank(m)))
            self._give(split, least)
            load[least] += 1
        self.changed.notify_all()

    def _agree(self) -> None:
        """Move every split to the worker that other trainers with the same workers choose for it."""
        members = sorted(self._feeders, key=lambda member: member.location)
        for split in self._splits.values() if members else ():
            member = members[split.number % len(members)]
            if split.active and split.member is not member:
                self._give(split, member)
        self.changed.notify_all()

    def _rank(self, member: ClusterWorker) -> bytes:
        """Return a tie-breaker that differs between the trainers of a large cluster."""
        return blake2b(f"{self.name} {member.location}".encode(), digest_size=8).digest()

    def _give(self, split: Split, member: ClusterWorker) -> None:
        """Assign a split to a worker; one without splits needs no connection."""
        split.member, split.opened = member, False
        self._feeders[member].begin(split.number)

    def _balance(self, new: ClusterWorker) -> None:
        """Take splits from the workers that have most, until the new one has its share."""
        active = [s for s in self._splits.values() if s.active and s.member is not None and self._may_move(s)]
        for _ in range(len(active) // len(self._feeders)):
            by_member = {m: self._active_of(m) for m in self._feeders if m is not new}
            most = max(by_member, key=lambda m: len(by_member[m]), default=None)
            if most is None or len(by_member[most]) <= len(self._active_of(new)) + 1:
                return
            movable = [s for s in by_member[most] if self._may_move(s)]
            if not movable:
                return
            self._give(min(movable, key=lambda s: s.nbytes and s.number), new)

    def _may_move(self, split: Split) -> bool:
        return not (self._is_costly and split.begun)

    def has(self, member: ClusterWorker) -> bool:
        """Return whether this worker is one of those that are asked."""
        return member in self._feeders

    @property
    def closed(self) -> bool:
        """Return whether the pass has ended."""
        return self._closed

    def cancel(self) -> None:
        """End the pass: wake all waiting threads."""
        with self.changed:
            self.changed.notify_all()

    def status(self) -> JsonObject:
        """Return which worker has what, as JSON values."""
        with self.changed:
            return {
                "session": self.name,
                "splits": [
                    {
                        "split": s.number,
                        "worker": None if s.member is None else s.member.name,
                        "rows": s.rows,
                        "ready_bytes": s.nbytes,
                        "over": s.over,
                    }
                    for s in self._splits.values()
                ],
                "workers": [member.name for member in self._feeders],
                "waits_for": self._waits_for,
            }

    def close(self) -> None:
        """Let every worker know, and wait for the threads."""
        self._cluster.forget(self)
        self._run.forget(self)
        with self.changed:
            if self._closed:
                return
            self._closed = True
            feeders = [*self._feeders.values(), *self._ended]
            self.changed.notify_all()
        for feeder in feeders:
            feeder.stop()
        for feeder in feeders:
            feeder.end()
        with self.changed:
            self._splits.clear()


def _hopeless(split: Split) -> WorkerError:
    return WorkerError(
        f"distribute_over: split {split.number} was lost with {len(split.losses)} workers at its row {split.rows}, "
        f"before the next row: {'; '.join(loss.why for loss in split.losses)}"
    )


def _named(raised: Raised, member: ClusterWorker) -> BaseException:
    """Return a worker's exception with the worker's name."""
    error = raised.exception()
    error.add_note(f"It was raised by worker {member.name}.")
    return error
