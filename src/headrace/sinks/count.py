"""Count elements by skipping them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.cluster.jobs import run_jobs
from headrace.cluster.members import Cluster
from headrace.cluster.ranges import PlanRanges
from headrace.execute.budget import cpus
from headrace.execute.run import Pass
from headrace.formats.shared.many_files import Files
from headrace.ops.shared.count_rows import CountRows
from headrace.ops.with_options import for_pass, merge_options
from headrace.optimize.rules import prepare
from headrace.options import Options
from headrace.plan.capabilities import require_end
from headrace.plan.node import Node

if TYPE_CHECKING:
    from headrace.dataset import Dataset

ROWS_PER_SKIP = 1 << 15


def count(self: Dataset, *, cluster: Cluster | None = None) -> int:
    """Count the elements of a pass, including elements that fail.

    Records of files are read and their checksums verified, but no Python objects are made of them. With a `cluster` its
    workers count, each its splits.

    Args:
        cluster: Workers that count. Default: this process.

    >>> hr.Dataset.range(10).filter(lambda x: x % 3 == 0).count()
    4
    """
    node, options = self._node, merge_options(self._node)
    require_end(node, "count")
    if cluster is not None:
        jobs = [CountRows(part) for part in PlanRanges(for_pass(node), any_order=True).parts()]
        return sum(map(int, run_jobs(cluster, jobs, options)))
    if not isinstance(node, Files) or node.files is None or node.on_error is not None:
        return _rows(node, options)
    with ThreadPoolExecutor(options.cpu_budget or cpus()) as threads:  # the kernels that read hold no lock
        return sum(threads.map(lambda name: _rows(node.fn(name), options), node.files.names))


def _rows(node: Node, options: Options) -> int:
    run = Pass(prepare, options=options)
    try:
        run.open(run.context(prepare(node)).epoch(0), flush=False)
        while run.root.skip(ROWS_PER_SKIP) == ROWS_PER_SKIP:
            pass
        return run.root.ordinal
    finally:
        run.close()
