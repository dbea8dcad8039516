"""`hr.preprocessing`: Keras's preprocessing layers with Keras's numbers, without Keras.

It builds on `feature_column`'s learners. It knows no source and no trainer.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
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


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.preprocessing", name)
