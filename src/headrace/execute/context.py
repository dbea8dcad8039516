"""Context: what a node is opened with. It holds the node's path and pass, and is the only way to open inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.columns import Indices
from headrace.columns.block import Block, Failure, Ids, Item, concat, source_ids, structures_differ
from headrace.columns.lazy_block import LazyBlock
from headrace.core.keys import ROOT, mix_key
from headrace.errors import ElementError, SpecError
from headrace.execute.inputs import Input, OneRowInput, Opened
from headrace.execute.latencies import ObservedInput
from headrace.execute.registry import fetching
from headrace.plan.marks import START, Marked, Marks
from headrace.plan.node import Node, waits

if TYPE_CHECKING:
    from headrace.execute.run import Pass
    from headrace.execute.stats import Stage
    from headrace.plan.prepared import Prepared

DEFAULT_CYCLE_LENGTH = 4
"""How many datasets or files are interleaved by default.

It is part of the plan, because the order of rows depends on it.
"""


class Form(NamedTuple):
    """Describe what the items of an input may be besides blocks of columns.

    Attributes:
        late: References to records in files. A consumer that takes them makes the rows where they are used, and reads
            them again if they prove corrupt.
        objects: Columns of the objects that the user gets, of texts that are only passed on or stacked.
    """

    late: bool = False
    objects: bool = False


COLUMNS = Form()
OBJECTS = Form(objects=True)


class Context(NamedTuple):
    """The position in the plan, the path and the pass that a node is opened with.

    `opened` are the inputs of the stream that this context was made for. `with_ids` is set if an operation downstream
    needs ids; `any_order` if each item is passed on by itself, so that the order is free. `sharers` stages like this
    one share the memory set aside for it. With `late`, the consumer accepts lazily read rows, materializes them itself,
    and re-reads them eagerly if they are corrupt. With `objects`, no operation downstream reads texts as columns, only
    as the objects that the user gets: a source that can make these directly saves a copy.
    """

    run: Pass
    prepared: Prepared
    stage: Stage
    opened: Opened
    path: int = ROOT
    level: int = 0
    with_ids: bool = False
    any_order: bool = True
    sharers: int = 1
    late: bool = False
    objects: bool = False

    def epoch(self, number: int) -> Context:
        """Return this context for another epoch. Epoch 0 is the context itself; nested repeats do not collide."""
        return self._on(mix_key(self.path, self.level, number) if number else self.path, self.level + 1)

    def branch(self, *values: int) -> Context:
        """Return this context under a parent row, or for the second use of one input."""
        return self._on(mix_key(self.path, *values), self.level)

    def one_of(self, count: int) -> Context:
        """Return this context for one of `count` inputs that are open at a time and share the memory."""
        return self._replace(sharers=self.sharers * count)

    def with_row_ids(self) -> Context:
        """Return this context with ids for the rows of its inputs."""
        return self._replace(with_ids=True)

    def shared_path(self) -> Context:
        """Return this context on the path that all passes share, for rows that outlive a pass."""
        return self._on(ROOT, 0)

    def _on(self, path: int, level: int) -> Context:
        return Context(
            self.run, self.prepared, self.stage, self.opened, path, level, self.with_ids, self.any_order, self.sharers,
            self.late, self.objects,
        )  # fmt: skip

    def note_origin(self, name: str) -> None:
        """Note that rows with ids of this path come from this file, if the pass looks for origins."""
        if self.run.origins is not None:
            self.run.origins[self.path] = name

    def ids(self, ordinals: Indices) -> Ids | None:
        """Return ids for rows of a source, if an operation downstream needs them."""
        return source_ids(self.path, ordinals) if self.with_ids else None

    def ids_between(self, start: int, stop: int) -> Ids | None:
        """Return ids for the rows `start` to `stop` of a source, if an operation downstream needs them."""
        return self.ids(np.arange(start, stop)) if self.with_ids else None

    def open(
        self,
        node: Node,
        marks: Marks = START,
        *,
        slot: int = 0,
        any_order: bool = False,
        form: Form = COLUMNS,
        flush: bool = False,
    ) -> Input:
        """Open an input at these positions. It is closed with the stream that opened it, if not before.

        Args:
            node: The input.
            marks: Where it begins.
            slot: Which of several inputs it is, in statistics.
            any_order: Whether each item is passed on by itself, so that a state needs no other item read again: only
                below such operations may `deterministic=False` change the order.
            form: What the items may be.
            flush: For inputs that are followed by others: a failure that one of them dropped with an incomplete group
                is its last row, because nothing remembers it once the next one is open.
        """
        inner = Context(  # all of it: `_replace` takes several times as long
            self.run,
            self.prepared,
            self.stage.input(slot, node),
            Opened(),
            self.path,
            self.level,
            self.with_ids,
            any_order and self.any_order,
            self.sharers,
            form.late,
            form.objects and self.objects,
        )
        if self.run.stepwise:
            return OneRowInput(node, inner, marks, self.opened, flush=flush)
        latencies = inner.stage.latencies
        if latencies is not None:
            return ObservedInput(node, inner, marks, self.opened, latencies, flush=flush)
        return Input(node, inner, marks, self.opened, flush=flush)

    def open_plan(
        self, node: Node, mark: Marked | None = None, *, slot: int = 0, with_ids: bool = False, objects: bool = False
    ) -> Input:
        """Open a nested plan, such as a dataset that a user's function returned.

        Its rows may be references to records if those of the operation may be. A failure that the plan drops with an
        incomplete group is its last row.
        """
        self.run.live = self.run.live or waits(node)
        prepared = self.run.prepare(node)
        ids = with_ids or self.with_ids
        inner = Context(self.run, prepared, self.stage, self.opened, self.path, self.level, ids, *self[7:])
        marks = START if mark is None else mark.marks()
        return inner.open(prepared.plan, marks, slot=slot, form=Form(self.late, objects), flush=True)

    def fetch(self, node: Node, indices: Indices) -> Block:
        """Return the rows of a node with these ordinals, in this order. Raise if one of them cannot be made."""
        made = fetching(type(node)).fetch(node, self, indices)
        return made if isinstance(made, Block) else _whole(node, made, indices)

    def point_at(self, node: Node, indices: Indices) -> LazyBlock | None:
        """Return references to the rows of a node with these ordinals, or None if the node cannot give references."""
        point = fetching(type(node)).point
        return None if point is None else point(node, self, indices)

    def fetch_items(self, node: Node, indices: Indices) -> list[Item]:
        """Fetch rows with failures in their places.

        Halve the request if a row fails; go row by row if calls are observable.
        """
        how = fetching(type(node))
        if how.items:
            made = how.fetch(node, self, indices)
            assert isinstance(made, list)
            return made
        if len(indices) == 1 or node.pure:
            try:
                return [self.fetch(node, indices)]
            except ElementError as error:
                if len(indices) == 1:
                    return [Failure(error)]
        part = max(1, len(indices) // 2) if node.pure else 1
        return [item for i in range(0, len(indices), part) for item in self.fetch_items(node, indices[i : i + part])]

    def keeps_order(self, deterministic: bool | None) -> bool:
        """Return whether an operation keeps the order: its own setting, else that of the options, else True."""
        chosen = self.run.options.deterministic if deterministic is None else deterministic
        return chosen is not False or not self.any_order


def _whole(node: Node, items: list[Item], indices: Indices) -> Block:
    """Join items into one block. Raise the failure among them."""
    blocks = []
    for item in items:
        if isinstance(item, Failure):
            raise item.error
        blocks.append(item)
    differ = structures_differ(blocks, "dataset")
    if differ:  # the caller asks again, one by one, and gets them
        raise node.error(SpecError(differ), int(indices[0]))
    return concat(blocks)
