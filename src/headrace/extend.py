"""The interface for packages that add an operation, source, column kind, file format or trainer to headrace.

docs/extending.md shows each, step by step. `headrace.testing.check_transformation` checks that an addition keeps
headrace's guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from headrace.adapters.feed import Feed, PlainTarget, Target
from headrace.columns import Column, Indices, Kind, Notes, column_of, register_kind
from headrace.columns.block import Block, Failure, Item, concat
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.formats.shared.files import arrow_file
from headrace.formats.shared.format import Bad, Format, ScanHints, ScannedRows, ScanResult
from headrace.formats.shared.kinds import FileFormat, register_format
from headrace.formats.shared.many_files import read_files
from headrace.formats.tables.choice import Choice
from headrace.formats.tables.groups import Groups
from headrace.formats.tables.source import read_tables
from headrace.indexed.numbered import Numbered, NumberedStream
from headrace.ops.shared.unchanged_rows import MovedRows, PassThrough, UnchangedRows
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.node import TUNING, Node, user_site
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure, flatten
from headrace.reference.base import Place, Row, rows
from headrace.reference.records import NaiveRecord, Wrong, read_records
from headrace.remote.transport import Transport

if TYPE_CHECKING:
    from headrace.dataset import Dataset

__all__ = [
    "END", "INFINITE", "LEAF", "TUNING", "UNKNOWN", "At", "Bad", "Block", "Cardinality", "Choice", "Column",
    "Context", "Failure", "Feed", "FileFormat", "Format", "Groups", "Indices", "Item", "Kind", "Made", "Mark",
    "MovedRows", "NaiveRecord", "Node", "Notes", "Numbered", "NumberedStream", "OwnMark", "PassThrough", "Place",
    "PlainTarget", "Row", "ScanHints", "ScanResult", "ScannedRows", "Spec", "Stream", "Structure", "Target",
    "Transport", "UnchangedRows", "Wrong", "add_operation", "add_source", "arrow_file", "column_of", "concat",
    "fetches", "flatten", "means", "opens", "read_files", "read_tables", "reads_naively", "register_format",
    "register_kind", "rows",
]  # fmt: skip

NaiveRows = TypeVar("NaiveRows", bound=Callable[..., Iterator[Row]])
NaiveRead = TypeVar("NaiveRead", bound=Callable[..., Iterator[NaiveRecord]])


def add_operation(ds: Dataset, kind: Callable[..., Node], *args: object, name: str | None = None) -> Dataset:
    """`ds` with one more operation: `kind(input, *args)`. To be called by the function that users call.

    Errors name the line from which that was.
    """
    return dataset_of(kind(ds._node, *args, site=user_site(2), name=name))


def add_source(kind: Callable[..., Node], *args: object, name: str | None = None) -> Dataset:
    """Return a dataset of the rows of `kind(*args)`. To be called by the function that users call."""
    return dataset_of(kind(*args, site=user_site(2), name=name))


def means(kind: type[Node]) -> Callable[[NaiveRows], NaiveRows]:
    """Say what nodes of this kind mean, one element at a time: `def meaning(node, at)` yields Rows.

    `rows(node.input, at)` are those of the input; a Row has an `id` and a `value`, which may be an ElementError.
    """

    def register(meaning: NaiveRows) -> NaiveRows:
        rows.register(kind)(meaning)
        return meaning

    return register


def reads_naively(kind: type[Format]) -> Callable[[NaiveRead], NaiveRead]:
    """Register a naive reader of this format: `def read(form, data, *, go_on)` yields (value, byte, line) per record.

    The value of a bad record is a Wrong, a str with the reason. With `go_on`, records after it are yielded too.
    """

    def register(read: NaiveRead) -> NaiveRead:
        read_records.register(kind)(read)
        return read

    return register
