"""Datasets by name and version: made here, shared as folders, pinned by a lock file."""

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
