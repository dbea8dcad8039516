"""The physical plan: which strategy runs each part of a logical plan.

`lower.py` is the only place where a strategy is chosen. `cuts.py` says how sources are cut into morsels, `scan.py` is
the operator that runs a pipeline on them in parallel. This package knows operations and sources; no operation and no
source knows this package.
"""
