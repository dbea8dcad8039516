"""Read batches of a driver's stream ahead, on a native thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace import _native
from headrace.sources.sql.driver_calls import WAKE_SECONDS

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowAhead:
    """Read a few batches of a reader ahead, on a native thread: a Python thread would wait for the GIL before each.

    The caller must cancel the driver's work before closing, because closing waits for the thread.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._schema = reader.schema
        self._batches = _native.BatchesAhead(reader.__arrow_c_stream__())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        while True:
            try:
                found = self._batches.next(WAKE_SECONDS)  # and look up, or Ctrl-C would have to wait
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
    """Return the exception that Arrow raises for this message of a stream, whose prefix is the kind of the error."""
    import pyarrow as pa

    kinds = {"Invalid": pa.ArrowInvalid, "NotImplemented": pa.ArrowNotImplementedError, "IOError": OSError}
    kind, _, rest = said.partition(": ")
    return kinds[kind](rest) if kind in kinds else OSError(said)
