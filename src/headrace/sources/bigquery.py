"""Tables and queries of BigQuery, by its Storage Read API."""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from headrace.core.types import LibraryObject
from headrace.errors import NONSENSE, StateError
from headrace.formats.tables.choice import Choice
from headrace.ops.shared.arguments import positive
from headrace.sources.batches import BatchSource, Mark
from headrace.sources.parts import parts_dataset
from headrace.sources.sql.database import driver

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset

PASSING = {
    "Aborted", "BadGateway", "Cancelled", "DeadlineExceeded", "GatewayTimeout", "InternalServerError",
    "ResourceExhausted", "RetryError", "ServiceUnavailable", "TooManyRequests", "Unknown",
}  # fmt: skip
"""Transient errors of the client library."""
EXPIRED = (
    "BigQuery keeps what a pass reads for six hours, and the state is of a pass before that: begin anew, and for "
    "longer runs keep the rows yourself, ds.cache(path) or ds.save(path)"
)


def BigQueryDataset(  # noqa: N802 - as tf.data's readers are named
    table: str | None = None,
    query: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    row_restriction: str = "",
    max_streams: int = 4,
    snapshot_time: datetime.datetime | None = None,
    cast: Mapping[str, object] | None = None,
    nulls: Mapping[str, object] | None = None,
    project: str | None = None,
    client: Callable[[], Any] | None = None,
    query_client: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a BigQuery table or the result of a query, as dicts, by several streams at a time.

    `table` is "project.dataset.table"; `row_restriction` is a WHERE condition. A `query` runs once, when the
    dataset is made; BigQuery keeps its rows for a day. Each pass reads the table as it is when the pass begins, or as
    it was at `snapshot_time`, by up to `max_streams` streams, some thousand rows of each in turn. A state resumes
    exactly, for the six hours that BigQuery keeps a pass.

    Columns become what `ParquetDataset` makes of them; `cast` and `nulls` are its. `project` pays for it. Functions
    that make the clients, `BigQueryReadClient` and for a query `bigquery.Client`, may supply credentials.

    Args:
        table: Table, as "project.dataset.table".
        query: SQL query.
        columns: Names of the columns to read. Default: all.
        row_restriction: Condition as in a SQL WHERE clause.
        max_streams: Largest number of parallel streams.
        snapshot_time: Time of the version to read. Default: now.
        cast: Types to convert columns to, by column.
        nulls: Values that replace missing ones, by column.
        project: Project that is billed.
        client: Function that returns a client. Default: one with the credentials of the environment.
        query_client: Function that returns a `bigquery.Client`, for a query.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> def make_dataset():
    ...     return hr.BigQueryDataset("bigquery-public-data.samples.shakespeare", columns=["word"], project="mine")
    """
    if (table is None) == (query is None):
        raise TypeError("BigQueryDataset takes a table or a query, one of them")
    connect = client or _read_client
    if query is not None:
        asked = f"query #{hashlib.blake2b(query.encode(), digest_size=8).hexdigest()} {' '.join(query.split())}"
        where, paid = _result_of(query, project, query_client or _query_client)
    else:
        asked = str(table)
        where = _parts_of(str(table), project)
        paid = project or where[0]
    source = BigQuerySource(
        connect,
        asked,
        "projects/{}/datasets/{}/tables/{}".format(*where),
        f"projects/{paid}",
        list(_names(columns)),
        row_restriction,
        snapshot_time,
        Choice.of(None, None, cast, nulls),
        positive("max_streams", max_streams),
    )
    return parts_dataset("BigQueryDataset", source, name)


def _names(columns: Sequence[str] | None) -> Sequence[str]:
    if isinstance(columns, str):
        raise TypeError(f"BigQueryDataset: columns is a list of names, not {columns!r}")
    return columns or ()


def _parts_of(table: str, project: str | None) -> tuple[str, str, str]:
    parts = table.replace(":", ".", 1).rsplit(".", 2)
    if len(parts) == 2 and project is not None:
        parts = [project, *parts]
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"BigQueryDataset: a table is 'project.dataset.table', not {table!r}")
    return parts[0], parts[1], parts[2]


def _read_client() -> LibraryObject:
    return driver("google.cloud.bigquery_storage_v1", "bigquery").BigQueryReadClient()


def _query_client() -> LibraryObject:
    return driver("google.cloud.bigquery", "bigquery").Client()


def _result_of(query: str, project: str | None, connect: Callable[[], Any]) -> tuple[tuple[str, str, str], str]:
    """Run a query and return the table that holds its rows, and the project that pays."""
    client = connect()
    job = client.query(query, project=project)
    job.result(max_results=0)
    found = job.destination
    return (found.project, found.dataset_id, found.table_id), project or job.project


class BigQuerySource(BatchSource):
    """Streams of a session, which begins with a pass; a mark is the offset in a stream."""

    name = "BigQueryDataset"

    def __init__(
        self,
        connect: Callable[[], Any],
        asked: str,
        table: str,
        parent: str,
        columns: list[str],
        row_restriction: str,
        snapshot_time: datetime.datetime | None,
        choice: Choice,
        max_streams: int,
    ) -> None:
        self._connect, self._asked, self._table, self._parent = connect, asked, table, parent
        self._columns, self._restriction, self._snapshot = columns, row_restriction, snapshot_time
        self.choice = choice
        self.parts = max_streams
        self.turns: int | None = max_streams if max_streams > 1 else None
        self._streams: list[str] = []
        self.schema: pa.Schema = self._schema_of(self._begin(1))

    def __str__(self) -> str:
        said = [f"columns={self._columns}" if self._columns else "", self._restriction and f"WHERE {self._restriction}"]
        said.append("" if self._snapshot is None else f"at {self._snapshot.isoformat()}")
        return ", ".join([self._asked, *filter(None, said)])

    def _begin(self, streams: int) -> LibraryObject:
        """Create a session of up to `streams` streams."""
        types = driver("google.cloud.bigquery_storage_v1.types", "bigquery")
        session = types.ReadSession(
            table=self._table,
            data_format=types.DataFormat.ARROW,
            read_options={"selected_fields": self._columns, "row_restriction": self._restriction},
        )
        if self._snapshot is not None:
            session.table_modifiers.snapshot_time = self._snapshot
        return self._connect().create_read_session(parent=self._parent, read_session=session, max_stream_count=streams)

    @staticmethod
    def _schema_of(session: LibraryObject) -> pa.Schema:
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))

    def lay_out(self, layout: str | None) -> BatchSource:
        made = copy.copy(self)
        if layout is None:
            session = self._begin(self.parts)
            made._streams = [stream.name for stream in session.streams]
            made.layout = json.dumps([int(session.expire_time.timestamp()), made._streams])
            return made
        made.layout = layout
        expires, made._streams = _session(layout)
        if time.time() > expires:
            raise StateError(f"{self}: {EXPIRED}")
        return made

    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        if part >= len(self._streams):
            return iter(())
        return Messages(self._connect(), self._streams[part], int(mark), self.schema, str(self), self.timeout)

    def is_passing(self, error: Exception) -> bool:
        if type(error).__module__.startswith("google."):
            return type(error).__name__ in PASSING
        return super().is_passing(error)


def _session(layout: str) -> tuple[int, list[str]]:
    try:
        expires, streams = json.loads(layout)
        if isinstance(expires, int) and all(isinstance(name, str) for name in streams):
            return expires, streams
    except NONSENSE:
        pass
    raise StateError(f"the state is damaged: {layout!r:.80} are no streams")


class Messages(Iterator["pa.RecordBatch"]):
    """The batches of a stream from an offset on.

    A call of the client has one deadline for all its messages: it is made again after the last one as long as some
    come, and a stream that gives none until then has stalled.
    """

    def __init__(
        self, client: LibraryObject, stream: str, offset: int, schema: pa.Schema, source: str, timeout: float
    ) -> None:
        self._client, self._stream, self._offset, self._timeout = client, stream, offset, timeout
        self._schema, self._source = schema, source
        self._begin()

    def _begin(self) -> None:
        self._rows = self._asked(
            lambda: self._client.read_rows(self._stream, offset=self._offset, timeout=self._timeout)
        )
        self._messages = iter(self._rows)
        self._has_come = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        import pyarrow as pa

        message = self._message()
        data = message.arrow_record_batch.serialized_record_batch
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        if message.row_count and batch.num_rows != message.row_count:
            raise ConnectionError(f"{batch.num_rows} rows came, but {message.row_count} were announced")
        self._offset += batch.num_rows
        return batch

    def _message(self) -> LibraryObject:
        try:
            message = self._asked(lambda: next(self._messages))
        except Exception as error:
            if type(error).__name__ != "DeadlineExceeded" or not self._has_come:
                raise
            self._rows.cancel()
            self._begin()
            message = self._asked(lambda: next(self._messages))
        self._has_come = True
        return message

    def _asked(self, work: Callable[[], object]) -> LibraryObject:
        try:
            return work()
        except Exception as error:
            if type(error).__name__ in ("FailedPrecondition", "NotFound") and "expired" in str(error).lower():
                raise StateError(f"{self._source}: {EXPIRED}") from None
            raise

    def cancel(self) -> None:
        """End what is waited for."""
        self._rows.cancel()

    def close(self) -> None:
        """End the stream."""
        self._rows.cancel()
