"""Runs of equal numbers, for headrace: what another package adds, by nothing but `headrace.extend`."""

from headrace_runs.drop_every import drop_every
from headrace_runs.from_runs import from_runs
from headrace_runs.lists import ListFeed
from headrace_runs.running_sum import running_sum
from headrace_runs.runs import RunsDataset

__all__ = ["ListFeed", "RunsDataset", "drop_every", "from_runs", "running_sum"]
