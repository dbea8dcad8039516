"""Reports: `it.report("run.html")`, one self-contained page about a pass, or `run.json` to make pages of later."""

from __future__ import annotations

import json
import os
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.paths import local_only
from headrace.core.types import JsonObject
from headrace.errors import HeadraceError
from headrace.observe.live import snapshot
from headrace.observe.ranks import Ranks, gather_ranks
from headrace.observe.recorder import Recorder
from headrace.observe.trace import write_trace
from headrace.physical.explain import explanation

if TYPE_CHECKING:
    from headrace.iterator import Iterator

FORMAT = 1
SLOWEST = 10
"""How many of the slowest calls a report names."""
MAX_REPORTS = 2
"""How many runs one page can compare."""


def record(self: Iterator, interval_seconds: float = 0.1, *, calls: bool = False) -> None:
    """Record a timeline of this pass from now on, for `report`.

    A thread samples what the stages have counted. The buffer has a fixed size: the interval grows with the run.

    Args:
        interval_seconds: The time between two samples at first.
        calls: Time single calls too: the report then has quantiles for each stage, and the file and number of the
            slowest records. That takes some microseconds for each block, and for each row of a Python function. It
            begins with the next opening of the pipeline, so ask before the first element.

    >>> it = iter(hr.Dataset.range(100).batch(10))
    >>> it.record()
    >>> _ = list(it)
    >>> it.close()
    """
    if not interval_seconds > 0:
        raise ValueError(f"interval_seconds must be positive, not {interval_seconds}")
    if self._recorder is None:
        self._recorder = Recorder(self, interval_seconds, calls=calls)


def report(
    self: Iterator,
    path: str | os.PathLike[str],
    *,
    align_with: str | os.PathLike[str] | None = None,
    ranks: str | os.PathLike[str] | None = None,
) -> None:
    """Write what this pass has done so far: verdict, plan with loads, timeline, stages, memory.

    Args:
        path: The file. `.html` is a page that needs no network; `.json` is a record, of which `headrace report` makes
            pages and comparisons; `.trace.json` is a timeline for Perfetto and Chrome.
        align_with: For `.trace.json`, a trace that `torch.profiler` wrote: both then have one time axis.
        ranks: A folder to which all processes have written with `hr.observe.share_rank`: the page then has a heat map
            of their waiting, and names the straggler.

    Raises:
        ValueError: The name of the file ends in something else, or is a URL.

    >>> it = iter(hr.Dataset.range(100).batch(10))
    >>> _ = list(it)
    >>> it.report(folder / "run.html")
    >>> (folder / "run.html").read_text().startswith("<!doctype html>")
    True
    """
    target = local_only(path, "report")
    made = record_of(self)
    if ranks is not None:
        made["ranks"] = _ranks(gather_ranks(ranks))
    if target.name.endswith(".trace.json"):
        write_trace(made, target, None if align_with is None else Path(align_with))
    elif target.suffix == ".json":
        target.write_text(json.dumps(made, default=str))
    elif target.suffix == ".html":
        target.write_text(page([made]))
    else:
        raise ValueError(f"report writes .html, .json or .trace.json, not {target.name}")


def record_of(it: Iterator) -> JsonObject:
    """All that a report shows of a pass, as plain values."""
    if it._recorder is not None:
        it._recorder.take(it)
    verdict = it.why_slow()
    found = snapshot(it)
    return {
        **found,
        "headrace_report": FORMAT,
        "written": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "verdict": {
            "sentence": verdict.sentence,
            "text": str(verdict),
            "remedies": [str(remedy) for remedy in verdict.remedies],
        },
        "slowest": _slowest(it),
        "explanation": str(explanation(it._course.plan)),
        "samples": [] if it._recorder is None else it._recorder.samples(),
    }


def _slowest(it: Iterator) -> list[JsonObject]:
    """The slowest calls, with the record of a file that the first of their rows came from, if there is one."""
    return [
        {"seconds": seconds, "rows": rows, "stage": stage, "record": origin.find()}
        for seconds, rows, stage, origin in it._slowest()[:SLOWEST]
    ]


def _ranks(found: Ranks) -> JsonObject:
    return {
        "text": str(found),
        "straggler": found.straggler,
        "names": [f"rank {each['rank']}" for each in found.processes],
        "waiting": found.waiting_shares(),
        "steps": found.steps,
    }


def load_record(path: Path) -> JsonObject:
    """A record that `report` wrote as JSON."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or found.get("headrace_report") != FORMAT:
        raise HeadraceError(f"{path} is no record that it.report('run.json') wrote")
    return found


def page(records: list[JsonObject], names: list[str] | None = None) -> str:
    """One self-contained HTML page about a record, or a comparison of two."""
    if not 1 <= len(records) <= MAX_REPORTS:
        raise ValueError(f"a page shows one or {MAX_REPORTS} records, not {len(records)}")
    data = {"records": records, "names": names or [f"run {i + 1}" for i in range(len(records))]}
    template = files("headrace.observe").joinpath("report_page.html").read_text(encoding="utf-8")
    embedded = json.dumps(data, default=str).replace("<", "\\u003c")  # no text of a pipeline can end the script
    return template.replace("{{DATA}}", embedded)
