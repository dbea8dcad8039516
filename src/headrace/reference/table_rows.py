"""What `ParquetDataset`, `ArrowDataset` mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.columns.block import Block
from headrace.core.types import Nested
from headrace.errors import SpecError, is_unopenable
from headrace.formats.shared.files import file_identity
from headrace.formats.tables.pieces import Lost, blame_column
from headrace.formats.tables.rows import TableRows, Tables
from headrace.formats.tables.tables import table_columns
from headrace.reference.base import Place, Row, rows
from headrace.reference.records import Wrong
from headrace.remote.transport import ALONE


@rows.register
def _(node: TableRows, at: Place) -> Iterator[Row]:
    for number, (group, value) in enumerate(_table(node)):
        if not isinstance(value, Wrong | Lost):
            yield Row((at.path, number), value)
            continue
        lost = value if isinstance(value, Lost) else Lost(value, 1)
        if node.leaves_out(lost.cause):
            return
        if node.on_error is None or is_unopenable(lost.cause):
            yield Row((at.path, number), node.bad(lost, group, number))


def _table(node: TableRows) -> Iterator[tuple[int, Any]]:
    form = node.format
    via = ALONE.using(node.storage_options)
    try:
        file_identity(node.path, via)
        groups = form.open(node.path, via)
    except Exception as error:
        yield 0, Lost(f"{type(error).__name__}: {error}", 1, cause=error)
        return
    for group in range(groups.count):
        left = groups.rows(group) if form.kept is None else None
        try:
            for batch in groups.batches(group):
                for i in range(batch.num_rows):
                    yield group, _row(form, batch.slice(i, 1))
                left = None if left is None else left - batch.num_rows
        except Exception as error:
            reason = blame_column(groups, group, error)
            for _ in range(1 if left is None else left):
                yield group, Wrong(f"rows of group {group} are lost: {reason}")
    groups.close()


def _row(form: Tables, row: object) -> Nested:
    try:
        return next(Block(form.structure, table_columns(row, form.structure, form.choice), 1).elements())
    except SpecError as error:
        return Wrong(error)
