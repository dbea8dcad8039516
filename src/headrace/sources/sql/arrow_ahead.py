"""Batches of a driver's stream, read by a thread of the kernels while those before them are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace import _native
from headrace.sources.sql.driver_calls import LOOK_SECONDS

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowAhead:
    """The batches of a reader, a few ahead of need; a thread of Python's would wait for its lock before each.

    Whoever closes it has the driver give up what it does first: the thread is waited for.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._schema = reader.schema
        self._batches = _native.BatchesAhead(reader.__arrow_c_stream__())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        while True:
            try:
                found = self._batches.next(LOOK_SECONDS)  # and look up, or Ctrl-C would have to wait
            except OSError as error:
                raise arrow_error(str(error)) from None
            if found == 0:
                return
            if found is not None:
                yield pa.RecordBatch._import_from_c(found, self._schema)

    def close(self) -> None:
        """Let go of the stream."""
        self._batches.close()


def arrow_error(said: str) -> Exception:
    """What Arrow raises where a stream says this; its readers put the kind of the error before it."""
    import pyarrow as pa

    kinds = {"Invalid": pa.ArrowInvalid, "NotImplemented": pa.ArrowNotImplementedError, "IOError": OSError}
    kind, _, rest = said.partition(": ")
    return kinds[kind](rest) if kind in kinds else OSError(said)
