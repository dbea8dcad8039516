"""Explain pipelines: the rows of a step, why it is slow, timelines, reports and metrics.

Public names are imported on first use, because every iterator imports `live`. This package knows plans, passes and
operations; iterators and feeds import it, and it does not know trainers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.core.types import Attribute

if TYPE_CHECKING:
    from headrace.observe.flat_metrics import scalars
    from headrace.observe.local_socket import serve_top
    from headrace.observe.measure_headroom import Headroom, headroom
    from headrace.observe.prometheus import export_to_opentelemetry, serve_metrics
    from headrace.observe.ranks import Ranks, gather_ranks, share_rank
    from headrace.observe.rows import SourceRow, SourceRows
    from headrace.observe.verdict import Remedy, Verdict

__all__ = [
    "Headroom",
    "Ranks",
    "Remedy",
    "SourceRow",
    "SourceRows",
    "Verdict",
    "export_to_opentelemetry",
    "gather_ranks",
    "headroom",
    "scalars",
    "serve_metrics",
    "serve_top",
    "share_rank",
]

_HOMES = {
    "Headroom": "measure_headroom",
    "Ranks": "ranks",
    "Remedy": "verdict",
    "SourceRow": "rows",
    "SourceRows": "rows",
    "Verdict": "verdict",
    "export_to_opentelemetry": "prometheus",
    "gather_ranks": "ranks",
    "headroom": "measure_headroom",
    "scalars": "flat_metrics",
    "serve_metrics": "prometheus",
    "serve_top": "local_socket",
    "share_rank": "ranks",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Attribute:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # a function may have the name of its module
        return value
