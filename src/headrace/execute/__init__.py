"""Run a plan: streams of blocks, marks, states, budgets and measurements.

`run.py` is one pass, `registry.py` maps nodes to streams, `context.py` is the only way to a stream's inputs. Threads
live in `stages/`, `pool/` and `processes/`. This package knows no operation, source or format.
"""
