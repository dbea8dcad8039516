"""The rows of a group as columns, with what is lost among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headrace.columns import Column
from headrace.core.types import Component
from headrace.errors import SpecError, raise_if_passing
from headrace.formats.tables.arrow import is_text
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.damage import check_layout
from headrace.formats.tables.groups import Groups
from headrace.formats.tables.tables import table_columns
from headrace.plan.structure import Structure
from headrace.remote.redact import show_path

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnPiece(NamedTuple):
    """Rows as columns."""

    columns: list[Column]
    rows: int


class Lost(NamedTuple):
    """Rows that cannot be read: why, what can be shown of them, and what was raised, if anything was."""

    reason: str
    rows: int
    shown: bytes = b""
    cause: Exception | None = None

    @property
    def fault(self) -> bool:
        """Whether the error is one of reading, not of the data: it may be transient."""
        import pyarrow as pa

        if isinstance(self.cause, OSError):
            return self.cause.errno is not None
        return self.cause is not None and not isinstance(self.cause, pa.ArrowException | ValueError)


Piece: TypeAlias = ColumnPiece | Lost


def group_pieces(groups: Groups, group: int, structure: Structure, choice: Choice, *, counted: bool) -> Iterator[Piece]:
    """Yield the rows of a group. A decoding error costs the rest of the group, a bad value its row.

    With `counted` the group has as many rows as the file says. Otherwise, under a filter, the number of lost rows is
    unknown.
    """
    given = 0
    cause: Exception | None = None
    rows: int | None = None
    try:
        for batch in groups.batches(group):
            if rows is None and counted:  # after the rows, which may bring it along: in a store it is a request
                rows = groups.rows(group)
            if rows is not None and given + batch.num_rows > rows:
                raise ValueError(f"there are more than the {rows} that the file says")
            for piece in batch_pieces(batch, structure, choice, decoded=groups.decodes):
                given += piece.rows
                yield piece
        reason, left = f"there are but {given}", 0
    except Exception as error:  # Arrow raises what its file systems, codecs and types raise
        raise_if_passing(error, show_path(groups.path))
        reason, cause, left = blame_column(groups, group, error), error, 1
    if rows is None and counted:
        rows = groups.rows(group)
    left = left if rows is None else rows - given
    if left > 0:
        yield Lost(f"rows of group {group} are lost: {reason}", left, cause=cause)


def blame_column(groups: Groups, group: int, error: Exception) -> str:
    """Return the reason why a group cannot be read, with the damaged column if it is known."""
    fault = Lost("", 0, cause=error).fault
    name = None if fault else groups.damaged_column(group)
    return (
        arrow_message(error)
        if name is None
        else f"column {name!r}: {arrow_message(error)} (exclude=[{name!r}] reads the rest)"
    )


def arrow_message(error: Exception) -> str:
    """Return the message of an error of Arrow's."""
    return f"{type(error).__name__}: {error}"


def batch_pieces(batch: pa.RecordBatch, structure: Structure, choice: Choice, *, decoded: bool = False) -> list[Piece]:
    """Return the rows of a batch. If one of them is bad, split in halves."""
    if not batch.num_rows:
        return []
    try:
        return [ColumnPiece(table_columns(batch, structure, choice, decoded=decoded), batch.num_rows)]
    except SpecError as error:
        if batch.num_rows == 1:
            return [Lost(str(error), 1, _show_row(batch))]
    half = batch.num_rows // 2
    parts = batch.slice(0, half), batch.slice(half)
    return [piece for part in parts for piece in batch_pieces(part, structure, choice, decoded=decoded)]


def _show_row(batch: pa.RecordBatch) -> bytes:
    """Return a row as text, as far as it can be read."""
    values = {name: _value(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    return repr(values).encode(errors="backslashreplace")


def _value(column: pa.Array) -> Component:
    import pyarrow as pa

    try:
        check_layout(column)
        return column[0].as_py()
    except UnicodeDecodeError:
        return column.cast(pa.large_binary())[0].as_py() if is_text(column.type) else "…"
    except Exception:  # e.g. a date that Python does not support: it cannot be shown
        return "…"
