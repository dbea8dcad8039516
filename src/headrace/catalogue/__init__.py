"""Datasets by name and version: built here, shared as folders, pinned by a lock file.

Import `load_named` and `dataset`. It knows `tfds`, sinks and sources; it does not know the engine.
"""

from headrace.catalogue.builder import DatasetBuilder
from headrace.catalogue.evolution import VersionError
from headrace.catalogue.folders import add, remove, write_index
from headrace.catalogue.load import find_builder, list_datasets, lock_dataset, search
from headrace.catalogue.sources import SourceFile
from headrace.tfds.staging import BuildError

__all__ = [
    "BuildError",
    "DatasetBuilder",
    "SourceFile",
    "VersionError",
    "add",
    "find_builder",
    "list_datasets",
    "lock_dataset",
    "remove",
    "search",
    "write_index",
]
