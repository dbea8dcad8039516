"""All processes of a training run together: each writes its numbers to a folder, one reads them all."""

from __future__ import annotations

import json
import os
import posixpath
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.core.paths import refuse_shortened_url
from headrace.core.types import JsonObject
from headrace.errors import HeadraceError
from headrace.execute.state import process_of
from headrace.formats.shared.files import as_path, local_path, read_all, write_whole
from headrace.io import gfile
from headrace.observe.flat_metrics import flat
from headrace.observe.live import snapshot
from headrace.observe.recorder import sample_of
from headrace.remote.redact import show_path

if TYPE_CHECKING:
    from headrace.iterator import Iterator

COLUMNS = 60
"""Columns of the heat map."""


@dataclass(frozen=True)
class Ranks:
    """The numbers of all processes. Prints one line per process and names the straggler.

    Attributes:
        processes: What each process wrote, by rank.
    """

    processes: tuple[JsonObject, ...]

    @property
    def straggler(self) -> int:
        """The rank that waited for data the most. The others then wait for it where gradients are exchanged."""
        slowest = max(self.processes, key=lambda each: each["scalars"]["waited_s"])
        return int(slowest["rank"])

    def waiting_shares(self) -> list[list[float]]:
        """For each rank, the share of time that it waited for data, in equal parts of the steps of all ranks.

        Steps and not times are compared: clocks of machines differ, and a step is where ranks wait for each other.
        """
        samples = [each["samples"] for each in self.processes]
        edges = np.linspace(0, self.steps, COLUMNS + 1)
        return [_shares(each, edges) for each in samples] if self.steps else []

    @property
    def steps(self) -> int:
        """How many steps the rank has done that has done the most."""
        return max((int(s[-1]["delivered"]) for each in self.processes if (s := each["samples"])), default=0)

    def __str__(self) -> str:
        lines = [
            f"rank {each['rank']} on {each['host']}: {each['scalars']['delivered']:,.0f} elements, waited "
            f"{each['scalars']['waited_s']:.2f} s ({each['scalars']['starved_share']:.0%})"
            for each in self.processes
        ]
        return "\n".join([*lines, f"the straggler is rank {self.straggler}"])


def _shares(samples: list[JsonObject], edges: NDArray[np.float64]) -> list[float]:
    """The share of waiting between these steps; 0 where nothing was recorded."""
    steps = [0.0, *(s["delivered"] for s in samples)]
    waited, computed = (
        np.diff(np.interp(edges, steps, [0.0, *(s[name] for s in samples)])) for name in ("waited_s", "computed_s")
    )
    spent = waited + computed
    return [float(share) for share in np.divide(waited, spent, out=np.zeros_like(spent), where=spent > 0)]


def share_rank(it: Iterator, folder: str | os.PathLike[str], rank: int | None = None) -> None:
    """Write what this process has done so far to a folder that all processes of the run share.

    Args:
        it: The iterator of this process; after `it.record()` its timeline is part of it.
        folder: A folder, or a URL of one; it is made if it is missing. Each rank has one file in it, which is replaced.
        rank: The rank of this process. By default that of `ds.distribute(rank, …)`.

    Raises:
        ValueError: The rank is not given, and the dataset is not distributed.

    >>> it = iter(hr.Dataset.range(8).distribute(1, 2, batch_size=2))
    >>> _ = list(it)
    >>> hr.observe.share_rank(it, folder)
    >>> hr.observe.gather_ranks(folder).straggler
    1
    """
    it = getattr(it, "_iterator", it)
    if rank is None:
        share = process_of(it._course.plan)
        if share is None:
            raise ValueError("share_rank needs a rank: the dataset is not distributed")
        rank = share[0]
    found = snapshot(it)
    samples = [sample_of(found)] if it._recorder is None else it._recorder.samples()
    made = {"rank": rank, "host": socket.gethostname(), "scalars": flat(found, ""), "samples": samples}
    refuse_shortened_url(folder, "share_rank")
    name = as_path(folder)
    local = local_path(name)
    if local is not None:
        Path(local).mkdir(parents=True, exist_ok=True)
    write_whole(posixpath.join(name, f"rank-{rank:05}.json"), [json.dumps(made).encode()])


def gather_ranks(folder: str | os.PathLike[str]) -> Ranks:
    """Read what all processes have written with `share_rank`.

    Args:
        folder: The folder that they share, or its URL.

    Returns:
        Ranks, which prints one line a process and names the straggler.

    Raises:
        HeadraceError: No process has written anything.
    """
    refuse_shortened_url(folder, "gather_ranks")
    name = as_path(folder)
    local = local_path(name)
    if local is None:
        files = gfile.glob(posixpath.join(name, "rank-*.json"))
    else:
        files = sorted(map(str, Path(local).glob("rank-*.json")))
    found = [json.loads(read_all(file)) for file in files]
    if not found:
        raise HeadraceError(f"no process has called hr.observe.share_rank for {show_path(name)}")
    return Ranks(tuple(sorted(found, key=lambda each: each["rank"])))
