"""Assign whole files to each process: no two processes read the same file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.distribute.ranks import Rank
from headrace.plan.capabilities import ReadsFiles, provides
from headrace.plan.datasets import dataset_of
from headrace.plan.node import Moves, Node, rewrite

if TYPE_CHECKING:
    from headrace.dataset import Dataset


class FileShare(NamedTuple):
    """The rows of the files of one process, and how many each process has."""

    rows: Node
    counts: tuple[int, ...]


def share_of_files(plan: Node, share: Rank, uneven: str) -> FileShare | str:
    """Return the plan over the files of one process, every `world_size`-th of them; or why that cannot be."""
    node, known = plan, _rows_of_files(plan)
    while known is None and len(node.inputs) == 1:
        (below,) = node.inputs
        if not (node.divides and (node.transparent or node.one_to_one or node.moves is Moves.FAR)):
            return f"{node.operation} ({node.site}) goes by the rows of all files"
        node, known = below, _rows_of_files(below)
    if known is None:
        return f"{node.operation} ({node.site}) reads no files that are known by name"
    if isinstance(known, str):
        return f"processes have equal steps only if the rows of each file are counted: {known}"
    if len(known) < share.world_size:
        return f"there are {len(known)} files for {share.world_size} processes"
    counts = tuple(sum(known[rank :: share.world_size]) for rank in range(share.world_size))
    if uneven != "drop" and not min(counts):
        return "there are no rows in the files of some process"
    source, part = node, slice(share.rank, None, share.world_size)
    assert provides(node, ReadsFiles)
    some = node.with_files(part)
    mine = rewrite(plan, lambda found: some if found is source else found)
    return FileShare(mine, counts)


def _rows_of_files(node: Node) -> tuple[int, ...] | str | None:
    return node.rows_of_files() if provides(node, ReadsFiles) else None


def deal_files(share: FileShare, rank: int, batch_size: int | None, uneven: str, name: str | None) -> Dataset:
    """Return as many steps of one process's files as all others have of theirs."""
    size, counts = batch_size or 1, share.counts
    rows = dataset_of(share.rows)
    if uneven == "drop":
        steps = min(counts) // size
        return (rows if batch_size is None else rows.batch(size, drop_remainder=True)).take(steps, name=name)
    steps = -(-max(counts) // size)
    again = rows.repeat() if counts[rank] < steps * size else rows
    made = (again if batch_size is None else again.batch(size, drop_remainder=True)).take(steps, name=name)
    if uneven == "wrap":
        return made
    within = np.arange(size) if batch_size is not None else np.int64(0)
    mine = counts[rank]
    return made.enumerate().map(lambda step, row: (row, step * size + within < mine))
