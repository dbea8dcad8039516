"""headrace: tf.data without TensorFlow.

>>> import headrace as hr
>>> ds = hr.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [0, 1, 0])).batch(2)
>>> for features, labels in ds:
...     print(features, labels)
[1. 2.] [0 1]
[3.] [0]
"""

from typing import TYPE_CHECKING, Any

from headrace import catalogue, cluster, feature_column, image, io, preprocessing, text, tfds
from headrace.catalogue.builder import dataset
from headrace.catalogue.load import load_named as load
from headrace.dataset import Dataset
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
from headrace.iterator import Iterator
from headrace.keys import set_random_seed
from headrace.ops.merge_states import merge_states
from headrace.ops.mix import mix
from headrace.options import AUTOTUNE, Options
from headrace.plan.cardinality import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from headrace.plan.spec import DatasetSpec, TensorSpec
from headrace.preprocessing.components import Discretizer, Normalizer
from headrace.ragged import Ragged
from headrace.records.quarantine import Quarantine
from headrace.sources.batches import BatchSource
from headrace.sources.bigquery import BigQueryDataset
from headrace.sources.csv import CsvDataset
from headrace.sources.fixed import FixedLengthRecordDataset
from headrace.sources.jsonl import JsonLinesDataset
from headrace.sources.keras_datasets import (
    image_dataset_from_directory,
    text_dataset_from_directory,
    timeseries_dataset_from_array,
)
from headrace.sources.make_csv_dataset import make_csv_dataset
from headrace.sources.sql.sql_dataset import SqlDataset
from headrace.sources.tables import ArrowDataset, ParquetDataset
from headrace.sources.text import TextLineDataset
from headrace.sources.tfrecord import TFRecordDataset
from headrace.sources.webdataset import WebDataset

__version__ = "0.1.0"

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
    "preprocessing",
    "quantiles",
    "set_random_seed",
    "text",
    "text_dataset_from_directory",
    "tfds",
    "timeseries_dataset_from_array",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Any:
        from headrace import names

        if name == "experimental":
            return names.Experimental()
        return names.found("hr", name)


def __dir__() -> list[str]:
    return [*__all__, "__version__", "__doc__", "__all__"]
