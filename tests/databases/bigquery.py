"""A server that speaks BigQuery's Storage Read API on loopback, and fails on demand; clients are real."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import BigQueryReadClient, types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
LIMIT = 64 << 20


class Fake:
    """A table behind the service: `faults` maps a stream's number to what happens at its next messages."""

    def __init__(self, table: pa.Table, streams: int = 2, rows: int = 1000) -> None:
        self.table, self.streams, self.rows = table, streams, rows
        self.faults: dict[int, list[grpc.StatusCode | str | None]] = {}
        self.sessions: list[Any] = []
        self.reads: list[tuple[str, int]] = []
        self.lives, self.forgets = 6 * 3600.0, False
        self._data: dict[tuple[int, int], Any] = {}
        self.server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.max_send_message_length", LIMIT)])
        handlers = {
            "CreateReadSession": grpc.unary_unary_rpc_method_handler(
                self.create, types.CreateReadSessionRequest.deserialize, types.ReadSession.serialize
            ),
            "ReadRows": grpc.unary_stream_rpc_method_handler(
                self.read, types.ReadRowsRequest.deserialize, lambda data: data
            ),
        }
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def client(self) -> BigQueryReadClient:
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[("grpc.max_receive_message_length", LIMIT)])
        return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=channel))

    def create(self, request: Any, context: Any) -> Any:
        self.sessions.append(request)
        asked = request.read_session
        table = self.table
        if asked.read_options.selected_fields:
            table = table.select(list(asked.read_options.selected_fields))
        number = len(self.sessions)
        count = min(self.streams, request.max_stream_count or self.streams)
        for i in range(count):
            size = -(-table.num_rows // count)
            self._data[number, i] = table.slice(i * size, size)
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.lives)
        session = types.ReadSession(
            name=f"projects/p/locations/l/sessions/{number}",
            expire_time=ends,
            data_format=types.DataFormat.ARROW,
            streams=[{"name": f"projects/p/locations/l/sessions/{number}/streams/{i}"} for i in range(count)],
        )
        session.arrow_schema.serialized_schema = table.schema.serialize().to_pybytes()
        return session

    def read(self, request: Any, context: Any) -> Iterator[bytes]:
        session, stream = (int(part) for part in request.read_stream.split("/")[5::2])
        self.reads.append((request.read_stream, request.offset))
        rows = self._data[session, stream]
        if self.forgets:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the session has expired")
        if request.offset > rows.num_rows:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the offset is after the end")
        faults = self.faults.setdefault(stream, [])
        for message in self.messages(session, stream, request.offset):
            fault = faults.pop(0) if faults else None
            if fault == "stall":
                ended = threading.Event()
                if context.add_callback(ended.set):
                    ended.wait()
                return
            if fault is not None:
                context.abort(fault, "the fake was told to")
            yield message

    def messages(self, session: int, stream: int, offset: int) -> Iterator[bytes]:
        rows = self._data[session, stream]
        for batch in rows.slice(offset).combine_chunks().to_batches(max_chunksize=self.rows):
            answer = types.ReadRowsResponse(row_count=batch.num_rows)
            answer.arrow_record_batch.serialized_record_batch = batch.serialize().to_pybytes()
            yield types.ReadRowsResponse.serialize(answer)


@contextmanager
def running(table: pa.Table, **how: Any) -> Iterator[Fake]:
    """Such a server, stopped in the end."""
    made = Fake(table, **how)
    try:
        yield made
    finally:
        made.server.stop(None).wait()
