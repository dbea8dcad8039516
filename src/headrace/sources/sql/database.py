"""The interface of all database drivers."""

from __future__ import annotations

import copy
import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from headrace.core.types import Library
from headrace.errors import SpecError
from headrace.remote.transport import TIMEOUT
from headrace.sources.sql.driver_calls import DriverCall, DriverThread
from headrace.sources.sql.uri import Uri

if TYPE_CHECKING:
    import pyarrow as pa

Key = int | str
Params = Sequence[Any]
SqlRow = tuple[Any, ...]
CLOSE_SECONDS = 2.0
"""How long a driver may take to end a query that is no longer needed."""
MAX_DECIMAL_DIGITS = 38
"""The most digits of a decimal that Arrow's decimal128 holds."""
BATCHES_AHEAD = 2
"""How many batches a thread reads ahead."""


class Rows(Iterator["pa.RecordBatch"]):
    """The batches of a running query, and how to end it.

    With `ahead` they are read on a thread, up to `BATCHES_AHEAD` ahead: the thread has its next call queued and never
    waits for the consumer of a batch. With `timeout`, waiting for each batch is limited to this many seconds.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        close: Callable[[], None],
        cancel: Callable[[], None] = lambda: None,
        *,
        ahead: bool = False,
        timeout: float = math.inf,
    ) -> None:
        self._batches = batches
        self._close = close
        self._cancel = cancel
        self._timeout = timeout
        self._calls: deque[DriverCall[pa.RecordBatch | None]] = deque()
        self._thread = DriverThread() if ahead else None
        self._given = False
        self._reading = self._over = self._closed = self._cancelled = False
        self._ending = threading.Lock()  # a driver must not be told to end what another thread is closing

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._thread is None:
            return next(self._batches)
        self._begin_calls(1)
        try:
            batch = self._calls[0].wait(self._timeout)  # it stays queued if Ctrl-C ends the wait for it
        except TimeoutError:
            self._closed = True  # the call has the connection, and closes it when it ends
            self._end_thread(wait=False)
            raise
        except Exception:
            self._calls.popleft()
            raise
        self._calls.popleft()
        if batch is None:
            raise StopIteration
        if self._given:  # a consumer of only the first batch reads no more
            self._begin_calls(BATCHES_AHEAD)
        self._given = True
        return batch

    def _begin_calls(self, count: int) -> None:
        while len(self._calls) < count:
            self._calls.append(DriverCall(self._read, lambda _: self._let_go(), self._thread))
        if self._cancelled:  # before there was a call to give up
            self._give_up()

    def _read(self) -> pa.RecordBatch | None:
        """Return the next batch, on the thread; none after a fault, or if the connection is being closed."""
        self._reading = True  # before it looks whether it should, as `close` looks after it has said so
        try:
            batch = None if self._over or self._closed else next(self._batches, None)
            self._over = batch is None
        except BaseException:
            self._over = True
            raise
        finally:
            self._reading = False
        return batch

    def cancel(self) -> None:
        """End what is waited for, from another thread; it may be over already."""
        with self._ending, suppress(Exception):
            if not self._closed:
                self._cancel()
        self._cancelled = True
        self._give_up()

    def _give_up(self) -> None:
        for call in list(self._calls):
            call.give_up()

    def close(self) -> None:
        """End the query; of a connection that is broken nothing more is to be heard."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            if not self._end_calls():
                self._end_thread(wait=False)
                return
            self._let_go()
            self._end_thread(wait=True)

    def _end_calls(self) -> bool:
        """Return whether the unneeded calls are over; else the last one closes the connection when it is."""
        if self._reading:
            with suppress(Exception):
                self._cancel()
        return all(call.leave(CLOSE_SECONDS) for call in self._calls)

    def _end_thread(self, *, wait: bool) -> None:
        if self._thread is not None:
            self._thread.end(wait=wait)

    def _let_go(self) -> None:
        self._over = True
        with suppress(Exception):
            self._close()


class Database(ABC):
    """A database driver. It holds no connection, and can be sent to another process."""

    extra: str
    """What installs the driver: `headrace[extra]`."""
    quote = '"'
    shares_view = True
    """Whether several connections can see one moment."""

    def __init__(self, uri: Uri) -> None:
        self.uri = uri
        self.timeout = TIMEOUT

    def within(self, timeout: float) -> Self:
        """Return a copy that waits this many seconds for an answer."""
        made = copy.copy(self)
        made.timeout = timeout
        return made

    def __str__(self) -> str:
        return str(self.uri)

    @abstractmethod
    def schema(self, query: str, params: Params) -> pa.Schema:
        """Return the columns of a query's result, as `read` gives them."""

    @abstractmethod
    def read(self, query: str, params: Params, schema: pa.Schema | None, snapshot: TableView | None = None) -> Rows:
        """Return the rows of a query as they come, of the types of `schema`, or as the driver has them."""

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a text as SQL, made of digits alone, so that nothing in it can mean anything else."""

    @abstractmethod
    def is_passing(self, error: Exception) -> bool:
        """Return whether the same query may well succeed in a moment."""

    def snapshot(self, parts: int) -> TableView | None:  # noqa: ARG002
        """Return a view that `parts` connections share, None if the database has no such thing."""
        return None

    def settle(self, schema: pa.Schema, cast: Mapping[str, object]) -> pa.Schema:  # noqa: ARG002
        """Return the columns after the user's casts. Raise SpecError if a cast is required."""
        return schema

    def pages(self, params: Params, schema: pa.Schema) -> PageReader | None:  # noqa: ARG002
        """Return a reader of pages for rows with a key, if a query cannot be streamed well."""
        return None

    def literal(self, value: Key) -> str:
        """Return a key as SQL: never text as it is."""
        return f"({int(value)})" if isinstance(value, int) else self.text(value)

    def exact_text(self, expression: str) -> str:
        """Return a column of text as SQL, such that no two texts are the same to the database that differ in a byte."""
        return expression

    def check_text_key(self, query: str, params: Params, key: str) -> None:  # noqa: B027 - where SQL can say it
        """Raise SpecError if the database treats different texts of this column as equal."""

    def name(self, column: str) -> str:
        """Return the name of a column as SQL."""
        return self.quote + column.replace(self.quote, self.quote * 2) + self.quote

    def rows(self, query: str, params: Params, view: TableView | None = None) -> list[SqlRow]:  # noqa: ARG002
        """Return the rows of a small query; in a view, if that takes no extra connection."""
        read = self.read(query, params, None)
        try:
            return [tuple(row.values()) for batch in read for row in batch.to_pylist()]
        finally:
            read.close()


class PageReader(ABC):
    """Run queries of moderate size, one after another."""

    @abstractmethod
    def begin(self, query: str) -> None:
        """Start a query; the one before is over."""

    @abstractmethod
    def take(self, schema: pa.Schema) -> list[pa.RecordBatch]:
        """Return all rows of the query that is in progress, of the types of `schema`."""

    @abstractmethod
    def cancel(self) -> None:
        """End what is waited for, from another thread."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds, broken or not."""


class TableView(ABC):
    """One view of a database for several connections."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


def driver(module: str, extra: str) -> Library:
    """Import a driver's module. Raise an ImportError that says what to install if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}; pip install 'headrace[{extra}]'") from None


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of these types; a driver that guesses may find others in other rows."""
    import pyarrow as pa

    if batch.schema.types == schema.types:
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise SpecError(
                f"column {field.name!r} holds {column.type}, but held {field.type} at first: CAST it in the query"
            ) from None
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def hexed(value: str) -> str:
    """Return a text as the digits of its bytes."""
    return value.encode().hex()
