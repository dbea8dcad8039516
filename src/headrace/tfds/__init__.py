"""Datasets prepared by TensorFlow Datasets, without TensorFlow: `hr.tfds.load("mnist", split="train")`."""

from headrace.tfds import decode, features
from headrace.tfds.builder import (
    ReadOnlyBuilder,
    builder,
    builder_from_directory,
    list_builders,
)
from headrace.tfds.builder import load_prepared as load
from headrace.tfds.info import DatasetInfo, SplitInfo
from headrace.tfds.splits import ReadInstruction, even_splits
from headrace.tfds.versions import Version

__all__ = [
    "DatasetInfo",
    "ReadInstruction",
    "ReadOnlyBuilder",
    "SplitInfo",
    "Version",
    "builder",
    "builder_from_directory",
    "decode",
    "even_splits",
    "features",
    "list_builders",
    "load",
]
