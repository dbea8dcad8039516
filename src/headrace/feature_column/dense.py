"""Floats out of ids: counts, and the rows of tables that are learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from headrace import _native
from headrace.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Matrix,
    categorical,
    check_integer,
    incomplete_columns,
)
from headrace.feature_column.raw import Inputs
from headrace.io.feature import Feature

Combiner = Literal["sum", "mean", "sqrtn"]
NO_WEIGHTS = np.empty(0, np.float32)


class MadeOfIds(FeatureColumn):
    """A column that needs what its ids need."""

    categorical_column: CategoricalColumn

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of the ids."""
        return self.categorical_column.keys

    @property
    def parse_example_spec(self) -> dict[str, Feature]:
        """That of the ids."""
        return self.categorical_column.parse_example_spec


@dataclass(frozen=True)
class IndicatorColumn(MadeOfIds, DenseColumn):
    """How often a row has each id: see `indicator_column`."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The ids' name, and what became of them."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """One number for each id there is."""
        return (self.categorical_column.num_buckets,)

    def fill(self, inputs: Inputs, out: Matrix, first: int) -> None:
        """Counts, or sums of weights."""
        ids = self.categorical_column.ids(inputs)
        weights = NO_WEIGHTS if ids.weights is None else ids.weights
        _native.add_counts(ids.known, ids.offsets, weights, self.width, out, first)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return how often each row has each id, or the sum of their weights.

    Args:
        categorical_column: A categorical column.

    >>> day = hr.feature_column.categorical_column_with_identity("day", 3)
    >>> hr.feature_column.DenseFeatures([hr.feature_column.indicator_column(day)])({"day": [[0, 2, 2], []]})
    array([[1., 0., 2.],
           [0., 0., 0.]], dtype=float32)
    """
    return IndicatorColumn(categorical("indicator_column", categorical_column))


@dataclass(frozen=True)
class EmbeddingColumn(MadeOfIds):
    """The rows of a table that is learnt: see `embedding_column`."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: Combiner
    initializer: Callable[[tuple[int, int]], Any] | None
    max_norm: float | None
    trainable: bool
    table: str
    """The name of the table, which several columns may share."""
    shared: bool = False

    @property
    def name(self) -> str:
        """The ids' name, and what became of them."""
        return f"{self.categorical_column.name}_{'shared_' if self.shared else ''}embedding"

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """One row of the table."""
        return (self.dimension,)

    @property
    def width(self) -> int:
        """Return how many columns of the matrix it has."""
        return self.dimension

    @property
    def table_shape(self) -> tuple[int, int]:
        """A row for each id."""
        return (self.categorical_column.num_buckets, self.dimension)

    def initial_table(self, seed: int | None = None) -> Matrix:
        """Return the table before anything was learnt: by `initializer`, or normal, cut at two deviations of
        1/√dimension.
        """
        if self.initializer is not None:
            made = np.asarray(self.initializer(self.table_shape), np.float32)
            if made.shape != self.table_shape:
                raise ValueError(
                    f"column {self.name!r}: initializer made {made.shape} but {self.table_shape} is required"
                )
            return np.ascontiguousarray(made)
        generator = np.random.default_rng(seed)
        draws = generator.standard_normal(self.table_shape)
        while (far := np.abs(draws) > 2).any():
            draws[far] = generator.standard_normal(int(far.sum()))
        return np.asarray(draws / np.sqrt(self.dimension), np.float32)

    def fill(self, inputs: Inputs, out: Matrix, first: int, table: Matrix) -> None:
        """Combine the rows of the table that a row's ids name."""
        ids = self.categorical_column.ids(inputs)
        weights = NO_WEIGHTS if ids.weights is None else ids.weights
        code = get_args(Combiner).index(self.combiner)
        _native.add_embeddings(ids.known, ids.offsets, weights, clip_rows(table, self.max_norm), code, out, first)


