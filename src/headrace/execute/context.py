"""What a node is opened with: its place in the plan and on its path, and the only way to its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.block import Block, Failure, Ids, Item, concat, source_ids, structures_differ
from headrace.columns import Indices
from headrace.errors import ElementError, SpecError
from headrace.execute.inputs import Input, Opened
from headrace.execute.registry import fetching
from headrace.keys import ROOT, mix_key
from headrace.late_block import LateBlock
from headrace.plan.marks import START, Marked, Marks
from headrace.plan.node import Node, waits

if TYPE_CHECKING:
    from headrace.execute.passes import Pass
    from headrace.execute.stats import Stage
    from headrace.plan.prepared import Prepared

CYCLE = 4
"""How many datasets or files take turns where nobody said; a number of the plan, since the order depends on it."""


class Form(NamedTuple):
    """What the items of an input may be, beside blocks of columns.

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
    """Where in the plan, on which path and in which pass a node is opened.

    `opened` are the inputs of the stream that this context was made for. With `with_ids` somebody downstream wants ids;
    with `any_order` each item is passed on by itself, so that the order may be free; `sharers` stages like this one
    share what memory is set aside for it. Whoever takes rows `late` has them made where they are used, and reads them
    again where they prove unsound. With `objects` nobody downstream looks at texts as columns, but as the objects that
    the user gets: a source that can make these at once saves a copy.
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
        """The same place in another epoch. Epoch 0 is the place itself; nested repeats do not collide."""
        return self._on(mix_key(self.path, self.level, number) if number else self.path, self.level + 1)

    def branch(self, *values: int) -> Context:
        """The same place under a parent row, or for the second use of one input."""
        return self._on(mix_key(self.path, *values), self.level)

    def one_of(self, count: int) -> Context:
        """The same place for each of several inputs that are open at a time, and share what memory there is."""
        return self._replace(sharers=self.sharers * count)

    def with_row_ids(self) -> Context:
        """The same place, with ids for the rows of its inputs."""
        return self._replace(with_ids=True)

    def shared_path(self) -> Context:
        """The same place on the path that every pass shares: for rows that outlive a pass."""
        return self._on(ROOT, 0)

    def _on(self, path: int, level: int) -> Context:
        return Context(
            self.run, self.prepared, self.stage, self.opened, path, level, self.with_ids, self.any_order, self.sharers,
            self.late, self.objects,
        )  # fmt: skip

    def note_origin(self, name: str) -> None:
        """Rows with ids of this path are those of this file; noted where somebody looks for one."""
        if self.run.origins is not None:
            self.run.origins[self.path] = name

    def ids(self, ordinals: Indices) -> Ids | None:
        """Ids for rows of a source, where somebody downstream wants them."""
        return source_ids(self.path, ordinals) if self.with_ids else None

    def ids_between(self, start: int, stop: int) -> Ids | None:
        """Ids for the rows `start` to `stop` of a source, where somebody downstream wants them."""
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
        """The rows of an input from these positions on. It is closed with the stream that opened it, if not before.

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
        return Input(node, inner, marks, self.opened, flush=flush)

    def open_plan(
        self, node: Node, mark: Marked | None = None, *, slot: int = 0, with_ids: bool = False, objects: bool = False
    ) -> Input:
        """The rows of a plan of its own, such as a dataset that a user's function made while running.

        They are references to records if the rows of the operation may be. A failure that the plan drops with an
        incomplete group is its last row.
        """
        self.run.live = self.run.live or waits(node)
        prepared = self.run.prepare(node)
        ids = with_ids or self.with_ids
        inner = Context(self.run, prepared, self.stage, self.opened, self.path, self.level, ids, *self[7:])
        marks = START if mark is None else mark.marks()
        return inner.open(prepared.plan, marks, slot=slot, form=Form(self.late, objects), flush=True)

    def fetch(self, node: Node, indices: Indices) -> Block:
        """The rows of a node with these ordinals, in this order; raises where one of them cannot be made."""
        made = fetching(type(node)).fetch(node, self, indices)
        return made if isinstance(made, Block) else _whole(node, made, indices)

    def point_at(self, node: Node, indices: Indices) -> LateBlock | None:
        """The rows of a node with these ordinals by where they lie; None where that is not to be said."""
        point = fetching(type(node)).point
        return None if point is None else point(node, self, indices)

    def fetch_items(self, node: Node, indices: Indices) -> list[Item]:
        """As `fetch`, with failures in their places; by halves where one fails, one by one where calls count."""
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
        """Whether an operation keeps the order: what it says, else what the options say, else yes."""
        chosen = self.run.options.deterministic if deterministic is None else deterministic
        return chosen is not False or not self.any_order


def _whole(node: Node, items: list[Item], indices: Indices) -> Block:
    """Items as one block; raises the failure among them."""
    blocks = []
    for item in items:
        if isinstance(item, Failure):
            raise item.error
        blocks.append(item)
    differ = structures_differ(blocks, "dataset")
    if differ:  # who asks again, one by one, gets them
        raise node.error(SpecError(differ), int(indices[0]))
    return concat(blocks)
