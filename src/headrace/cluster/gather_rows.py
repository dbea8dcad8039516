"""Gather on the workers of a cluster: each processes some rows, and the results are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from headrace.cluster.jobs import ClusterWork, Job, run_jobs
from headrace.cluster.members import Cluster
from headrace.cluster.parcels import pack_by_value, unpack_by_value
from headrace.cluster.ranges import PlanRanges
from headrace.columns.block import Block
from headrace.core.override import override
from headrace.core.paths import local_only
from headrace.core.types import StrPath
from headrace.errors import StateError
from headrace.execute.state import description, drawn_seeds, with_seeds
from headrace.feature_column.gather import load_gathered, save_gathered
from headrace.feature_column.learners import Arrays, Learner
from headrace.ops.progress import progress_bar
from headrace.ops.with_options import for_pass, merge_options

if TYPE_CHECKING:
    from headrace.dataset import Dataset


@dataclass(frozen=True)
class GatherRows(ClusterWork):
    """Let learners see rows. They are unpickled for each range, so that every range begins with fresh ones."""

    packed: bytes

    @override
    def run(self, rows: Iterator[Block], threads: int) -> tuple[int, list[Arrays]]:
        learners, take = unpack_by_value(self.packed)
        count = 0
        for block in rows:
            take(block)
            count += block.rows
        return count, [learner.arrays() for learner in learners]


def gather_on(
    cluster: Cluster,
    ds: Dataset,
    learners: Sequence[Learner],
    take: Callable[[Block], None],
    *,
    purpose: str,
    task: str,
    state: StrPath | None,
    save_every: float,
    progress: bool | None,
) -> None:
    """Like `gather`, on workers. Learners and `take` are sent as they are before the first row."""
    path = None if state is None else local_only(state, f"{task}(state=)")
    plan = for_pass(ds._node)
    work = GatherRows(pack_by_value((learners, take)))
    place = None if path is None else load_gathered(path, purpose, learners)
    seeds = drawn_seeds(plan) if place is None else place["seeds"]
    epoch = ds._epochs.begin() if place is None else place["epoch"]
    parts = PlanRanges(with_seeds(plan, seeds), any_order=True).parts()
    kept = {"plan": description(plan), "ranges": len(parts), "epoch": epoch, "seeds": seeds}
    if place is not None and any(place.get(name) != each for name, each in kept.items()):
        raise StateError(f"{path} was begun for another dataset, or without a cluster: remove it to begin again")
    done = 0 if place is None else place["done"]
    saved = monotonic()
    jobs = [Job(part, work) for part in parts[done:]]
    with progress_bar(task, ds._node.cardinality, progress) as advance:
        try:
            for rows, found in run_jobs(cluster, jobs, merge_options(plan), epoch):
                for learner, arrays in zip(learners, found, strict=True):
                    learner.merge(arrays)
                done += 1
                advance(rows)
                if path is not None and monotonic() - saved >= save_every:
                    save_gathered(path, purpose, {**kept, "done": done}, learners)
                    saved = monotonic()
        except BaseException:
            if path is not None and done:
                save_gathered(path, purpose, {**kept, "done": done}, learners)
            raise
    if path is not None:
        path.unlink(missing_ok=True)
