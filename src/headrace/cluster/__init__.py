"""Workers that run pipelines, for `ds.distribute_over`: on this machine, on others, on Ray or on Dask."""

from headrace.cluster.addresses import addresses
from headrace.cluster.local import local
from headrace.cluster.members import Cluster
from headrace.cluster.on_dask import dask
from headrace.cluster.on_ray import ray

__all__ = ["Cluster", "addresses", "dask", "local", "ray"]
