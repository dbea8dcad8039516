"""One pass over a part of a source of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from headrace.columns.block import Block, Failure, Item
from headrace.core.override import override
from headrace.errors import ElementError, HeadraceError, TransportError
from headrace.execute.context import Context
from headrace.execute.stages.channel import Cancelled
from headrace.formats.shared.one_file import FileStream
from headrace.formats.tables.pieces import ColumnPiece, batch_pieces
from headrace.plan.marks import At
from headrace.plan.structure import Structure
from headrace.remote.transport import Transport
from headrace.sources.batches import BatchSource
from headrace.sources.seen_rows import KeyedMark, KeyRun, PartMark, SeenRows, Spot

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BLOCK, MAX_ROWS_PER_BLOCK = 1 << 14, 3 << 13
"""How many rows a block has, and at most, so that no small rest is left."""


class PartNode(Protocol):
    """A node that gives the rows of a part."""

    @property
    def source(self) -> BatchSource: ...
    @property
    def part(self) -> int: ...
    @property
    def reader(self) -> str: ...
    @property
    def site(self) -> str | None: ...
    @property
    def structures(self) -> tuple[Structure, Structure]: ...


class PartStream(FileStream):
    """Cut batches into blocks; after a fault, reopen the source after the last row that it gave."""

    def __init__(self, node: PartNode, ctx: Context, at: At) -> None:
        super().__init__()
        self._node = node
        self._ctx = ctx
        self._structure, self._columns = node.structures
        self._via = Transport.of(ctx.run)
        self._name = str(node.source)
        own: PartMark = at.own or PartMark(Spot(node.source.start), 0)
        self._mark, self._number = own.spot.mark, own.number
        self._seen: SeenRows | None = own.seen
        self._last_run: KeyRun | None = None
        self._reader: Iterator[pa.RecordBatch] | None = None
        self._cancelled = False
        self._rest: pa.RecordBatch | None = None
        ctx.run.watch(self)

    @override
    def _read(self, want: int) -> list[Item]:  # batches come as they are
        if self._rest is None:
            self._rest = self._next_batch()
        if self._rest is None:
            self._over = True
            self.close()
            return []
        whole = self._rest
        self._rest = whole.slice(ROWS_PER_BLOCK) if whole.num_rows > MAX_ROWS_PER_BLOCK else None
        return self._items(whole if self._rest is None else whole.slice(0, ROWS_PER_BLOCK))

    def _next_batch(self) -> pa.RecordBatch | None:
        found = self._via.attempt(self._name, self._try_next)
        if isinstance(found, Exception):
            raise found
        return found

    def _try_next(self) -> pa.RecordBatch | Exception | None:
        """Return the next batch, or what ends it all; raises what may pass."""
        source = self._node.source
        try:
            if self._seen is not None:
                source.check_seen(self._node.part, self._mark, self._seen)
                self._seen = None
            if self._reader is None:
                self._reader = iter(source.open(self._node.part, self._mark))
            found = next(self._reader, None)
            if found is None and self._cancelled:  # which may look like the end
                raise Cancelled
            return found
        except (HeadraceError, ImportError) as error:
            self._drop()
            return error
        except Exception as error:  # drivers raise what they like
            self._drop()
            if self._cancelled:
                raise Cancelled from None
            said = source.hide(f"{type(error).__name__}: {error}")
            if source.is_passing(error):
                raise ConnectionError(said) from None
            return TransportError(f"{source}: {said}")

    def _drop(self) -> None:
        reader: Any = self._reader
        self._reader = None
        if hasattr(reader, "close"):
            reader.close()

    def _items(self, batch: pa.RecordBatch) -> list[Item]:
        items: list[Item] = []
        done = 0
        for piece in batch_pieces(batch, self._columns, self._node.source.choice):
            if isinstance(piece, ColumnPiece):
                own, first = self._passed(batch.slice(done, piece.rows)), self._number - piece.rows
                ids = self._ctx.ids_between(first, self._number)
                items.append(Block(self._structure, piece.columns, piece.rows, None, ids, own))
            else:
                own = self._passed(batch.slice(done, piece.rows))
                items.append(Failure(bad_row(self._node, piece.reason, own.number), None, own))
            done += piece.rows
        return items

    def _passed(self, rows: pa.RecordBatch) -> PartMark:
        keys = self._node.source.keys_of(rows)
        spot, number = Spot(self._mark), self._number
        self._mark = self._node.source.mark_after(self._mark, rows)
        self._number += rows.num_rows
        if keys is None:
            return PartMark(spot, number)
        run, before = KeyRun(keys), self._last_run
        self._last_run = run
        if before is not None:
            before.following = run
        return KeyedMark(spot, number, run)

    def cancel(self) -> None:
        """End all waits for the source."""
        self._cancelled = True
        reader: Any = self._reader
        if hasattr(reader, "cancel"):
            reader.cancel()

    def close(self) -> None:
        self._ctx.run.forget(self)
        self._rest = None
        self._drop()


def bad_row(node: PartNode, reason: str, number: int) -> ElementError:
    """Return the error for a row that cannot be read."""
    where = f"{node.source}, row {number}" + (f" of part {node.part}" if node.source.parts > 1 else "")
    return ElementError(reason, operation=node.reader, ordinal=number, site=node.site, provenance=where)
