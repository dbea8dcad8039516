"""The only queue between threads: bounded by rows, blocks and bytes, in order or not, cancellable."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from time import perf_counter_ns

from headrace.columns.block import Item
from headrace.execute.budget import MemoryBudget
from headrace.execute.pool.bell import Bell
from headrace.execute.stages.row_work import RowsInTheMaking
from headrace.execute.stages.unordered import Delivery
from headrace.plan.marks import Mark


class Cancelled(BaseException):
    """The pipeline is being closed. Unwinds every thread that waits on a channel."""


@dataclass(slots=True)
class Ticket:
    """A run of input rows that a worker has taken. Tickets marked `first` are handed over before all others."""

    mark: Mark
    rows: int
    first: bool = False
    items: list[Item] | None = None
    nbytes: int = 0
    making: RowsInTheMaking | None = None


@dataclass(frozen=True)
class Limits:
    """How far ahead of the consumer workers may run. Rows count until the consumer has them.

    Rows that the consumer waits for are not ahead of it: as many of these may be in progress as it wants. `prompt`
    wakes the consumer for the first row, which is right if a row is a whole batch. More than `rows` rows may be ahead
    if all of them take at most `small` bytes, because a hand-over costs as much as making many small rows.
    """

    tickets: int
    rows: int | None = None
    prompt: bool = False
    small: int = 0


NO_ROOM = Limits(0)
"""Limits that pause the workers."""

LINGER_SECONDS = 0.001
LINGER_TICKETS = 16
LINGER_BYTES = 1 << 20


class Channel:
    """Hand rows from workers to a consumer.

    Workers ask for `room`, `issue` a ticket for the rows they took, and `put` the results.
    """

    def __init__(self, limits: Limits, memory: MemoryBudget, delivery: Delivery | None = None) -> None:
        self._limits = limits
        self._memory = memory
        self._expected = 0
        self._row_bytes = 0
        self._filled = False
        self._delivery = delivery
        # A reentrant lock, because the garbage collector may close a pass while it is held. Acquire the lock itself,
        # not its conditions: those are Python code, and an interrupt inside them would leave the lock held.
        self._lock = threading.RLock()
        self._space = threading.Condition(self._lock)
        self._ready = threading.Condition(self._lock)
        self._waiting: OrderedDict[int, Ticket] = OrderedDict()
        self._issued = 0
        self._rows = 0
        self._wanted = 0
        self._bytes = 0
        self._taking = False
        self._over = False
        self._cancelled = False
        self._error: BaseException | None = None
        self._heard: Bell | None = None
        self._lingering = False
        self.hungry: bool = False
        """Whether a consumer waits for a single row."""
        self._frontier: Mark | None = None
        self.full_nanoseconds: int = 0
        """How long workers had to wait because the channel was full …"""
        self.memory_nanoseconds: int = 0
        """… and because the memory budget was used up."""

    def room(self, chunk: int, *, wait: bool = True) -> int:
        """Wait until a worker may take rows and return how many, at most `chunk`. Without `wait`, this may be 0."""
        with self._lock:
            while wait and not (self._cancelled or self._over or self._has_room(self._least(chunk))):
                self._wait_for_space(self._least(chunk))
            if self._cancelled:
                raise Cancelled
            if not wait and not self._over and not self._has_room(self._least(chunk)):
                return 0
            self._taking = not self._over
            most = self._most_rows()
            return chunk if most is None else max(1, min(chunk, most - self._rows))

    def _wait_for_space(self, least: int) -> None:
        """Wait until something changes, and count for which of the two reasons."""
        full, started = self._is_full(least), perf_counter_ns()
        try:
            self._space.wait()
        finally:
            if full:
                self.full_nanoseconds += perf_counter_ns() - started
            else:
                self.memory_nanoseconds += perf_counter_ns() - started

    def depth(self) -> tuple[int, int]:
        """Return how many tickets are finished and not taken, and how many may be ahead."""
        with self._lock:
            return sum(ticket.items is not None for ticket in self._waiting.values()), self._most_tickets()

    def _least(self, chunk: int) -> int:
        """Return the smallest number of rows worth starting with."""
        most = self._most_rows()
        return 1 if most is None else min(chunk, max(1, most // 2))

    def _most_rows(self) -> int | None:
        """Return how many rows may be ahead, or None while their size is unknown."""
        limits = self._limits
        if limits.rows is None:
            return None
        most = max(limits.rows, self._wanted)
        return max(most, limits.small // self._row_bytes) if self._row_bytes else most

    def _most_tickets(self) -> int:
        limits = self._limits
        return limits.tickets if limits.rows is None else max(limits.tickets, self._wanted)

    def _has_room(self, least: int) -> bool:
        if self._is_full(least):
            self._filled = True
            return False
        return not self._waiting or self._memory.has_room(self._expected, id(self), self._wake)

    def _is_full(self, least: int) -> bool:
        most = self._most_rows()
        return len(self._waiting) >= self._most_tickets() or (most is not None and self._rows + least > most)

    def _wake(self) -> None:
        with self._lock:
            self._space.notify_all()

    def allow(self, limits: Limits) -> None:
        """Replace the limits."""
        with self._lock:
            self._limits = limits
            self._filled = False
            self._space.notify_all()

    def at_rest(self) -> bool:
        """Return whether the workers are paused: none may take rows, none has any, and none are queued.

        The input is then unused.
        """
        with self._lock:
            return self._limits.tickets == 0 and not (self._taking or self._waiting or self.over)

    def ran_dry(self) -> bool:
        """Return, once, whether the channel became empty after it had been full."""
        with self._lock:
            dry = self._filled and not self._waiting and not self.over
            self._filled = self._filled and not dry
            return dry

    def issue(self, ticket: Ticket, frontier: Mark) -> int:
        """Number the ticket. `frontier` is the input's mark after the ticket's rows."""
        with self._lock:
            number = self._issued
            self._issued += 1
            self._taking = False
            ticket.nbytes = self._expected
            self._memory.take(ticket.nbytes)
            self._waiting[number] = ticket
            self._rows += ticket.rows
            self._frontier = frontier
            return number

    def put(self, number: int, items: list[Item]) -> None:
        """Store the results of a ticket."""
        nbytes = sum(item.nbytes for item in items)
        with self._lock:
            ticket = self._waiting[number]
            too_much = ticket.nbytes - nbytes
            ticket.items = items
            ticket.nbytes = self._expected = nbytes
            if ticket.rows:
                self._row_bytes = max(self._row_bytes, -(-nbytes // ticket.rows), 1)
            self._bytes += nbytes
            self._tell()
        self._memory.take(-too_much)

    def finish(self) -> None:
        """Note the end of the input. Issued tickets are still to come."""
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """Pass an error of a worker to the consumer."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            self._over = True
            self._taking = False
            self._error = self._error or error
            self._tell()
            self._space.notify_all()

    @property
    def over(self) -> bool:
        """Return whether no more tickets will be issued."""
        return self._over or self._cancelled

    def cancel(self) -> None:
        """Wake all waiting threads with Cancelled."""
        with self._lock:
            self._cancelled = True
            self._tell()
            self._space.notify_all()

    def close(self) -> None:
        """Discard what is left."""
        self.cancel()
        with self._lock:
            left = sum(ticket.nbytes for ticket in self._waiting.values())
            self._waiting.clear()
        self._memory.forget(id(self))
        self._memory.take(-left)

    def ready(self, heard: Bell) -> bool:
        """Return whether `get` would not block. From now on `heard` is rung at every change."""
        with self._lock:
            self._heard = heard
            return self._next() is not None or self._over or self._cancelled

    def _tell(self) -> None:
        if not self._lingering or self._enough():
            self._ready.notify_all()
        if self._heard is not None:
            self._heard.ring()

    def get(self, want: int = 1) -> list[Ticket]:
        """Return the finished tickets: all of them if unordered, else those next in order. Empty only at the end.

        The consumer wants `want` rows and will take whatever comes. A consumer that finds nothing is woken for a fair
        amount, or after a millisecond, because waking a thread costs as much as making many rows.
        """
        with self._lock:
            if self._next() is None and not self._limits.prompt:
                self._linger(want)
            while (number := self._next()) is None:
                if self._cancelled:
                    raise Cancelled
                part = self._part()
                if part is not None:
                    return [part]
                if self._error is not None:
                    raise self._error
                if self._over and not self._waiting:
                    return []
                self._wait()
            if self._cancelled:
                raise Cancelled
            taken = []
            while number is not None:
                taken.append(self._take(number))
                number = self._next()
        self._memory.take(-sum(ticket.nbytes for ticket in taken))
        return taken

    def _wait(self) -> None:
        """Wait until something is made, even a single row of a ticket."""
        first = next(iter(self._waiting.values()), None)
        self.hungry = True
        try:
            # A row may have arrived before its thread saw that the consumer waits.
            if first is None or first.making is None or not first.making.has_rows():
                self._ready.wait()
        finally:
            self.hungry = False

    def _part(self) -> Ticket | None:
        """Return the finished rows of the first ticket although others are pending."""
        first = next(iter(self._waiting.values()), None)
        items = first.making.take() if first is not None and first.making is not None else []
        return Ticket(first.mark, sum(item.rows for item in items), items=items) if first and items else None

    def tell_of_row(self) -> None:
        """Notify a waiting consumer that one row of a ticket is made."""
        with self._lock:
            self._tell()

    def end_making(self, number: int) -> None:
        """Stop handing out single rows of this ticket, because the rest is about to be put."""
        with self._lock:
            ticket = self._waiting.get(number)
            if ticket is not None and ticket.making is not None:
                ticket.rows -= ticket.making.end()
                ticket.making = None

    def _linger(self, want: int) -> None:
        self._lingering = True
        if self._limits.rows is not None and want > self._limits.rows and self._delivery is None:
            self._wanted = want
            self._space.notify_all()
        try:
            self._ready.wait_for(self._enough, LINGER_SECONDS)
        finally:
            self._lingering = False
            self._wanted = 0

    def _enough(self) -> bool:
        if self._cancelled or self._over or not self._has_room(1) or self._bytes >= LINGER_BYTES:
            return True
        return len(self._waiting) >= LINGER_TICKETS and self._next() is not None

    def _next(self) -> int | None:
        for number, ticket in self._waiting.items():
            if ticket.items is not None:
                return number
            if self._delivery is None or ticket.first:
                return None
        return None

    def _take(self, number: int) -> Ticket:
        waiting = self._waiting
        marks = [t.mark for t in waiting.values()] if self._delivery is not None else []
        ticket = waiting.pop(number)
        items = ticket.items or []
        self._bytes -= ticket.nbytes
        self._space.notify_all()
        if self._delivery is not None:
            assert self._frontier is not None, "it is set with the first ticket"
            oldest = min((self._frontier, *marks), key=lambda mark: mark.ordinal)
            self._delivery.hand_over(ticket.mark.ordinal, ticket.rows, items, oldest)
        return ticket

    def release(self, rows: int) -> None:
        """Note that the consumer has these rows now."""
        with self._lock:
            self._rows -= rows
            self._space.notify_all()
