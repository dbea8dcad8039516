"""The share of one process in data-parallel training: as many steps as every other, in one order that all share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.block import Block, Failure, Item, concat, fold, folded
from headrace.errors import ElementError
from headrace.execute.registry import opens
from headrace.execute.state import require_seeds
from headrace.ops.arguments import one_of, positive
from headrace.ops.batching import stack_items
from headrace.ops.ranks import rank_of
from headrace.ops.shard_files import deal_files, share_of_files
from headrace.ops.shares import ShareMark, open_share
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import TUNING, Node, obstacle
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF, tuple_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Uneven = Literal["drop", "pad", "wrap"]
"""What becomes of the last step of an epoch, if there are not enough elements for all processes."""


def distribute(
    self: Dataset,
    rank: int | None = None,
    world_size: int | None = None,
    batch_size: int | None = None,
    uneven: Uneven = "drop",
    *,
    shard_files: bool | Literal["auto"] = False,
    name: str | None = None,
) -> Dataset:
    """The share of process `rank` of `world_size`: at every step the next `batch_size` elements go to each in turn.

    All processes have the same number of steps, whatever comes before: where elements have no numbers (behind a filter)
    each process reads all of them and counts. Without a `batch_size` a step is one element. Rank and world size are
    those of torch.distributed, of JAX, or of RANK and WORLD_SIZE, unless they are given; without any of these, this
    process gets all elements, and a warning says so.

    Where the last step of an epoch is short of elements, `uneven="drop"` leaves it out, and all processes raise the
    error of an element in it that fails; "wrap" fills it up with the first elements of the epoch; with "pad" every
    element is a pair `(batch, mask)`, filled up with copies where the mask is False, so that each element counts once.

    A state holds where all processes stand: it can be restored with another world size and another batch size, and the
    rest of the epoch comes in the same order. `hr.merge_states` is for processes that stand at different steps.

    With `shard_files="auto"` each process opens files of its own, every `world_size`-th, and no other reads them: where
    there are as many files as processes, their rows are counted (`headrace index`, Parquet, fixed-length records), and
    nothing before it goes by the rows of all files. Otherwise elements are dealt out as ever, and `explain()` says why;
    `shard_files=True` raises that instead. The order of the elements, and a state, then belong to the world size.

    >>> ds = hr.Dataset.range(10)
    >>> [list(ds.distribute(rank, 2, batch_size=2)) for rank in (0, 1)]
    [[array([0, 1]), array([4, 5])], [array([2, 3]), array([6, 7])]]
    >>> list(ds.distribute(1, 2, batch_size=2, uneven="pad"))[-1]
    (array([8, 8]), array([False, False]))
    """
    one_of("uneven", uneven, Uneven)
    size = None if batch_size is None else positive("batch_size", batch_size)
    share = rank_of(rank, world_size)
    reason = None
    if shard_files and share.world_size > 1:
        found = share_of_files(self._node, share, uneven)
        if not isinstance(found, str):
            return deal_files(found, share.rank, size, uneven, name)
        if shard_files != "auto":
            raise ValueError(f'shard_files: {found} (shard_files="auto" deals out elements then)')
        reason = found
    if share.world_size > 1:
        require_seeds(self._node, f"{share.world_size} processes share this dataset")
    return self._then(Distribute, *share, size, uneven, reason, name=name)


@dataclass(frozen=True, eq=False)
class Distribute(Node):
    """Of every `world_size` × `batch_size` rows those of one process. A state may be restored under other sizes."""

    input: Node
    rank: int = field(metadata=TUNING)
    world_size: int = field(metadata=TUNING)
    batch_size: int | None = field(metadata=TUNING)
    uneven: Uneven
    file_obstacle: str | None = field(default=None, repr=False, metadata=TUNING)
    """Why no process has files of its own, where that was asked for."""

    positional = False

    @property
    def process(self) -> tuple[int, int, int]:
        return self.rank, self.world_size, self.share

    @property
    def share(self) -> int:
        """How many rows of a step are this process's."""
        return self.batch_size or 1

    @property
    def together(self) -> int:
        """How many rows a step of all processes takes."""
        return self.share * self.world_size

    @property
    def spec(self) -> Spec:
        rows = self.input.spec if self.batch_size is None else self.input.spec.with_leading_axis(self.batch_size)
        mask = TensorSpec(() if self.batch_size is None else (self.batch_size,), np.bool_)
        return Spec.tuple_of([rows, Spec(LEAF, (mask,))]) if self.uneven == "pad" else rows

    @property
    def cardinality(self) -> Cardinality:
        return self.input.cardinality.in_groups(self.together, up=self.uneven != "drop")

    @property
    def drops_rows(self) -> bool:
        return self.uneven == "drop" and not self.input.cardinality.fills(self.together)

    def assemble(self, block: Block, size: int) -> Block | str:
        """Every `size` rows of a block as one, or why not."""
        return block if self.batch_size is None else fold(block, size)

    def files_held(self) -> str | None:
        """Whose rows these are: a state may go on elsewhere, stored rows may not."""
        return "process {} of {}, {} a step".format(*self.process)

    def remark(self) -> str | None:
        blocker = obstacle(self.input)
        said = [] if self.file_obstacle is None else [f"elements are dealt out, not files: {self.file_obstacle}"]
        if blocker is not None and self.world_size > 1:
            said.append(f"every process reads all of its input: rows have no numbers behind {blocker.operation}")
        return "; ".join(said) or None

    def index_remedy(self) -> str:
        return "index before it: its elements belong to one process"

    def step_of(self, parts: list[Item], number: int, real: NDArray[np.bool_] | None = None) -> Item:
        """Rows of whole steps, the first of them the `number`-th, as steps; `real` says which rows are no filling."""
        try:
            if self.batch_size is None and all(isinstance(part, Block) for part in parts):
                made = concat([part for part in parts if isinstance(part, Block)])
            else:
                made = stack_items(self, parts, self.share, number)
        except ElementError as error:
            return Failure(error)
        if real is not None:
            made.ids = folded(made.ids, FILLED)
        if self.uneven == "pad":
            mask = np.ones(made.rows * self.share, np.bool_) if real is None else real
            shaped = mask if self.batch_size is None else mask.reshape(made.rows, self.share)
            structure = tuple_of([made.structure, LEAF])
            made = Block(structure, [*made.columns, shaped], made.rows, None, made.ids)
        return made


opens(Distribute, own=ShareMark)(open_share)

FILLED = 5
"""Folded into the path of the id of a step that was filled up: its first row may have been one before."""
