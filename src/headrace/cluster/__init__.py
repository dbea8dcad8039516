"""Workers that run parts of a pipeline elsewhere: on this machine, on others, on Ray or on Dask.

Import `distribute_over` and the constructors of clusters. It knows plans, passes and iterators; it does not know
adapters or catalogues.
"""

from headrace.cluster.addresses import addresses
from headrace.cluster.local import local
from headrace.cluster.members import Cluster
from headrace.cluster.on_dask import dask
from headrace.cluster.on_ray import ray

__all__ = ["Cluster", "addresses", "dask", "local", "ray"]
