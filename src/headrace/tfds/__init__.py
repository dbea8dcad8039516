"""Datasets prepared by TensorFlow Datasets, read and written without TensorFlow.

Import `load` and `builder`. It knows formats, sources and sinks; it does not know the catalogue.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.tfds import core, decode, download, features
from headrace.tfds.builder import (
    ReadOnlyBuilder,
    builder,
    builder_from_directory,
    data_source,
    list_builders,
)
from headrace.tfds.builder import load_prepared as load
from headrace.tfds.habits import (
    ReadConfig,
    Split,
    as_dataframe,
    as_numpy,
    disable_progress_bar,
    enable_progress_bar,
    split_for_jax_process,
)
from headrace.tfds.info import DatasetInfo, SplitInfo
from headrace.tfds.splits import ReadInstruction, even_splits
from headrace.tfds.versions import Version

__all__ = [
    "DatasetInfo",
    "ReadConfig",
    "ReadInstruction",
    "ReadOnlyBuilder",
    "Split",
    "SplitInfo",
    "Version",
    "as_dataframe",
    "as_numpy",
    "builder",
    "builder_from_directory",
    "core",
    "data_source",
    "decode",
    "disable_progress_bar",
    "download",
    "enable_progress_bar",
    "even_splits",
    "features",
    "list_builders",
    "load",
    "split_for_jax_process",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.tfds", name)
