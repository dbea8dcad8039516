"""Columns as a Flax module with trainable tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from headrace.columns.kind import Column
from headrace.core.types import LibraryObject
from headrace.feature_column.jax import feature_functions

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


class FixedTable(nnx.Variable[Any]):  # type: ignore[misc]
    """A table that is not learnt."""


class FlaxFeatures(nnx.Module):  # type: ignore[misc]
    """The matrix of a layer's columns: see `DenseFeatures.flax`."""

    def __init__(self, layer: DenseFeatures, seed: int | None = None) -> None:
        init, self.apply, self.layout = feature_functions(layer, seed)
        kinds = {name: nnx.Param if learnt else FixedTable for name, learnt in self.layout.trainable.items()}
        self.tables: LibraryObject = nnx.Dict({name: kinds[name](table) for name, table in init().items()})

    @property
    def out_features(self) -> int:
        """Return how many columns the matrix has."""
        return self.layout.width

    def __call__(self, inputs: Mapping[str, object]) -> LibraryObject:
        """Return the matrix, of what `layer.inputs` gave."""
        return self.apply({name: table[...] for name, table in self.tables.items()}, inputs)

    def load_tables(self, tables: Mapping[str, object]) -> FlaxFeatures:
        """Take arrays, such as a TensorFlow checkpoint's, by the names that `DenseFeatures.load_tables` knows."""
        for name, table in self.layout.check_arrays(tables).items():
            self.tables[name][...] = jnp.asarray(table)
        return self

    def table_arrays(self) -> dict[str, Column]:
        """Return the tables as they are now, for `DenseFeatures.load_tables`."""
        return {name: np.array(table[...]) for name, table in self.tables.items()}
