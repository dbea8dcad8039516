"""The one hand-over between threads: bounded by rows, blocks and bytes, in order or not, cancellable."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from headrace.block import Item
from headrace.execute.budget import MemoryBudget
from headrace.execute.row_work import RowsInTheMaking
from headrace.execute.unordered import Delivery
from headrace.plan.marks import Mark


class Cancelled(BaseException):
    """The pipeline is being closed; unwinds whoever waits on a channel."""


@dataclass(slots=True)
class Ticket:
    """A run of rows that a worker has taken on, of the input; `first` ones are handed over before all others."""

    mark: Mark
    rows: int
    first: bool = False
    items: list[Item] | None = None
    nbytes: int = 0
    making: RowsInTheMaking | None = None


@dataclass(frozen=True)
class Limits:
    """How far ahead of the consumer workers may run; rows count until the consumer has them.

    Rows that the consumer waits for are not ahead of it: of these, as many may be under way as it wants.
    `prompt` wakes a consumer up for the first row: right where a row is a whole batch. More than `rows` may go ahead
    where all of them take no more than `small` bytes: handing over a row costs as much as making many a small one.
    """

    tickets: int
    rows: int | None = None
    prompt: bool = False
    small: int = 0


NO_ROOM = Limits(0)
"""What has workers rest."""

LINGER_SECONDS = 0.001
LINGER_TICKETS = 16
LINGER_BYTES = 1 << 20


class Channel:
    """Workers ask for `room`, `issue` a ticket for the rows they took, and `put` what became of them."""

    def __init__(self, limits: Limits, memory: MemoryBudget, delivery: Delivery | None = None) -> None:
        self._limits = limits
        self._memory = memory
        self._expected = 0
        self._row_bytes = 0
        self._filled = False
        self._delivery = delivery
        # The collector may close a pass from within. It is entered itself, not by its conditions: those are Python, and
        # an interrupt in the midst of that would leave it held.
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
        self._heard: threading.Event | None = None
        self._lingering = False
        self.hungry = False
        """Whether somebody waits for a single row."""
        self._frontier: Mark | None = None

    def room(self, chunk: int, *, wait: bool = True) -> int:
        """Wait until a worker may take rows on; how many, at most `chunk`. Who does not `wait` may get none."""
        with self._lock:
            if wait:
                self._space.wait_for(lambda: self._cancelled or self._over or self._has_room(self._least(chunk)))
            if self._cancelled:
                raise Cancelled
            if not wait and not self._over and not self._has_room(self._least(chunk)):
                return 0
            self._taking = not self._over
            most = self._most_rows()
            return chunk if most is None else max(1, min(chunk, most - self._rows))

    def _least(self, chunk: int) -> int:
        """For how many rows it is worth to begin."""
        most = self._most_rows()
        return 1 if most is None else min(chunk, max(1, most // 2))

    def _most_rows(self) -> int | None:
        """How many rows may be ahead, as far as anybody knows how large they are."""
        limits = self._limits
        if limits.rows is None:
            return None
        most = max(limits.rows, self._wanted)
        return max(most, limits.small // self._row_bytes) if self._row_bytes else most

    def _most_tickets(self) -> int:
        limits = self._limits
        return limits.tickets if limits.rows is None else max(limits.tickets, self._wanted)

    def _has_room(self, least: int) -> bool:
        most = self._most_rows()
        if len(self._waiting) >= self._most_tickets() or (most is not None and self._rows + least > most):
            self._filled = True
            return False
        return not self._waiting or self._memory.has_room(self._expected, id(self), self._wake)

    def _wake(self) -> None:
        with self._lock:
            self._space.notify_all()

    def allow(self, limits: Limits) -> None:
        """Have workers run another way ahead from now on."""
        with self._lock:
            self._limits = limits
            self._filled = False
            self._space.notify_all()

    def at_rest(self) -> bool:
        """Whether no worker may take rows on, none has any, and none is to be had: the input is nobody's."""
        with self._lock:
            return self._limits.tickets == 0 and not (self._taking or self._waiting or self.over)

    def ran_dry(self) -> bool:
        """Whether there was nothing left although there had been all that was allowed; asks once."""
        with self._lock:
            dry = self._filled and not self._waiting and not self.over
            self._filled = self._filled and not dry
            return dry

    def issue(self, ticket: Ticket, frontier: Mark) -> int:
        """Give the ticket its turn. `frontier` is where the input stands after it."""
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
        """The rows of a ticket are made."""
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
        """The input is at its end; what was issued is still to come."""
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """A worker broke down: the consumer gets the error."""
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
        """Whether no more tickets will be issued."""
        return self._over or self._cancelled

    def cancel(self) -> None:
        """Wake everybody up with Cancelled."""
        with self._lock:
            self._cancelled = True
            self._tell()
            self._space.notify_all()

    def close(self) -> None:
        """Nobody takes what is left."""
        self.cancel()
        with self._lock:
            left = sum(ticket.nbytes for ticket in self._waiting.values())
            self._waiting.clear()
        self._memory.forget(id(self))
        self._memory.take(-left)

    def ready(self, heard: threading.Event) -> bool:
        """Whether `get` would not wait; `heard` is set at every change from now on."""
        with self._lock:
            self._heard = heard
            return self._next() is not None or self._over or self._cancelled

    def _tell(self) -> None:
        if not self._lingering or self._enough():
            self._ready.notify_all()
        if self._heard is not None:
            self._heard.set()

    def get(self, want: int = 1) -> list[Ticket]:
        """The finished tickets: all, where the order is free, else those in turn. None only at the end.

        So many rows are wanted, and will be taken whatever they are.

        Who finds nothing is not woken up for the first one at once, but for a fair amount or after a millisecond: to be
        woken up costs as much as making many a row.
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
        """Until something is made, though it be a single row of many."""
        first = next(iter(self._waiting.values()), None)
        self.hungry = True
        try:
            # A row may have come before its thread could see that it is waited for.
            if first is None or first.making is None or not first.making.has_rows():
                self._ready.wait()
        finally:
            self.hungry = False

    def _part(self) -> Ticket | None:
        """The rows of the first ticket that are made, though others are not yet."""
        first = next(iter(self._waiting.values()), None)
        items = first.making.take() if first is not None and first.making is not None else []
        return Ticket(first.mark, sum(item.rows for item in items), items=items) if first and items else None

    def tell_of_row(self) -> None:
        """A row of a ticket is made, and somebody may be waiting for no more than that."""
        with self._lock:
            self._tell()

    def end_making(self, number: int) -> None:
        """Nobody takes single rows of this ticket from here on: the rest is about to be put."""
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
        """The consumer has these rows now."""
        with self._lock:
            self._rows -= rows
            self._space.notify_all()
