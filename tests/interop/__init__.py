"""Structures and datasets that several comparisons with tf.data begin with; `D` is either library."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

Point = namedtuple("Point", ["a", "b"])


@dataclass
class Pair:
    """A dataclass that tf.data, too, takes for structure."""

    a: Any
    b: Any

    def __tf_flatten__(self):
        return (), (self.a, self.b)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)


def i32(*values):
    return np.array(values, np.int32)


def tuples(D):
    return D.from_tensor_slices((i32(1, 2, 3), np.array([4.0, 5.0, 6.0])))


def dicts(D):
    return D.from_tensor_slices({"x": i32(1, 2, 3), "y": np.array([4.0, 5.0, 6.0])})


def endless(D):
    return D.range(3).repeat()


def evens(D):
    return D.range(10).filter(lambda x: x % 2 == 0)
