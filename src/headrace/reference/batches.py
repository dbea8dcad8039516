"""What sources of batches mean: every part from its beginning, one row after another."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from headrace.columns.block import Block
from headrace.core.types import Component, Nested
from headrace.errors import SpecError
from headrace.formats.tables.tables import table_columns
from headrace.ops.flat_map import FlatMap
from headrace.ops.interleave import Interleave
from headrace.plan.node import Node
from headrace.reference.base import Place, Row, rows
from headrace.sources.part_stream import bad_row
from headrace.sources.parts import PartRows, Parts, PartsInTurn
from headrace.sources.sql.dense import DenseRows


@rows.register
def _(node: Parts, at: Place) -> Iterator[Row]:
    fixed = node.laid_out(None)

    def one(part: object) -> SimpleNamespace:
        return SimpleNamespace(_node=fixed.fn(part))

    alike: Node = FlatMap(fixed.input, one, node.seed, site=node.site)
    if isinstance(node, PartsInTurn):
        turns = node.cycle_length, node.block_length
        alike = Interleave(fixed.input, one, *turns, node.seed, None, site=node.site)
    try:
        yield from rows(alike, at)
    finally:
        fixed.source.close()


@rows.register(PartRows)
@rows.register(DenseRows)
def _(node: PartRows | DenseRows, at: Place) -> Iterator[Row]:
    number, choice = 0, node.source.choice
    structure, columns = node.structures
    reader: Component = node.source.open(node.part, node.source.start)
    try:
        for batch in reader:
            for i in range(batch.num_rows):
                value: Nested
                try:
                    value = next(Block(structure, table_columns(batch.slice(i, 1), columns, choice), 1).elements())
                except SpecError as error:
                    value = bad_row(node, str(error), number)
                yield Row((at.path, number), value)
                number += 1
    finally:
        if hasattr(reader, "close"):
            reader.close()