def clip_rows(table: Matrix, max_norm: float | None) -> Matrix:
    """Return the table, its rows at most so long."""
    if max_norm is None:
        return table
    norms = np.sqrt((table * table).sum(axis=1, keepdims=True))
    return np.ascontiguousarray(table * max_norm / np.maximum(norms, max_norm), np.float32)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: Combiner = "mean",
    initializer: Callable[[tuple[int, int]], object] | None = None,
    ckpt_to_load_from: None = None,
    tensor_name_in_ckpt: None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,  # noqa: ARG001 - lookups are always safe
) -> EmbeddingColumn:
    """Look up ids in a table with `dimension` columns, combined by `combiner` if a row has several ids.

    The table belongs to the module that trains it: `layer.torch()`, `layer.keras()` or `layer.jax()`;
    `layer.load_tables` takes arrays. `initializer` makes a table of a shape.

    Args:
        categorical_column: A categorical column.
        dimension: Number of values in an embedding.
        combiner: How to combine several values of a row: "mean", "sqrtn" or "sum".
        initializer: Function of a shape that returns the initial table. Default: truncated normal.
        ckpt_to_load_from: Not supported; must be None.
        tensor_name_in_ckpt: Not supported; must be None.
        max_norm: Largest L2 norm of an embedding; None for no limit.
        trainable: Whether the table is trained.
        use_safe_embedding_lookup: Accepted for compatibility; lookups are always safe.

    >>> day = hr.feature_column.categorical_column_with_identity("day", 3)
    >>> layer = hr.feature_column.DenseFeatures([hr.feature_column.embedding_column(day, 2, "sum")])
    >>> layer = layer.load_tables({"day_embedding": [[1, 10], [2, 20], [3, 30]]})
    >>> layer({"day": [[0, 2], []]})
    array([[ 4., 40.],
           [ 0.,  0.]], dtype=float32)
    """
    column = categorical("embedding_column", categorical_column)
    return _embedding(
        column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


def shared_embeddings(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: Combiner = "mean",
    initializer: Callable[[tuple[int, int]], object] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: None = None,
    tensor_name_in_ckpt: None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,  # noqa: ARG001
) -> list[EmbeddingColumn]:
    """Return one `embedding_column` for each column, all with the same table; they must have equally many ids.

    Args:
        categorical_columns: Categorical columns that share a table.
        dimension: Number of values in an embedding.
        combiner: How to combine several values of a row: "mean", "sqrtn" or "sum".
        initializer: Function of a shape that returns the initial table. Default: truncated normal.
        shared_embedding_collection_name: Name of the shared table.
        ckpt_to_load_from: Not supported; must be None.
        tensor_name_in_ckpt: Not supported; must be None.
        max_norm: Largest L2 norm of an embedding; None for no limit.
        trainable: Whether the table is trained.
        use_safe_embedding_lookup: Accepted for compatibility; lookups are always safe.

    >>> fc = hr.feature_column
    >>> seen, bought = (fc.categorical_column_with_hash_bucket(key, 100) for key in ("seen", "bought"))
    >>> [column.table for column in fc.shared_embeddings([seen, bought], 8)]
    ['bought_seen_shared_embedding', 'bought_seen_shared_embedding']
    """
    columns = [categorical("shared_embeddings", column) for column in categorical_columns]
    if not columns:
        raise ValueError("shared_embeddings takes at least one categorical column")
    sizes = {column.name: column.num_buckets for column in columns if not list(incomplete_columns(column))}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"columns that share a table must have equally many ids, not {sizes}")
    name = shared_embedding_collection_name or "_".join(sorted(c.name for c in columns)) + "_shared_embedding"
    how = (dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable)
    return [_embedding(column, *how, table=name) for column in columns]


def _embedding(
    column: CategoricalColumn,
    dimension: int,
    combiner: Combiner,
    initializer: Callable[[tuple[int, int]], object] | None,
    checkpoint: object,
    tensor: object,
    max_norm: float | None,
    trainable: bool,
    *,
    table: str | None = None,
) -> EmbeddingColumn:
    name = f"{column.name}_{'embedding' if table is None else 'shared_embedding'}"
    if combiner not in get_args(Combiner):
        raise ValueError(f"column {name!r}: combiner must be 'mean', 'sqrtn' or 'sum', not {combiner!r}")
    if initializer is not None and not callable(initializer):
        raise TypeError(f"column {name!r}: initializer must be a function of a shape, not {initializer!r}")
    if checkpoint is not None or tensor is not None:
        raise ValueError(f"column {name!r}: read the checkpoint's array, and give it to layer.load_tables")
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"column {name!r}: max_norm must be positive, not {max_norm}")
    if isinstance(dimension, float | np.floating):
        raise TypeError(
            f"column {name!r}: dimension must be an integer, not {dimension!r}, as in TensorFlow 2: "
            f"round() or int() makes it one"
        )
    size = check_integer(name, "dimension", dimension, 1)
    return EmbeddingColumn(column, size, combiner, initializer, max_norm, trainable, table or name, table is not None)
