"""What a package needs that adds an operation, a source, a kind of column, a format of files or a trainer to headrace.

docs/extending.md shows each, step by step. `headrace.testing.check_transformation` says whether what was added keeps
headrace's promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.adapters.feed import Feed, PlainTarget, Target
from headrace.block import Block, Failure, Item, concat
from headrace.columns import Column, Indices, Kind, Notes, column_of, register_kind
from headrace.execute.context import Context
from headrace.execute.registry import fetches, opens
from headrace.execute.stream import END, Made, Stream
from headrace.ops.unchanged_rows import MovedRows, PassThrough, UnchangedRows
from headrace.plan.cardinality import INFINITE, UNKNOWN, Cardinality
from headrace.plan.datasets import dataset_of
from headrace.plan.marks import At, Mark, OwnMark
from headrace.plan.node import TUNING, Node, user_site
from headrace.plan.spec import Spec
from headrace.plan.structure import LEAF, Structure, flatten
from headrace.records.format import Bad, Format, ScanHints, ScannedRows, ScanResult
from headrace.records.kinds import FileFormat, register_format
from headrace.reference.base import Place, Row, rows
from headrace.reference.records import NaiveRecord, Wrong, read_records
from headrace.sources.files import read_files
from headrace.sources.numbered import Numbered, NumberedStream

if TYPE_CHECKING:
    from headrace.dataset import Dataset

__all__ = [
    "END", "INFINITE", "LEAF", "TUNING", "UNKNOWN", "At", "Bad", "Block", "Cardinality", "Column", "Context",
    "Failure", "Feed", "FileFormat", "Format", "Indices", "Item", "Kind", "Made", "Mark", "MovedRows",
    "NaiveRecord", "Node", "Notes", "Numbered", "NumberedStream", "OwnMark", "PassThrough", "Place", "PlainTarget",
    "Row", "ScanHints", "ScanResult", "ScannedRows", "Spec", "Stream", "Structure", "Target", "UnchangedRows",
    "Wrong", "add_operation", "add_source", "column_of", "concat", "fetches", "flatten", "means", "opens",
    "read_files", "reads_naively", "register_format", "register_kind", "rows",
]  # fmt: skip

NaiveRows = TypeVar("NaiveRows", bound=Callable[..., Iterator[Row]])
NaiveRead = TypeVar("NaiveRead", bound=Callable[..., Iterator[NaiveRecord]])


def add_operation(ds: Dataset, kind: Callable[..., Node], *args: Any, name: str | None = None) -> Dataset:
    """`ds` with one more operation: `kind(input, *args)`. To be called by the function that users call.

    Errors name the line from which that was.
    """
    return dataset_of(kind(ds._node, *args, site=user_site(2), name=name))


def add_source(kind: Callable[..., Node], *args: Any, name: str | None = None) -> Dataset:
    """A dataset of the rows of `kind(*args)`. To be called by the function that users call."""
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
    """Say what files of this format hold: `def read(form, data, *, go_on)` yields (value, byte, line) for each record.

    The value of a bad record is a Wrong, a str that says why. With `go_on`, those behind it are given too.
    """

    def register(read: NaiveRead) -> NaiveRead:
        read_records.register(kind)(read)
        return read

    return register
