"""headrace: tf.data without TensorFlow.

>>> import headrace as hr
>>> ds = hr.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [0, 1, 0])).batch(2)
>>> for features, labels in ds:
...     print(features, labels)
[1. 2.] [0 1]
[3.] [0]
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace import catalogue, checkpoint, cluster, feature_column, image, io, observe, preprocessing, text, tfds
    from headrace.catalogue.builder import dataset
    from headrace.catalogue.load import load_named as load
    from headrace.core.keys import set_random_seed
    from headrace.core.ragged import Ragged
    from headrace.dataset import Dataset
    from headrace.distribute.merge_states import merge_states
    from headrace.errors import (
        ChangeWarning,
        ElementError,
        HeadraceError,
        NotIndexableError,
        ParseError,
        PipelineWarning,
        QuarantineError,
        SpecError,
        StateError,
        StorageError,
        TransportError,
        WorkerError,
    )
    from headrace.feature_column.learnable import most_frequent, quantiles
    from headrace.formats.csv.make_csv_dataset import make_csv_dataset
    from headrace.formats.csv.source import CsvDataset
    from headrace.formats.fixed.source import FixedLengthRecordDataset
    from headrace.formats.jsonl.source import JsonLinesDataset
    from headrace.formats.shared.quarantine import Quarantine
    from headrace.formats.tables.source import ArrowDataset, ParquetDataset
    from headrace.formats.text.source import TextLineDataset
    from headrace.formats.tfrecord.source import TFRecordDataset
    from headrace.iterator import Iterator
    from headrace.ops.mix import mix
    from headrace.options import AUTOTUNE, Options
    from headrace.plan.cardinality import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
    from headrace.plan.spec import DatasetSpec, TensorSpec
    from headrace.preprocessing.components import Discretizer, Normalizer
    from headrace.sources.batches import BatchSource
    from headrace.sources.bigquery import BigQueryDataset
    from headrace.sources.keras_datasets import (
        image_dataset_from_directory,
        text_dataset_from_directory,
        timeseries_dataset_from_array,
    )
    from headrace.sources.sql.sql_dataset import SqlDataset
    from headrace.sources.webdataset import WebDataset

__version__ = "0.2.0"

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "ArrowDataset",
    "BatchSource",
    "BigQueryDataset",
    "ChangeWarning",
    "CsvDataset",
    "Dataset",
    "DatasetSpec",
    "Discretizer",
    "ElementError",
    "FixedLengthRecordDataset",
    "HeadraceError",
    "Iterator",
    "JsonLinesDataset",
    "Normalizer",
    "NotIndexableError",
    "Options",
    "ParquetDataset",
    "ParseError",
    "PipelineWarning",
    "Quarantine",
    "QuarantineError",
    "Ragged",
    "SpecError",
    "SqlDataset",
    "StateError",
    "StorageError",
    "TFRecordDataset",
    "TensorSpec",
    "TextLineDataset",
    "TransportError",
    "WebDataset",
    "WorkerError",
    "catalogue",
    "checkpoint",
    "cluster",
    "dataset",
    "feature_column",
    "image",
    "image_dataset_from_directory",
    "io",
    "load",
    "make_csv_dataset",
    "merge_states",
    "mix",
    "most_frequent",
    "observe",
    "preprocessing",
    "quantiles",
    "set_random_seed",
    "text",
    "text_dataset_from_directory",
    "tfds",
    "timeseries_dataset_from_array",
]


_SUBMODULES = frozenset(
    ("catalogue", "checkpoint", "cluster", "feature_column", "image", "io", "observe", "preprocessing", "text", "tfds")
)
_HOMES = {
    "dataset": "catalogue.builder",
    "load": "catalogue.load",
    "Dataset": "dataset",
    "ChangeWarning": "errors",
    "ElementError": "errors",
    "HeadraceError": "errors",
    "NotIndexableError": "errors",
    "ParseError": "errors",
    "PipelineWarning": "errors",
    "QuarantineError": "errors",
    "SpecError": "errors",
    "StateError": "errors",
    "StorageError": "errors",
    "TransportError": "errors",
    "WorkerError": "errors",
    "most_frequent": "feature_column.learnable",
    "quantiles": "feature_column.learnable",
    "Iterator": "iterator",
    "set_random_seed": "core.keys",
    "merge_states": "distribute.merge_states",
    "mix": "ops.mix",
    "AUTOTUNE": "options",
    "Options": "options",
    "INFINITE_CARDINALITY": "plan.cardinality",
    "UNKNOWN_CARDINALITY": "plan.cardinality",
    "DatasetSpec": "plan.spec",
    "TensorSpec": "plan.spec",
    "Discretizer": "preprocessing.components",
    "Normalizer": "preprocessing.components",
    "Ragged": "core.ragged",
    "Quarantine": "formats.shared.quarantine",
    "BatchSource": "sources.batches",
    "BigQueryDataset": "sources.bigquery",
    "CsvDataset": "formats.csv.source",
    "FixedLengthRecordDataset": "formats.fixed.source",
    "JsonLinesDataset": "formats.jsonl.source",
    "image_dataset_from_directory": "sources.keras_datasets",
    "text_dataset_from_directory": "sources.keras_datasets",
    "timeseries_dataset_from_array": "sources.keras_datasets",
    "make_csv_dataset": "formats.csv.make_csv_dataset",
    "SqlDataset": "sources.sql.sql_dataset",
    "ArrowDataset": "formats.tables.source",
    "ParquetDataset": "formats.tables.source",
    "TextLineDataset": "formats.text.source",
    "TFRecordDataset": "formats.tfrecord.source",
    "WebDataset": "sources.webdataset",
}
"""The module that each public name comes from. It is imported when the name is first used (PEP 562)."""

_NAMED_THERE = {"load": "load_named"}
"""Names that the module spells otherwise."""


class _Package(ModuleType):
    """The package. Importing the submodule `headrace.dataset` must not replace the decorator `hr.dataset`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "dataset" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return import_module, (__name__,)  # cloudpickle knows modules by their exact class


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        if name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), _NAMED_THERE.get(name, name))
            globals()[name] = value
            return value
        from headrace.names import Experimental, found  # not `from headrace import names`, which asks for it here

        return Experimental() if name == "experimental" else found("hr", name)


def __dir__() -> list[str]:
    return [*__all__, "__version__", "__doc__", "__all__"]
