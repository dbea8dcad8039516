"""`hr.feature_column`: raw features to numbers, under tf.feature_column's names and with its numbers.

Columns are plain values; `layer.py` applies them to rows, batches and blocks. It knows columns and tracing, but no
source, sink or trainer; framework modules (`torch.py`, `keras.py`, …) import theirs inside.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    weighted_categorical_column,
)
from headrace.feature_column.crossed import crossed_column
from headrace.feature_column.dense import embedding_column, indicator_column, shared_embeddings
from headrace.feature_column.layer import DenseFeatures
from headrace.feature_column.numeric import bucketized_column, numeric_column
from headrace.feature_column.parse_spec import make_parse_example_spec
from headrace.feature_column.vocabulary import (
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)

__all__ = [
    "DenseFeatures",
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "make_parse_example_spec",
    "numeric_column",
    "shared_embeddings",
    "weighted_categorical_column",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.feature_column", name)
