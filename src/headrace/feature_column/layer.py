"""Feature columns together: one matrix of floats, and ids for tables that are learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.kind import Column
from headrace.core.frameworks import framework
from headrace.core.override import override
from headrace.core.types import Nested, StrPath, TensorLike
from headrace.feature_column.apply import Apply, Computation, number_shapes
from headrace.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Matrix,
    incomplete,
    incomplete_columns,
)
from headrace.feature_column.dense import EmbeddingColumn
from headrace.feature_column.numeric import BucketizedColumn
from headrace.feature_column.program import program_of
from headrace.feature_column.raw import Inputs
from headrace.feature_column.trainable import InputLayout
from headrace.plan.spec import TensorSpec

if TYPE_CHECKING:
    from headrace.dataset import Dataset
    from headrace.feature_column.flax import FlaxFeatures
    from headrace.feature_column.jax import FeatureFunctions
    from headrace.feature_column.keras import FeatureLayer
    from headrace.feature_column.torch import FeatureModule

OutputColumn = DenseColumn | EmbeddingColumn


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """Columns that become one float32 matrix, side by side in the order of their names, as in TensorFlow.

    `layer(features)` takes a dict of features (arrays, Ragged, lists, the columns of a data frame) of one row or of
    many; `ds.map(layer)` runs on whole blocks, before or after `batch`, with the same numbers. `layer.ids` gives the
    ids of the categorical columns instead, and `layer.inputs` the inputs of modules with trainable tables:
    `layer.torch()`, `layer.keras()`, `layer.flax()`, `layer.jax()`.

    The features' axes distinguish one row from many: a feature without axes is of one row. If all of them have one axis
    they are many rows; `batched=False` says that they are lists of one.

    Args:
        columns: Feature columns.
        batched: Whether features are of many rows. Default: decided by their axes.
        tables: Embedding tables by the name of their column.

    >>> fc = hr.feature_column
    >>> size = fc.categorical_column_with_vocabulary_list("size", ["S", "M", "L"])
    >>> layer = fc.DenseFeatures([fc.indicator_column(size), fc.numeric_column("age")])
    >>> layer({"size": ["M", "L"], "age": [30, 40]})
    array([[30.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.]], dtype=float32)
    >>> ds = hr.Dataset.from_tensor_slices({"size": ["M", "L"], "age": [30, 40]})
    >>> list(ds.map(layer))
    [array([30.,  0.,  1.,  0.], dtype=float32), array([40.,  0.,  0.,  1.], dtype=float32)]
    """

    columns: Sequence[OutputColumn]
    batched: bool | None = field(default=None, kw_only=True)
    tables: Mapping[str, Matrix] = field(default_factory=dict, kw_only=True, repr=False)

    keys: tuple[str, ...] = field(init=False, repr=False)
    """The raw features that are needed."""
    number_shapes: dict[str, tuple[int, ...]] = field(init=False, repr=False)
    """The shape of a row, for numeric columns."""

    _headrace_constant = True  # a traced function may hold on to it

    def __post_init__(self) -> None:
        columns: Column = self.columns
        given = [columns] if isinstance(columns, FeatureColumn) else list(columns)
        if not given:
            raise ValueError("DenseFeatures takes at least one column")
        for column in given:
            if isinstance(column, DenseColumn | EmbeddingColumn):
                continue
            if isinstance(column, CategoricalColumn):
                raise ValueError(
                    f"column {column.name!r} makes ids: wrap it in an indicator_column or embedding_column"
                )
            raise TypeError(f"DenseFeatures takes feature columns, not {column!r}")
        ordered = sorted(given, key=lambda column: column.name)
        for one, other in pairwise(ordered):
            if one.name == other.name:
                raise ValueError(f"two columns have the name {one.name!r}: keep one")
        tables: dict[str, EmbeddingColumn] = {}
        for column in ordered:
            if isinstance(column, EmbeddingColumn) and not list(incomplete_columns(column)):
                shared = tables.setdefault(column.table, column)
                if shared.table_shape != column.table_shape:
                    raise ValueError(f"{shared.name!r} and {column.name!r} share {column.table!r}, of different shapes")
        object.__setattr__(self, "columns", tuple(ordered))
        object.__setattr__(self, "keys", tuple(dict.fromkeys(key for column in ordered for key in column.keys)))
        object.__setattr__(self, "number_shapes", number_shapes(ordered))

    @property
    def width(self) -> int:
        """Return how many columns the matrix has."""
        return sum(column.width for column in self.columns)

    @property
    def embeddings(self) -> tuple[EmbeddingColumn, ...]:
        """Return the columns with trainable tables."""
        return tuple(column for column in self.columns if isinstance(column, EmbeddingColumn))

    @property
    def fixed(self) -> tuple[DenseColumn, ...]:
        """The columns that nothing is learnt of."""
        return tuple(column for column in self.columns if isinstance(column, DenseColumn))

    def __call__(self, features: object) -> Nested:
        """Return the matrix, of one row a line; embedding columns need their tables (`load_tables`)."""
        return Apply(_Matrix(self))(features)

    @property
    def ids(self) -> Apply:
        """Return a function from features to the ids of each categorical column by name, except those of numbers.

        Dense if each row has one (-1 if it is missing), else Ragged; weights stand under the name and "/weights".
        """
        return Apply(_Ids(self, categoricals(self.columns)))

    @property
    def inputs(self) -> Apply:
        """A function of features for `map`: what a model with embedding tables of its own takes.

        It gives a dict: under "dense" the matrix of all columns but the embeddings, under "ids" the ids of each
        embedding by the name of its categorical column. What needs no learning is so done in the pipeline; the modules
        that `layer.torch()`, `layer.keras()` and `layer.jax()` make look the rest up in tables that they learn.

        >>> fc = hr.feature_column
        >>> day = fc.embedding_column(fc.categorical_column_with_identity("day", 7), 2)
        >>> layer = fc.DenseFeatures([fc.numeric_column("price"), day])
        >>> batch = layer.inputs({"price": [[2.5], [3.0]], "day": [3, 6]})
        >>> batch["dense"].tolist(), list(batch["ids"])
        ([[2.5], [3.0]], ['day'])
        """
        return Apply(_TrainingInputs(self, _Ids(self, categoricals(self.embeddings))))

    def load_tables(self, tables: Mapping[str, object]) -> DenseFeatures:
        """Load these arrays as tables: by the table's name, or a checkpoint's name that contains it.

        >>> fc = hr.feature_column
        >>> day = fc.embedding_column(fc.categorical_column_with_identity("day", 2), 1)
        >>> layer = fc.DenseFeatures(day).load_tables({"model/day_embedding/embedding_weights:0": [[0.5], [1.5]]})
        >>> layer({"day": 1})
        array([1.5], dtype=float32)
        """
        made = InputLayout.of(self).check_arrays(tables)
        for table in made.values():
            table.flags.writeable = False
        return replace(self, tables={**self.tables, **made})

    def adapt(
        self,
        data: Dataset | TensorLike,
        *,
        state: StrPath | None = None,
        save_every: float = 30.0,
        progress: bool | None = None,
    ) -> DenseFeatures:
        """Return the layer with normalizers, quantiles and vocabularies computed from data, in one pass.

        `data` is a dataset of dicts, rows or batches, or a dict of arrays or a data frame. With `state`, the name of a
        file, an interrupted or killed pass continues from there when it is called again: the state is saved every
        `save_every` seconds. A bar is shown on a terminal, or as `progress` says.

        >>> fc = hr.feature_column
        >>> age = fc.numeric_column("age", normalizer="adapt")
        >>> layer = fc.DenseFeatures(age).adapt(hr.Dataset.from_tensor_slices({"age": [20.0, 40.0]}))
        >>> layer({"age": [20.0, 30.0, 60.0]}).ravel()
        array([-1.,  0.,  3.], dtype=float32)
        """
        from headrace.feature_column.adapt import adapted_columns

        columns = adapted_columns(self, data, state=state, save_every=save_every, progress=progress)
        return replace(self, columns=columns)

    def to_json(self) -> str:
        """Return the columns as JSON, for a program in any language; tables that were loaded are not a part of it."""
        from headrace.feature_column.serialize import columns_to_json

        return columns_to_json(self.columns)

    @staticmethod
    def from_json(text: str | bytes) -> DenseFeatures:
        """Return the layer that `to_json` wrote.

        >>> layer = hr.feature_column.DenseFeatures(hr.feature_column.numeric_column("age"))
        >>> hr.feature_column.DenseFeatures.from_json(layer.to_json()).columns == layer.columns
        True
        """
        from headrace.feature_column.serialize import columns_from_json

        return DenseFeatures(columns_from_json(text))

    def describe(self) -> None:
        """Print which columns of the matrix belong to which feature column.

        >>> fc = hr.feature_column
        >>> age = fc.numeric_column("age")
        >>> fc.DenseFeatures([age, fc.bucketized_column(age, [18, 65])]).describe()
        columns  name            kind        features  shape
        0        age             numeric     age       (1,)
        1-3      age_bucketized  bucketized  age       (1, 3)
        4 columns in all
        """
        rows = [("columns", "name", "kind", "features", "shape")]
        first = 0
        for column in self.columns:
            last = first + column.width - 1
            kind = type(column).__name__.removesuffix("Column").lower()
            place = f"{first}" if last == first else f"{first}-{last}"
            rows.append((place, column.name, kind, ", ".join(column.keys), str(column.variable_shape)))
            first = last + 1
        widths = [max(map(len, each)) for each in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        print(f"{first} columns in all")

    def torch(self, seed: int | None = None) -> FeatureModule:
        """A torch module of the same columns, whose tables are learnt; it takes what `layer.inputs` gives."""
        framework("torch", "DenseFeatures.torch")
        from headrace.feature_column.torch import FeatureModule

        return FeatureModule(self, seed)

    def keras(self, seed: int | None = None, **named: object) -> FeatureLayer:
        """A Keras layer of the same columns, whose tables are learnt; it takes what `layer.inputs` gives."""
        framework("keras", "DenseFeatures.keras")
        from headrace.feature_column.keras import feature_layer

        return feature_layer(self, seed, **named)

    def jax(self, seed: int | None = None) -> FeatureFunctions:
        """A pair of functions `init()` and `apply(parameters, inputs)`; inputs are what `layer.inputs` gives."""
        framework("jax", "DenseFeatures.jax")
        from headrace.feature_column.jax import feature_functions

        return feature_functions(self, seed)

    def flax(self, seed: int | None = None) -> FlaxFeatures:
        """Return a Flax module (nnx) of the same columns with trainable tables; it takes the output of `layer.inputs`.

        Within `nnx.jit`, ids must be dense or padded with -1.
        """
        framework("flax", "DenseFeatures.flax")
        from headrace.feature_column.flax import FlaxFeatures

        return FlaxFeatures(self, seed)


def categoricals(columns: Sequence[OutputColumn]) -> dict[str, CategoricalColumn]:
    """Return the columns that make ids, by name; by that of the column made from them if two have the same."""
    found: dict[str, CategoricalColumn] = {}
    for column in columns:
        ids = column if isinstance(column, BucketizedColumn) else getattr(column, "categorical_column", None)
        if ids is None:
            continue
        known = found.setdefault(ids.name, ids)
        if known is not ids and known != ids:
            found[column.name] = ids
    return found


def ids_name(column: EmbeddingColumn, found: Mapping[str, CategoricalColumn]) -> str:
    """Return the name under which the ids of a column are."""
    ids = found[column.categorical_column.name]
    same = ids is column.categorical_column or ids == column.categorical_column
    return column.categorical_column.name if same else column.name


@dataclass(frozen=True, eq=False)
class _Matrix(Computation):
    layer: DenseFeatures

    name = "dense_features"

    @override
    def spec(self, shapes: Mapping[str, object]) -> TensorSpec:
        self._tables()
        return TensorSpec((self.layer.width,), np.float32)

    def run(self, inputs: Inputs) -> Matrix:
        tables = self._tables()
        out = np.zeros((inputs.rows, self.layer.width), np.float32)
        first = 0
        for column in self.layer.columns:
            if isinstance(column, EmbeddingColumn):
                column.fill(inputs, out, first, tables[column.table])
            else:
                column.fill(inputs, out, first)
            first += column.width
        return out

    def _tables(self) -> Mapping[str, Matrix]:
        for column in self.layer.embeddings:
            if column.table not in self.layer.tables:
                for part in incomplete_columns(column):
                    raise incomplete(part.name, "a part of it is")
                raise ValueError(
                    f"column {column.name!r} has no table: layer.load_tables gives it one; to learn it, "
                    "use layer.inputs with layer.torch(), layer.keras() or layer.jax()"
                )
        return self.layer.tables


@dataclass(frozen=True, eq=False)
class _Ids(Computation):
    layer: DenseFeatures
    categoricals: dict[str, CategoricalColumn]

    name = "feature_ids"

    def spec(self, shapes: Mapping[str, object]) -> dict[str, TensorSpec]:
        made = {}
        for name, column in self.categoricals.items():
            shape = column.ids_shape(dict(shapes))
            made[name] = TensorSpec(shape, np.int64)
            if hasattr(column, "weight_feature_key"):
                made[f"{name}/weights"] = TensorSpec(shape, np.float32)
        return made

    def run(self, inputs: Inputs) -> dict[str, Column]:
        at_once = program_of(self, self.categoricals).run(inputs)
        made: dict[str, Column] = {}
        given: set[int] = set()
        for name, column in self.categoricals.items():
            if name in at_once:
                made[name] = at_once[name]
                continue
            ids = column.ids(inputs)
            if ids.missing is None and id(ids.values) in given:
                ids = replace(ids, values=ids.values.copy())
            given.add(id(ids.values))
            made[name] = ids.column()
            if ids.weights is not None:
                made[f"{name}/weights"] = ids.weight_column()
        return made


@dataclass(frozen=True, eq=False)
class _TrainingInputs(Computation):
    layer: DenseFeatures
    ids: _Ids

    name = "feature_inputs"

    def spec(self, shapes: Mapping[str, object]) -> dict[str, Column]:
        width = sum(column.width for column in self.layer.fixed)
        return {"dense": TensorSpec((width,), np.float32), "ids": self.ids.spec(shapes)}

    def run(self, inputs: Inputs) -> dict[str, Column]:
        fixed = self.layer.fixed
        out = np.zeros((inputs.rows, sum(column.width for column in fixed)), np.float32)
        first = 0
        for column in fixed:
            column.fill(inputs, out, first)
            first += column.width
        return {"dense": out, "ids": self.ids.run(inputs)}
