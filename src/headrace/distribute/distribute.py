"""The share of one process in data-parallel training: the same number of steps for all, in one shared order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.columns.block import Block, Failure, Item, concat, fold, folded
from headrace.distribute.balance import Balance, Cost, Deal
from headrace.distribute.broadcast import Broadcast, ProcessGroup
from headrace.distribute.context_slice import ContextOrder, ContextSlice
from headrace.distribute.meshes import MeshShare, share_of_mesh
from headrace.distribute.ranks import Rank, rank_of
from headrace.distribute.shard_files import deal_files, share_of_files
from headrace.distribute.shares import ShareMark, open_share
from headrace.errors import ElementError
from headrace.execute.registry import opens
from headrace.execute.state import require_seeds
from headrace.ops.shared.arguments import integer, one_of, positive
from headrace.ops.shared.batching import stack_items
from headrace.ops.shared.row_sizes import size_arguments
from headrace.plan.cardinality import Cardinality
from headrace.plan.node import TUNING, Node, obstacle
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF, tuple_of

if TYPE_CHECKING:
    from headrace.dataset import Dataset

Uneven = Literal["drop", "pad", "wrap"]
"""How to handle the last step of an epoch if there are not enough elements for all processes."""


def distribute(
    self: Dataset,
    rank: int | None = None,
    world_size: int | None = None,
    batch_size: int | None = None,
    uneven: Uneven = "drop",
    *,
    shard_files: bool | Literal["auto"] = False,
    balance: Callable[..., object] | str | int | None = None,
    cost: Cost = "linear",
    window: int = 1,
    mesh: object = None,
    context: ContextOrder = "contiguous",
    context_axis: int | None = None,
    context_fields: Sequence[object] | None = None,
    broadcast: bool = False,
    name: str | None = None,
) -> Dataset:
    """Keep the share of process `rank` of `world_size`: at every step each process gets the next `batch_size` elements.

    All processes have the same number of steps, whatever comes before: if elements have no numbers (after a filter),
    each process reads and counts all of them. Without a `batch_size` a step is one element. Rank and world size are
    those of torch.distributed, of JAX, or of RANK and WORLD_SIZE, unless they are given; without any of these, this
    process gets all elements, and a warning says so.

    If the last step of an epoch is short of elements, `uneven="drop"` leaves it out, and all processes raise the
    error of an element in it that fails; "wrap" fills it up with the first elements of the epoch; with "pad" every
    element is a pair `(batch, mask)`, filled up with copies for which the mask is False, so that each element counts
    once.

    A state holds the position of all processes: it can be restored with another world size and another batch size, and
    the rest of the epoch comes in the same order. `hr.merge_states` is for processes at different steps.

    With `shard_files="auto"` each process reads its own files, every `world_size`-th. This needs at least as many files
    as processes, that their rows are counted (`headrace index`, Parquet, fixed-length records), and that no operation
    before it depends on the rows of all files. Otherwise elements are dealt out as usual, and `explain()` says why;
    `shard_files=True` raises that instead. The order of the elements, and a state, then belong to the world size.

    With `balance` the elements of every `window` steps are dealt so that each step costs all processes nearly the same.
    `balance` says how large an element is: a function, or the key of a component, whose first axis is counted (a number
    is taken as it is). `cost="quadratic"` is for attention. Every process reads all elements of the window to learn
    their sizes. The order of elements then depends on the world size; a state can still be restored with another one,
    and no element is lost or comes twice.

    With `mesh` this process gets the share of its place in it: a torch `DeviceMesh` with dimension names, a JAX `Mesh`
    or `NamedSharding`, or `(rank, world_size, {"dp": 2, "tp": 4})` with the last name fastest. Processes that differ in
    tensor-, pipeline- or expert-parallel dimensions only get the same rows. Context-parallel ones ("cp") get a part of
    each sequence: of `context_fields`, or of all components that have `context_axis` (by default 1 with a `batch_size`,
    else 0), one piece, or with `context="zigzag"` two that make causal attention cost the same for all. With
    `broadcast=True` one process of those with the same rows reads, and sends them to the others by torch.distributed;
    call `distribute` in all processes then.

    Args:
        rank: Number of this process. Default: that of torch.distributed, JAX or `RANK`.
        world_size: Number of processes. Default: that of torch.distributed, JAX or `WORLD_SIZE`.
        batch_size: Number of elements each process gets per step. Default: one, unbatched.
        uneven: What to do if the last step is short: "drop", "pad" or "wrap".
        shard_files: Whether each process reads files of its own; "auto" does if possible.
        balance: Size of an element, by which steps are balanced: a function, or the key of a component.
        cost: How the cost of an element grows with its size: "linear" or "quadratic".
        window: Number of steps whose elements are balanced together.
        mesh: Device mesh that gives this process its share, instead of `rank` and `world_size`.
        context: Which part of a sequence context-parallel processes get: "contiguous" or "zigzag".
        context_axis: Axis of the sequence. Default: 1 with a `batch_size`, else 0.
        context_fields: Components that are cut along the sequence. Default: all that have the axis.
        broadcast: Whether one process of a group reads and sends the rows to the others.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

    >>> ds = hr.Dataset.range(8)
    >>> [list(ds.distribute(mesh=(rank, 4, {"dp": 2, "tp": 2}), batch_size=2)) for rank in (0, 1, 2)]
    [[array([0, 1]), array([4, 5])], [array([0, 1]), array([4, 5])], [array([2, 3]), array([6, 7])]]
    >>> costs = hr.Dataset.from_tensor_slices([9, 1, 8, 2, 5, 5])
    >>> [list(costs.distribute(rank, 2, 3, balance=lambda cost: cost)) for rank in (0, 1)]
    [[array([9, 1, 5])], [array([8, 2, 5])]]
    >>> ds = hr.Dataset.range(10)
    >>> [list(ds.distribute(rank, 2, batch_size=2)) for rank in (0, 1)]
    [[array([0, 1]), array([4, 5])], [array([2, 3]), array([6, 7])]]
    >>> list(ds.distribute(1, 2, batch_size=2, uneven="pad"))[-1]
    (array([8, 8]), array([False, False]))
    """
    one_of("uneven", uneven, Uneven)
    size = None if batch_size is None else positive("batch_size", batch_size)
    placed = None if mesh is None else _mesh_share(mesh, rank, world_size)
    share = rank_of(rank, world_size) if placed is None else Rank(placed.rank, placed.world_size)
    if placed is not None:
        one_of("context", context, ContextOrder)
        axis = integer("context_axis", context_axis) if context_axis is not None else int(size is not None)
        fields = None if context_fields is None else tuple(context_fields)
        local = self.distribute(
            *share, batch_size, uneven, shard_files=shard_files, balance=balance, cost=cost, window=window, name=name
        )
        if broadcast:
            local = local._then(Broadcast, _process_group(placed))
        if placed.context_size > 1:
            local = local._then(ContextSlice, placed.context_rank, placed.context_size, context, axis, fields)
        return local
    if broadcast:
        raise ValueError("broadcast=True needs a mesh, which says which processes get the same rows")
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
    if balance is not None:
        one_of("cost", cost, Cost)
        fn, key = size_arguments("distribute", "balance", balance, self._node.spec)
        deal = Deal(share.world_size, size or 1, positive("window", window))
        self = self._then(Balance, fn, key, cost, deal)
    return self._then(Distribute, *share, size, uneven, reason, name=name)


def _mesh_share(mesh: object, rank: int | None, world_size: int | None) -> MeshShare:
    if rank is not None or world_size is not None:
        raise ValueError("give a mesh, or rank and world_size, not both")
    return share_of_mesh(mesh)


def _process_group(placed: MeshShare) -> ProcessGroup:
    if placed.groups is None:
        raise ValueError("broadcast=True is for meshes of torch.distributed, not of JAX")
    return ProcessGroup(placed.groups)


@dataclass(frozen=True, eq=False)
class Distribute(Node):
    """Keep one process's part of every `world_size` × `batch_size` rows. A state may be restored under other sizes."""

    follows_device = True

    input: Node
    rank: int = field(metadata=TUNING)
    world_size: int = field(metadata=TUNING)
    batch_size: int | None = field(metadata=TUNING)
    uneven: Uneven
    file_obstacle: str | None = field(default=None, repr=False, metadata=TUNING)
    """Why no process has its own files, if that was requested."""

    positional = False

    @property
    def process(self) -> tuple[int, int, int]:
        return self.rank, self.world_size, self.share

    @property
    def share(self) -> int:
        """Return how many rows of a step belong to this process."""
        return self.batch_size or 1

    @property
    def together(self) -> int:
        """Return how many rows a step of all processes takes."""
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
        """Return every `size` rows of a block as one, or why not."""
        return block if self.batch_size is None else fold(block, size)

    def files_held(self) -> str | None:
        """Whose rows these are: a state may be resumed elsewhere, stored rows may not."""
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
        """Return rows of whole steps, the first of them the `number`-th, as steps; `real` says which rows are no
        filling.
        """
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
"""Folded into the path of a filled-up step's id, because its first row may have come before."""
