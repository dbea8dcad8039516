"""Which records made an element: `ds.rows_of(step)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.columns.block import Block, Failure
from headrace.core.types import JsonObject
from headrace.errors import ElementError, NotIndexableError
from headrace.execute.context import Context
from headrace.execute.run import Pass
from headrace.execute.stream import END
from headrace.formats.shared.files import file_size, local_path
from headrace.formats.shared.format import Format, Offsets
from headrace.formats.shared.index import fresh_index, scan_index
from headrace.observe.steps import NoSuchStepError, Step, step_of
from headrace.observe.tagging import Sources, Tagger
from headrace.observe.tags import flat_tags
from headrace.ops.cache import Cache
from headrace.ops.shared.by_number import counted_plan
from headrace.ops.with_options import merge_options
from headrace.plan.capabilities import begin_pass
from headrace.plan.cardinality import INFINITE
from headrace.plan.node import Node, obstacle, walk
from headrace.plan.prepared import Prepared

if TYPE_CHECKING:
    from headrace.dataset import Dataset

MAX_SCANNED_BYTES = 256 << 20
"""Files without an index up to this size are read to tell at which byte a record begins."""


class SourceRow(NamedTuple):
    """One record that an element was made of.

    Attributes:
        source: The source operation, e.g. `TFRecordDataset`.
        file: The path or URL of the file; None for sources that are not files.
        number: The number of the record in its file, or in its source.
        offset: The byte at which the record begins, if that is known without reading a large file.
        site: The file and line of the user's code that made the source.
        key: The key of the row, if the source is a query with a `key=`. With several partitions `number` counts the
            rows of one.
    """

    source: str
    file: str | None
    number: int
    offset: int | None
    site: str | None
    key: int | str | None = None

    def __str__(self) -> str:
        where = self.file or f"{self.source} ({self.site})"
        said = where + (f", record {self.number}" if self.key is None else f", key {self.key!r}")
        return said + (f", byte {self.offset}" if self.offset is not None else "")


class SourceRows(list[SourceRow]):
    """The records of one element, in their order. Prints one per line.

    Args:
        rows: The records.
        step: The number of the element in its epoch.
        epoch: The epoch.

    Attributes:
        step: The number of the element in its epoch.
        epoch: The epoch.
    """

    def __init__(self, rows: Sequence[SourceRow], step: int, epoch: int) -> None:
        super().__init__(rows)
        self.step = step
        self.epoch = epoch

    def __str__(self) -> str:
        return "\n".join([f"epoch {self.epoch}, step {self.step}: {len(self)} records", *(f"  {row}" for row in self)])


def rows_of(self: Dataset, step: int | None = None, *, epoch: int = 0, state: JsonObject | None = None) -> SourceRows:
    """Name the records that element number `step` is made of, from the plan and its seeds alone.

    Nothing is logged during training. If the plan can be indexed, the records are found by number; otherwise the source
    is read again up to this step. User functions are called only if they decide which rows there are, such as the
    predicate of `filter` and the functions before it.

    A shuffle without a seed draws one for each dataset object. In another process, pass the state of the run, which
    holds these seeds.

    Args:
        step: The number of the element in its epoch, counted from 0. With batches, the training step.
        epoch: Which pass over this dataset: the n-th `iter(ds)` is epoch n, counted from 0.
        state: A state of an iterator. It says the epoch and the seeds. Without `step`, the last element that was
            delivered before the state was taken is meant.

    Returns:
        A list of `SourceRow`, in the order in which the element holds them.

    Raises:
        IndexError: The dataset ends before this step.
        ElementError: A record of this step could not be read, as in the run itself.
        HeadraceError: Some operation of the plan hides where its rows come from.

    >>> ds = hr.Dataset.range(100).shuffle(100, seed=7).batch(4)
    >>> [row.number for row in ds.rows_of(3)] == ds[3].tolist()
    True
    """
    return find_rows(step_of(self, "rows_of", step, epoch, state))


def find_rows(at: Step) -> SourceRows:
    """The records of an element of a plan whose seeds are known."""
    plan, step, epoch = at.plan, at.step, at.epoch
    tagger = Tagger()
    found = _found_by_number(tagger.tagged(plan))
    begin_pass(plan)
    run = Pass(options=merge_options(plan), sizes=at.sizes)
    run.origins = {}
    try:
        context = run.context(Prepared.of(found)).epoch(epoch)
        item = _element(run, context, found, step)
        if isinstance(item, Failure):
            raise item.error.copy()
        tags = flat_tags(next(iter(item.elements())))
        named = Naming(tagger.sources, run.origins)
        return SourceRows([named.row(tag) for tag in tags.tolist()], step, epoch)
    finally:
        run.close()


def _found_by_number(plan: Node) -> Node:
    """The plan with datasets that take turns counted, if that needs no rows to be read."""
    if any(isinstance(node, Cache) and not node.indexable for node in walk(plan)):
        return plan
    try:
        return counted_plan(plan)
    except NotIndexableError:
        return plan


def _element(run: Pass, context: Context, plan: Node, step: int) -> Block | Failure:
    rows = plan.cardinality
    if obstacle(plan) is None and plan.addressable and (rows.known or rows == INFINITE):
        if rows.known and step >= int(rows):
            raise NoSuchStepError(f"rows_of: the dataset has {int(rows)} elements an epoch, there is no step {step}")
        (found,) = context.fetch_items(context.prepared.plan, np.array([step]))
        return found
    run.open(context)
    item = run.pull(1) if run.root.skip(step, replay=True) == step else END
    if item is END:
        raise NoSuchStepError(f"rows_of: the dataset ends before step {step}")
    return item


class Naming:
    """From tags to records; each file is looked at once."""

    def __init__(self, sources: Sources, origins: dict[int, str]) -> None:
        self._sources = sources
        self._origins = origins
        self._indexes: dict[str, Callable[[Offsets], Offsets] | None] = {}

    def row(self, tag: list[int]) -> SourceRow:
        """The record of a tag."""
        source, keys = self._sources[tag[0]]
        file = self._origins.get(tag[1] & (2**64 - 1))
        offset = None if file is None else self._offset(file, getattr(source, "format", None), tag[2])
        return SourceRow(
            source.operation, file, tag[2], offset, source.site, None if keys is None else keys.key(tag[3])
        )

    def _offset(self, file: str, form: object, number: int) -> int | None:
        """The byte at which a record begins; None if only reading a large or compressed file would tell."""
        if not isinstance(form, Format) or form.compression or not form.indexed or local_path(file) is None:
            return None
        if file not in self._indexes:
            self._indexes[file] = _start_of_records(file, form)
        starts = self._indexes[file]
        return None if starts is None else int(starts(np.array([number]))[0])


def _start_of_records(file: str, form: Format) -> Callable[[Offsets], Offsets] | None:
    """From numbers of records to the bytes at which they begin."""
    try:
        index = fresh_index(file, form)
        if index is not None:
            return index.starts
        if (file_size(file) or 0) > MAX_SCANNED_BYTES:
            return None
        return scan_index(file, form).positions.__getitem__
    except (ElementError, OSError):  # the file is damaged behind the record, or gone: the number is still right
        return None
