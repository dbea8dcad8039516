"""`hr.io`: records to arrays and back, under tf.io's names."""

from headrace.io.examples import Example, encode_example, encode_examples, encode_sequence_example
from headrace.io.features import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from headrace.io.parse import (
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from headrace.io.partitions import RaggedFeature
from headrace.io.sparse import Sparse, SparseFeature

__all__ = [
    "Example",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "Sparse",
    "SparseFeature",
    "VarLenFeature",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]
