"""`hr.io`: records to arrays and back, under tf.io's names.

Each function has a block form that `map` uses. It knows formats, but no source that trainers use.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.io import gfile
from headrace.io.csv import decode_csv
from headrace.io.decode import decode_compressed, decode_json, decode_raw
from headrace.io.examples import Example, encode_example, encode_examples, encode_sequence_example
from headrace.io.features import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from headrace.io.files import matching_files, read_file, write_file
from headrace.io.index import build_index
from headrace.io.infer import infer_features
from headrace.io.parse import (
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from headrace.io.partitions import RaggedFeature
from headrace.io.sparse import Sparse, SparseFeature
from headrace.io.tensors import parse_tensor, serialize_tensor
from headrace.io.writer import ShardPlan, TFRecordWriter, plan_shards

__all__ = [
    "Example",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "ShardPlan",
    "Sparse",
    "SparseFeature",
    "TFRecordWriter",
    "VarLenFeature",
    "build_index",
    "decode_compressed",
    "decode_csv",
    "decode_json",
    "decode_raw",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "gfile",
    "infer_features",
    "matching_files",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "plan_shards",
    "read_file",
    "serialize_tensor",
    "write_file",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.io", name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__all__"]
