"""`hr.preprocessing`: Keras's preprocessing layers with Keras's numbers, without Keras."""

from headrace.preprocessing.hashing import HashedCrossing, Hashing
from headrace.preprocessing.lookup import IntegerLookup, StringLookup
from headrace.preprocessing.normalization import Normalization
from headrace.preprocessing.numbers import CategoryEncoding, Discretization

__all__ = [
    "CategoryEncoding",
    "Discretization",
    "HashedCrossing",
    "Hashing",
    "IntegerLookup",
    "Normalization",
    "StringLookup",
]
