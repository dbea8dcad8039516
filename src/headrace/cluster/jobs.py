"""Run the end of a pipeline on the workers of a cluster: each processes a share of the rows, and returns a result.

A job starts again if its worker is gone, and may then run twice: its files need unique names, which count once the
worker has reported them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, ClassVar, NamedTuple, cast

from headrace.cluster.members import Cluster
from headrace.cluster.parcels import pack_by_value, unpack_by_value
from headrace.cluster.session import Session, SplitStart
from headrace.cluster.splits import Fragment
from headrace.columns.block import Block, Failure
from headrace.core.override import override
from headrace.execute.budget import cpus
from headrace.execute.context import Context
from headrace.execute.registry import opens
from headrace.execute.run import Pass
from headrace.execute.stages.channel import Cancelled
from headrace.execute.stream import END, Made, Stream
from headrace.indexed.range import Range
from headrace.optimize.rules import prepare
from headrace.options import Options
from headrace.plan.cardinality import Cardinality
from headrace.plan.marks import START, At
from headrace.plan.node import TUNING, Node
from headrace.plan.prepared import Prepared
from headrace.plan.spec import Spec, TensorSpec
from headrace.plan.structure import LEAF

ENDING_SECONDS = 4.0
"""How long, after an error, workers may take to finish other jobs before their files are removed."""


class ClusterWork(ABC):
    """Work on rows that is sent to a worker. Some of it `leaves` files behind."""

    leaves: ClassVar[bool] = False

    @abstractmethod
    def run(self, rows: Iterator[Block], threads: int) -> Any:
        """Do the work on up to `threads` threads. The return value is sent back."""

    def undo(self, made: Any) -> None:  # noqa: B027 - most leave nothing behind
        """Remove the result of abandoned work."""


@dataclass(frozen=True, eq=False)
class Job(Node):
    """One row: the result of the work on all rows of the input, as bytes."""

    input: Node
    work: ClusterWork = field(repr=False, metadata=TUNING)

    pure = True

    @property
    def operation(self) -> str:
        return type(self.work).__name__

    @property
    def spec(self) -> Spec:
        return Spec(LEAF, (TensorSpec((), bytes),))

    @property
    def cardinality(self) -> Cardinality:
        return Cardinality(1)


@opens(Job)
class JobStream(Stream):
    """Do the work on the first pull."""

    @override
    def __init__(self, node: Job, ctx: Context, at: At) -> None:  # a place is a number
        self._node = node
        self._ctx = ctx
        self._done = False

    @override
    def pull(self, want: int) -> Made:
        if self._done:
            return END
        self._done = True
        made = self._node.work.run(self._rows(), self._ctx.run.options.cpu_budget or cpus())
        if self._ctx.run.cancelled:
            self._node.work.undo(made)
            raise Cancelled
        return Block(LEAF, [[pack_by_value(made)]], 1)

    def _rows(self) -> Iterator[Block]:
        rows = self._ctx.open(self._node.input, flush=True)
        pace = self._ctx.run.pace()
        while True:
            began = perf_counter_ns()
            item = rows.pull(pace.rows)
            if self._ctx.run.cancelled:  # then the end that came may be none
                raise Cancelled
            if item is END:
                return
            pace.observe(item, perf_counter_ns() - began)
            if isinstance(item, Failure):
                raise item.error.copy()
            yield item


def lone_job(work: ClusterWork) -> Job:
    """Return a job that needs no rows."""
    return Job(Range(0, 0), work)


class Jobs(NamedTuple):
    """What workers get: plans of one row each, under the numbers of splits."""

    plans: tuple[Node, ...]

    @property
    def plan(self) -> Node:
        """One like the others."""
        return self.plans[0]

    @property
    def splits(self) -> int:
        """Return how many there are."""
        return len(self.plans)

    def split(self, index: int) -> Node:
        """Return one of them."""
        return self.plans[index]


def run_jobs(cluster: Cluster, jobs: Sequence[Node], options: Options, epoch: int = 0) -> Iterator[Any]:
    """Yield the result of each job, in order; a job that raises ends them all.

    About as many run as there are workers: a job is not abandoned half-way for another worker to repeat.
    """
    if not isinstance(cluster, Cluster):
        raise TypeError(f"cluster= takes a cluster, such as hr.cluster.local(4), not {cluster!r}")
    if not jobs:
        return
    run = Pass(prepare, options=options)
    ctx = run.context(Prepared.of(jobs[0])).epoch(epoch)
    fragment = cast(Fragment, Jobs(tuple(jobs)))  # which has the same interface
    ending = ENDING_SECONDS if any(isinstance(job, Job) and job.work.leaves for job in jobs) else 0.0
    session = Session(fragment, "jobs", cluster, ctx, jobs[0], len(jobs), ending_seconds=ending)
    try:
        for number in range(len(jobs)):
            _begin_more(session, cluster, number, len(jobs))
            item = session.take(number, 1)
            if isinstance(item, Failure):
                raise item.error.copy()
            assert isinstance(item, Block)
            (made,) = item.columns[0]
            yield unpack_by_value(made) if isinstance(made, bytes) else made
    finally:
        session.close()
        run.close()


def _begin_more(session: Session, cluster: Cluster, number: int, count: int) -> None:
    """Start a job for every worker, some of which may be new; the session begins the next by itself."""
    known = session.status()["splits"]
    under_way = sum(not split["over"] for split in known)
    wanted = max(2, len(cluster.members()))
    following = max((split["split"] for split in known), default=number - 1) + 1
    for each in range(following, min(count, following + max(wanted - under_way, following == number))):
        session.expect(each, SplitStart(START, 0))
