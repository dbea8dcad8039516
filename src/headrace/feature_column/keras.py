"""Columns as a Keras layer with trainable tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
from keras import ops

from headrace.columns.kind import Column
from headrace.core.types import LibraryObject, Nested, TensorLike
from headrace.feature_column.dense import EmbeddingColumn
from headrace.feature_column.trainable import InputLayout

if TYPE_CHECKING:
    from headrace.feature_column.layer import DenseFeatures


@keras.saving.register_keras_serializable("headrace")
class FeatureLayer(keras.layers.Layer):  # type: ignore[misc]
    """The matrix of a layer's columns: see `DenseFeatures.keras`. Ids are dense, or padded with -1."""

    def __init__(self, columns: DenseFeatures | str, seed: int | None = None, **named: object) -> None:
        from headrace.feature_column.layer import DenseFeatures

        super().__init__(**named)
        self.columns = DenseFeatures.from_json(columns) if isinstance(columns, str) else columns
        self.seed = seed
        self.layout = InputLayout.of(self.columns)
        self.tables: dict[str, Column] = {}
        for name, table in self.layout.initial_tables(self.columns, seed).items():
            self.tables[name] = self.add_weight(
                shape=table.shape, dtype="float32", trainable=self.layout.trainable[name], name=name.replace("/", "_")
            )
            self.tables[name].assign(table)

    def build(self, input_shape: object) -> None:
        """Do nothing: all weights exist."""
        del input_shape
        self.built = True

    def call(self, inputs: Mapping[str, TensorLike]) -> LibraryObject:
        """Return the matrix, of what `layer.inputs` gave."""
        parts = []
        for column, place in self.layout.parts:
            if isinstance(place, slice):
                parts.append(inputs["dense"][:, place])
            else:
                weights = inputs["ids"].get(f"{place}/weights")
                parts.append(_embed(column, self.tables[column.table], inputs["ids"][place], weights))
        return ops.concatenate([ops.cast(part, "float32") for part in parts], axis=1)

    def compute_output_shape(self, input_shape: Nested) -> tuple[int | None, int]:
        """Return one line a row."""
        return (input_shape["dense"][0], self.layout.width)

    def load_tables(self, tables: Mapping[str, object]) -> FeatureLayer:
        """Take arrays, such as a TensorFlow checkpoint's, by the names that `DenseFeatures.load_tables` knows."""
        for name, table in self.layout.check_arrays(tables).items():
            self.tables[name].assign(table)
        return self

    def table_arrays(self) -> dict[str, Column]:
        """Return the tables as they are now, for `DenseFeatures.load_tables`."""
        return {name: ops.convert_to_numpy(table) for name, table in self.tables.items()}

    def get_config(self) -> dict[str, Column]:
        """Return the columns as JSON."""
        return {**super().get_config(), "columns": self.columns.to_json(), "seed": self.seed}


def feature_layer(layer: DenseFeatures, seed: int | None = None, **named: object) -> FeatureLayer:
    """Return the Keras layer of these columns."""
    return FeatureLayer(layer, seed, **named)


def _embed(column: EmbeddingColumn, table: LibraryObject, ids: TensorLike, weights: object) -> LibraryObject:
    """Return the rows of the table that the ids of each row name, put together."""
    table = ops.convert_to_tensor(table)
    if column.max_norm is not None:
        norms = ops.sqrt(ops.sum(table * table, axis=1, keepdims=True))
        table = table * (column.max_norm / ops.maximum(norms, column.max_norm))
    if len(ids.shape) == 1:
        ids, weights = ops.expand_dims(ids, 1), None if weights is None else ops.expand_dims(weights, 1)
    given = ops.ones(ops.shape(ids), "float32") if weights is None else ops.cast(weights, "float32")
    there = ids >= 0
    if column.combiner != "sum":
        there = ops.logical_and(there, given > 0)
    given = ops.where(there, given, 0.0)
    total = ops.sum(ops.take(table, ops.maximum(ids, 0), axis=0) * given[..., None], axis=1)
    if column.combiner == "sum":
        return total
    by = ops.sqrt(ops.sum(given * given, axis=1)) if column.combiner == "sqrtn" else ops.sum(given, axis=1)
    return total / ops.where(by > 0, by, 1.0)[:, None]
