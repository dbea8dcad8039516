"""The thread pool: one per process, shared by all passes.

`scheduler.py` has the worker threads, `window.py` the morsels of one stream in order. Import `Window` and `Morsel` from
here. Nothing in this package knows nodes, plans or file formats: a morsel is anything with a `step` method.
"""

from headrace.execute.pool.policy import TINY_CUTS, ScanPolicy
from headrace.execute.pool.scheduler import Pool, pool
from headrace.execute.pool.window import FIRST_MORSELS_AHEAD, Limits, Morsel, Window, most_ahead

__all__ = [
    "FIRST_MORSELS_AHEAD",
    "TINY_CUTS",
    "Limits",
    "Morsel",
    "Pool",
    "ScanPolicy",
    "Window",
    "most_ahead",
    "pool",
]
